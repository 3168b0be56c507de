"""A quick test that spares simulations which cannot succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.quantity import GPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from navarch.scheduler.state.node import Node
    from navarch.scheduler.state.task import Task


class GpuRoom:
    """Whether enough whole GPUs could come free, node by node.

    A necessary condition only: for every size asked for, each node holds at most its GPUs divided
    by that size of the tasks that ask for as much or more. It never rejects what could be placed.
    """

    def __init__(self, tasks: Sequence[Task], nodes: Iterable[Node]) -> None:
        self._needs = sorted(
            (t.request.gpu.whole for t in tasks if t.request.gpu.whole), reverse=True
        )
        self._free = {node.name: node.idle.gpu + node.releasing.gpu for node in nodes}

    def suffices_with(self, victims: Iterable[Task]) -> bool:
        """Say whether the tasks could fit if all `victims` left."""
        if not self._needs:
            return True
        free = dict(self._free)
        for task in victims:
            if task.node is not None and task.node in free:
                free[task.node] += _freed(task)
        return all(
            sum(room // size for room in free.values() if room >= size) >= count
            for count, size in enumerate(self._needs, start=1)
        )


def _freed(task: Task) -> int:
    """Return at most how many hundredths of whole GPUs come free when the task leaves."""
    gpu = task.request.gpu
    return gpu.devices * GPU if gpu.shared else gpu.whole
