"""A fast test that avoids simulations which cannot succeed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from navarch.scheduler.model.quantity import GPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Task


class GpuRoom:
    """Whether enough whole GPUs could come free, updated as victims are added.

    A necessary condition only: for every requested size, each node holds at most its GPUs divided
    by that size of the tasks that request as much or more. It never rejects what could be placed.
    """

    def __init__(self, tasks: Sequence[Task], session: Session) -> None:
        self._wanted = _wanted(tasks)
        self._session = session
        self._row_of = session.nodes.rows
        counts = session.placer.free_gpu_counts()
        self._fitting = {
            size: sum([free // size * count for free, count in counts.items() if free > 0])
            for size in self._wanted
        }
        """Per size, how many tasks of it the nodes could hold."""

    @cached_property
    def _free(self) -> list[int]:
        """What each node has, including what victims would leave; only read if some leave."""
        return self._session.placer.free_gpus()

    @property
    def exact_for_equals(self) -> bool:
        """Whether all tasks request the same size, and exactly as many as needed could fit."""
        return len(self._wanted) == 1 and self._fitting == self._wanted

    def want(self, tasks: Sequence[Task]) -> None:
        """Replace the tasks by those of another part, of the same sizes."""
        self._wanted = _wanted(tasks)

    def free_up(self, victims: Iterable[Task]) -> None:
        """Take into account that `victims` would leave."""
        for task in victims:
            node, gpu = task.placement.node, task.request.gpu
            if node is not None:
                # At most as many hundredths of whole GPUs come free when the task leaves.
                freed = gpu.devices * GPU if gpu.shared else gpu.whole
                self._change(self._row_of[node], freed)

    def suffices(self) -> bool:
        """Return whether the tasks could fit if all victims so far left."""
        for size, count in self._wanted.items():  # noqa: SIM110 - called with every victim
            if self._fitting[size] < count:
                return False
        return True

    def _change(self, row: int, amount: int) -> None:
        free = self._free
        before = free[row]
        after = free[row] = before + amount
        if after <= 0:
            return  # nothing fits on it, before or after
        for size in self._fitting:
            self._fitting[size] += after // size - max(0, before) // size


def _wanted(tasks: Sequence[Task]) -> dict[int, int]:
    """Return, for every requested size, how many tasks request as much or more."""
    sizes = [size for task in tasks if (size := task.request.gpu.whole)]
    different = set(sizes)
    if len(different) == 1:
        return {sizes[0]: len(sizes)}
    return {size: sum(other >= size for other in sizes) for size in different}
