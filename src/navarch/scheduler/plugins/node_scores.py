"""Plugins that score nodes on a single trait."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from navarch.scheduler.framework.node_table import GPU_COLUMN, Column, NodeTable
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.cluster import NodeSpec
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.task import Task
from navarch.scheduler.plugins import scores
from navarch.scheduler.plugins.affinity import Neighbours


@dataclass
class NodeAvailability:
    """Prefers nodes where the task can start at once."""

    name: ClassVar[str] = "nodeavailability"
    _session: Session = field(init=False, repr=False)

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        self._session = session
        session.add_node_order_fn(self._score, scope="node", vector=self._scores, any_job=True)

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""

    def _score(self, task: Task, node: Node) -> float:
        return scores.AVAILABILITY if self._session.fits_now(task, node) else 0.0

    @staticmethod
    def _scores(task: Task, nodes: NodeTable) -> Column:
        return np.where(nodes.fits_now(task.request), float(scores.AVAILABILITY), 0.0)


class ResourceType:
    """Keeps tasks without GPUs on nodes without GPUs."""

    name: ClassVar[str] = "resourcetype"

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        session.add_node_order_fn(
            self._score,
            scope="static",
            vector=_score_cpu_nodes,
            only_for=lambda task: not task.requires_gpu,
            any_job=True,
        )

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""

    @staticmethod
    def _score(task: Task, node: Node) -> float:
        return scores.RESOURCE_TYPE if not task.requires_gpu and node.is_cpu_only else 0.0


def _score_cpu_nodes(task: Task, nodes: NodeTable) -> Column:
    scored = np.zeros(len(nodes))
    if not task.requires_gpu and not nodes.total[:, GPU_COLUMN].all():
        scored[nodes.rows_of(_is_cpu_only)] = scores.RESOURCE_TYPE
    return scored


def _is_cpu_only(spec: NodeSpec) -> bool:
    return not (spec.gpus or spec.mig_strategy or spec.mig or spec.dra_gpus)


class GpuSharingOrder:
    """Prefers nodes with a shared GPU that has room, over opening another."""

    name: ClassVar[str] = "gpusharingorder"

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        session.add_node_order_fn(
            self._score,
            scope="node",
            only_for=lambda task: task.request.gpu.shared,
            any_job=True,
        )

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""

    @staticmethod
    def _score(task: Task, node: Node) -> float:
        if not task.request.gpu.shared or not node.groups_with_room(task.request):
            return 0.0
        return scores.GPU_SHARING


class NominatedNode:
    """Prefers the node that was promised to the task before."""

    name: ClassVar[str] = "nominatednode"

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        session.add_node_order_fn(
            self._score,
            scope="static",
            only_for=lambda task: task.spec.nominated_node is not None,
            any_job=True,
        )

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""

    @staticmethod
    def _score(task: Task, node: Node) -> float:
        return scores.NOMINATED_NODE if task.spec.nominated_node == node.name else 0.0


@dataclass
class PodAffinity:
    """Prefers nodes near the tasks that a task would like to be near."""

    name: ClassVar[str] = "podaffinity"
    _neighbours: Neighbours = field(init=False, repr=False)

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        self._neighbours = Neighbours(session)
        session.add_node_order_fn(
            self._score, scope="global", only_for=lambda task: bool(task.spec.preferred_affinity)
        )

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""

    def _score(self, task: Task, node: Node) -> float:
        if not task.spec.preferred_affinity:
            return 0.0
        return scores.POD_AFFINITY * self._neighbours.preference(task, node)
