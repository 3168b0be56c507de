"""Node placement: fill nodes one after another, or spread work over all nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from navarch.scheduler.arguments import argument
from navarch.scheduler.framework.hooks import Measure
from navarch.scheduler.framework.node_table import CPU_COLUMN, GPU_COLUMN, Column, NodeTable
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.quantity import GPU
from navarch.scheduler.plugins import scores
from navarch.scheduler.plugins.node_scores import BuiltInPlugin

Strategy = Literal["binpack", "spread"]


@dataclass
class NodePlacement(BuiltInPlugin):
    """Scores nodes by how full they are, separately for GPU tasks and CPU tasks."""

    name: ClassVar[str] = "nodeplacement"

    gpu: Strategy = field(default="binpack", metadata=argument("gpu"))
    cpu: Strategy = field(default="binpack", metadata=argument("cpu"))

    _least: int = field(init=False, repr=False, default=0)
    _most: int = field(init=False, repr=False, default=0)

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        session.add_node_pre_order_fn(self._measure, measure=Measure(self._figure, self._set_range))
        session.add_node_order_fn(self._score, scope="node", vector=self._scores, any_job=True)

    def _measure(self, task: Task, nodes: Sequence[Node]) -> None:
        """Record the range of free resources over the nodes that have the needed resource."""
        free = [free_of(task, node) for node in nodes if has_kind(task, node)]
        self._least, self._most = min(free, default=0), max(free, default=0)

    def _figure(self, task: Task) -> str | None:
        strategy = self.gpu if task.requires_gpu else self.cpu
        return None if strategy == "spread" else "gpu" if task.requires_gpu else "cpu"

    def _set_range(self, _task: Task, least: int, most: int) -> None:
        self._least, self._most = least, most

    def _scores(self, task: Task, nodes: NodeTable) -> Column:
        column = GPU_COLUMN if task.requires_gpu else CPU_COLUMN
        has, free = nodes.total[:, column] > 0, nodes.free[:, column]
        if (self.gpu if task.requires_gpu else self.cpu) == "spread":
            whole = nodes.total[:, column]
            if task.requires_gpu:
                whole = np.where(nodes.gpu_labels > 0, nodes.gpu_labels * GPU, whole)
            return np.divide(free, whole, out=np.zeros(len(nodes)), where=whole != 0)
        if self._most == 0:
            return np.zeros(len(nodes))
        if self._least == self._most:
            return np.where(has, float(scores.MAX_DENSITY), 0.0)
        emptiness = (free - self._least) / (self._most - self._least)
        return np.where(has, scores.MAX_DENSITY * (1 - emptiness), 0.0)

    def _score(self, task: Task, node: Node) -> float:
        strategy = self.gpu if task.requires_gpu else self.cpu
        return self._pack(task, node) if strategy == "binpack" else spread_score(task, node)

    def _pack(self, task: Task, node: Node) -> float:
        if self._most == 0 or not has_kind(task, node):
            return 0.0
        if self._least == self._most:
            return float(scores.MAX_DENSITY)
        emptiness = (free_of(task, node) - self._least) / (self._most - self._least)
        return scores.MAX_DENSITY * (1 - emptiness)


def spread_score(task: Task, node: Node) -> float:
    """Return the free part of the node, from 0 to 1."""
    if not task.requires_gpu:
        return free_of(task, node) / node.allocatable.cpu if node.allocatable.cpu else 0.0
    count = node.spec.gpu_count * GPU or node.allocatable.gpu
    return free_of(task, node) / count if count else 0.0


def has_kind(task: Task, node: Node) -> bool:
    """Return whether the node has the resource by which the task is placed: GPU or CPU."""
    return (node.allocatable.gpu if task.requires_gpu else node.allocatable.cpu) > 0


def free_of(task: Task, node: Node) -> int:
    """Return how much of that resource is idle or being released."""
    if task.requires_gpu:
        return node.idle.gpu + node.releasing.gpu
    return node.idle.cpu + node.releasing.cpu
