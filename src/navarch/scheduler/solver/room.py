"""A quick test that spares simulations which cannot succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.quantity import GPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from navarch.scheduler.state.node import Node
    from navarch.scheduler.state.task import Task


class GpuRoom:
    """Whether enough whole GPUs could come free, kept up to date as victims are added.

    A necessary condition only: for every size asked for, each node holds at most its GPUs divided
    by that size of the tasks that ask for as much or more. It never rejects what could be placed.
    """

    def __init__(self, tasks: Sequence[Task], nodes: Iterable[Node]) -> None:
        sizes = [task.request.gpu.whole for task in tasks if task.request.gpu.whole]
        self._wanted = {size: sum(other >= size for other in sizes) for size in set(sizes)}
        self._fitting = dict.fromkeys(self._wanted, 0)
        """Per size, how many tasks of it the nodes could hold."""
        self._free: dict[str, int] = {}
        for node in nodes:
            self._free[node.name] = 0
            self._change(node.name, node.idle.gpu + node.releasing.gpu)

    @property
    def exact_for_equals(self) -> bool:
        """Whether all tasks ask for the same size, and just as many as wanted could fit."""
        return len(self._wanted) == 1 and self._fitting == self._wanted

    def want(self, tasks: Sequence[Task]) -> None:
        """Have the tasks of another part in mind, of the same sizes."""
        sizes = [task.request.gpu.whole for task in tasks if task.request.gpu.whole]
        self._wanted = {size: sum(other >= size for other in sizes) for size in set(sizes)}

    def free_up(self, victims: Iterable[Task]) -> None:
        """Take into account that `victims` would leave."""
        for task in victims:
            if task.node is not None and task.node in self._free:
                self._change(task.node, _freed(task))

    def suffices(self) -> bool:
        """Say whether the tasks could fit if all victims so far left."""
        return all(self._fitting[size] >= count for size, count in self._wanted.items())

    def _change(self, node: str, amount: int) -> None:
        before, after = self._free[node], self._free[node] + amount
        self._free[node] = after
        for size in self._fitting:
            self._fitting[size] += max(0, after) // size - max(0, before) // size


def _freed(task: Task) -> int:
    """Return at most how many hundredths of whole GPUs come free when the task leaves."""
    gpu = task.request.gpu
    return gpu.devices * GPU if gpu.shared else gpu.whole
