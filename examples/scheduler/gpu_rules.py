"""Two small rules as functions: a predicate about GPUs, and a score by how busy they are.

The score has both forms: for one node, and for all nodes as columns.
"""

from typing import Any, ClassVar

from navarch.scheduler.framework.node_table import NodeTable
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.model.node import Node


def gpu_predicate(task: Task, _job: Job, node: Node) -> str | None:
    """Reject nodes without a free GPU for tasks that need one."""
    if task.requires_gpu and not node.has_available_gpus():
        return f"node {node.name} has no available GPUs"
    return None


def gpu_utilization_score(_task: Task, node: Node) -> float:
    """Prefer nodes with busy GPUs."""
    return node.gpu_utilization()


def gpu_utilization_scores(_task: Task, nodes: NodeTable) -> Any:  # noqa: ANN401
    """Prefer nodes with busy GPUs, for all nodes at once; every node must have GPUs."""
    return 1.0 - nodes.gpu_idle / nodes.gpu_total


class GpuRules:
    """Registers both rules."""

    name: ClassVar[str] = "gpu-rules"

    def on_session_open(self, session: Session) -> None:
        """Register the predicate and the score."""
        session.add_predicate_fn(gpu_predicate, scope="node")
        session.add_node_order_fn(gpu_utilization_scores, scope="node", vectorised=True)

    def on_session_close(self, session: Session) -> None:
        """Nothing to clean up."""
