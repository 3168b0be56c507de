"""Plugins that score nodes, or the GPUs of a node, by one property."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from navarch.scheduler.framework.node_table import GPU_COLUMN, Column, NodeTable
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.cluster import PREFER_NO_SCHEDULE, NodeSpec
from navarch.scheduler.model.job import Task
from navarch.scheduler.model.node import WHOLE_GPU, Node
from navarch.scheduler.plugins import scores
from navarch.scheduler.plugins.affinity import Neighbours


class BuiltInPlugin:
    """A plugin that needs nothing when its session closes."""

    def on_session_close(self, session: Session) -> None:
        """Do nothing."""


@dataclass
class NodeAvailability(BuiltInPlugin):
    """Prefers nodes where the task can start immediately."""

    name: ClassVar[str] = "nodeavailability"
    _session: Session = field(init=False, repr=False)

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        self._session = session
        session.add_node_order_fn(self._score, scope="node", vector=self._scores, any_job=True)

    def _score(self, task: Task, node: Node) -> float:
        return scores.AVAILABILITY if self._session.fits_now(task, node) else 0.0

    @staticmethod
    def _scores(task: Task, nodes: NodeTable) -> Column:
        return np.where(nodes.fits_now(task.request), float(scores.AVAILABILITY), 0.0)


class ResourceType(BuiltInPlugin):
    """Prefers nodes without GPUs for tasks without GPUs."""

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


class SoftTaints(BuiltInPlugin):
    """Prefers nodes without a taint of effect PreferNoSchedule, tolerated or not."""

    name: ClassVar[str] = "softtaints"

    def on_session_open(self, session: Session) -> None:
        """Register the score if any node has such a taint."""
        if session.node_table().rows_of(_has_soft_taint):
            session.add_node_order_fn(
                self._score, scope="static", vector=_score_soft_taints, any_job=True
            )

    @staticmethod
    def _score(_task: Task, node: Node) -> float:
        return 0.0 if _has_soft_taint(node.spec) else scores.SOFT_TAINTS


def _score_soft_taints(_task: Task, nodes: NodeTable) -> Column:
    scored = np.full(len(nodes), float(scores.SOFT_TAINTS))
    scored[nodes.rows_of(_has_soft_taint)] = 0.0
    return scored


def _has_soft_taint(spec: NodeSpec) -> bool:
    return any(taint.effect == PREFER_NO_SCHEDULE for taint in spec.taints)


class GpuSharingOrder(BuiltInPlugin):
    """Prefers nodes with a shared GPU that has room."""

    name: ClassVar[str] = "gpusharingorder"

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        session.add_node_order_fn(
            self._score,
            scope="node",
            only_for=lambda task: task.request.gpu.shared,
            any_job=True,
        )

    @staticmethod
    def _score(task: Task, node: Node) -> float:
        if not task.request.gpu.shared or not node.groups_with_room(task.request):
            return 0.0
        return scores.GPU_SHARING


class NominatedNode(BuiltInPlugin):
    """Prefers the node that an earlier cycle nominated for the task."""

    name: ClassVar[str] = "nominatednode"

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        session.add_node_order_fn(
            self._score,
            scope="static",
            only_for=lambda task: task.spec.nominated_node is not None,
            any_job=True,
        )

    @staticmethod
    def _score(task: Task, node: Node) -> float:
        return scores.NOMINATED_NODE if task.spec.nominated_node == node.name else 0.0


@dataclass
class PodAffinity(BuiltInPlugin):
    """Prefers nodes that satisfy the task's preferred affinity."""

    name: ClassVar[str] = "podaffinity"
    _neighbours: Neighbours = field(init=False, repr=False)

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        self._neighbours = Neighbours(session)
        session.add_node_order_fn(
            self._score, scope="global", only_for=lambda task: bool(task.spec.preferred_affinity)
        )

    def _score(self, task: Task, node: Node) -> float:
        if not task.spec.preferred_affinity:
            return 0.0
        return scores.POD_AFFINITY * self._neighbours.preference(task, node)


class GpuPack(BuiltInPlugin):
    """Prefers the fullest shared GPU with room over an unused GPU."""

    name: ClassVar[str] = "gpupack"

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        session.add_gpu_order_fn(self._score, scope="node")

    @staticmethod
    def _score(_task: Task, node: Node, gpu: str) -> float:
        return 0.0 if gpu == WHOLE_GPU else node.group_used(gpu)


class GpuSpread(BuiltInPlugin):
    """Prefers the emptiest GPU."""

    name: ClassVar[str] = "gpuspread"

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        session.add_gpu_order_fn(self._score, scope="node")

    @staticmethod
    def _score(_task: Task, node: Node, gpu: str) -> float:
        return 1.0 if gpu == WHOLE_GPU else 1.0 - node.group_used(gpu)
