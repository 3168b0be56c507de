"""What each placed task is charged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.quantity import Amounts
    from navarch.scheduler.model.task import Task


class Charges:
    """The charge of each task that has, or had, a place.

    Only for requests for GPU memory it depends on the GPUs of the node, and has to be kept.
    """

    def __init__(self) -> None:
        self._by_task: dict[str, Amounts] = {}

    def enter(self, task: Task, node: Node) -> Amounts:
        """Return what the task is charged on a node, and remember it."""
        quota = node.quota_of(task.request)
        if task.request.fixed_quota is None:
            self._by_task[task.uid] = quota
        return quota

    def of(self, task: Task) -> Amounts:
        """Return what the task is charged where it is, or was last."""
        return task.request.fixed_quota or self._by_task[task.uid]
