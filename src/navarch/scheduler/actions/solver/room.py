"""A quick test that spares simulations which cannot succeed."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from navarch.scheduler.engine.check import check_same
from navarch.scheduler.framework.node_table import GPU_COLUMN
from navarch.scheduler.model.quantity import GPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.cluster import NodeSpec
    from navarch.scheduler.model.task import Task


class GpuRoom:
    """Whether enough whole GPUs could come free, kept up to date as victims are added.

    A necessary condition only: for every size asked for, each node holds at most its GPUs divided
    by that size of the tasks that ask for as much or more. It never rejects what could be placed.
    """

    def __init__(self, tasks: Sequence[Task], session: Session) -> None:
        self._wanted = _wanted(tasks)
        self._session = session
        self._row_of = session.nodes.rows
        if session.parameters.fast_paths:
            counts: Mapping[int, int] = session.columns.up_to_date().extent("gpu").counts
        else:
            counts = Counter(self._free)
        self._fitting = {
            size: sum([free // size * count for free, count in counts.items() if free > 0])
            for size in self._wanted
        }
        """Per size, how many tasks of it the nodes could hold."""

    @cached_property
    def _free(self) -> list[int]:
        """What each node has, victims that would leave included; many ask for nobody to leave."""
        if self._session.parameters.fast_paths:
            free: list[int] = self._session.columns.up_to_date().free[:, GPU_COLUMN].tolist()
            return free
        return [node.idle.gpu + node.releasing.gpu for node in self._session.node_list]

    @property
    def exact_for_equals(self) -> bool:
        """Whether all tasks ask for the same size, and just as many as wanted could fit."""
        return len(self._wanted) == 1 and self._fitting == self._wanted

    def want(self, tasks: Sequence[Task]) -> None:
        """Have the tasks of another part in mind, of the same sizes."""
        self._wanted = _wanted(tasks)

    def free_up(self, victims: Iterable[Task]) -> None:
        """Take into account that `victims` would leave."""
        for task in victims:
            node = task.placement.node
            if node is not None:
                self._change(self._row_of[node], _freed(task))

    def suffices(self) -> bool:
        """Say whether the tasks could fit if all victims so far left."""
        for size, count in self._wanted.items():  # noqa: SIM110 - asked with every victim
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


def gpus_to_spare(session: Session) -> int:
    """Return hundredths of GPUs, whole, shared or sliced, that are or will be unpromised."""
    if session.changes.shares or not session.parameters.fast_paths:
        return _gpus_to_spare(session)
    columns = session.columns.up_to_date()
    gpus = columns.extent("gpu")
    spare = int(columns.free[:, GPU_COLUMN].sum()) if gpus.overdrawn else gpus.sum
    sliced = columns.rows_of(_has_more_than_whole_gpus)
    if sliced:
        nodes = columns.at(sliced)
        spare += sum(n.gpu_to_spare() - n.idle.gpu - n.releasing.gpu for n in nodes)
    if session.parameters.check_fast_paths:
        check_same("hundredths of GPUs to spare are", spare, _gpus_to_spare(session))
    return spare


def _gpus_to_spare(session: Session) -> int:
    return sum(node.gpu_to_spare() for node in session.nodes.values())


def rows_with_gpus(session: Session) -> set[int]:
    """Return the rows of nodes on which a GPU, whole, shared or sliced, is idle or about to be."""
    if session.changes.shares or not session.parameters.fast_paths:
        return _rows_with_gpus(session)
    columns = session.columns.up_to_date()
    # Nobody has a part of a GPU, so what is idle and what is coming are whole numbers of them.
    rows = columns.extent("gpu").rows.copy()
    sliced = columns.rows_of(_has_more_than_whole_gpus)
    if sliced:
        rows.update(n.index for n in columns.at(sliced) if n.has_available_gpus())
    if session.parameters.check_fast_paths:
        check_same("nodes with GPUs to spare are", rows, _rows_with_gpus(session))
    return rows


def _rows_with_gpus(session: Session) -> set[int]:
    return {node.index for node in session.nodes.values() if node.has_available_gpus()}


def _has_more_than_whole_gpus(spec: NodeSpec) -> bool:
    return bool(spec.mig or spec.dra_gpus)


def _wanted(tasks: Sequence[Task]) -> dict[int, int]:
    """Return, for every size of GPUs asked for, how many tasks ask for as much or more."""
    sizes = [size for task in tasks if (size := task.request.gpu.whole)]
    different = set(sizes)
    if len(different) == 1:
        return {sizes[0]: len(sizes)}
    return {size: sum(other >= size for other in sizes) for size in different}


def _freed(task: Task) -> int:
    """Return at most how many hundredths of whole GPUs come free when the task leaves."""
    gpu = task.request.gpu
    return gpu.devices * GPU if gpu.shared else gpu.whole
