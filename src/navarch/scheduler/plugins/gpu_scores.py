"""Plugins that choose among the GPUs of a node for a task that takes a part of one."""

from __future__ import annotations

from typing import ClassVar

from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.node import WHOLE_GPU, Node
from navarch.scheduler.model.task import Task


class GpuPack:
    """Fills shared GPUs up before another is opened."""

    name: ClassVar[str] = "gpupack"

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        session.add_gpu_order_fn(self._score, scope="node")

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""

    @staticmethod
    def _score(_task: Task, node: Node, gpu: str) -> float:
        return 0.0 if gpu == WHOLE_GPU else node.group_used(gpu)


class GpuSpread:
    """Gives every task the emptiest GPU."""

    name: ClassVar[str] = "gpuspread"

    def on_session_open(self, session: Session) -> None:
        """Register the score."""
        session.add_gpu_order_fn(self._score, scope="node")

    def on_session_close(self, session: Session) -> None:
        """Nothing to do."""

    @staticmethod
    def _score(_task: Task, node: Node, gpu: str) -> float:
        return 1.0 if gpu == WHOLE_GPU else 1.0 - node.group_used(gpu)
