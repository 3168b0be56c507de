"""Booking running gangs in arrays, without materialising their tasks and nodes."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from navarch.scheduler.framework.node_table import GPU_COLUMN, need_of
from navarch.scheduler.model.lazy_tasks import LazyTasks
from navarch.scheduler.model.placement import Booking, Hold, Placement
from navarch.scheduler.model.request import WHOLE_KINDS
from navarch.scheduler.model.status import ACTIVE_USED_MASK, ALLOCATED_MASK, TaskStatus

if TYPE_CHECKING:
    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.model.cluster import JobSpec
    from navarch.scheduler.model.job import Job, PodSet, Task

ROOMY_FROM: Final = 16
"""If more than this many times the requested GPUs are idle, few nodes will be needed one by one."""

_node, _request = attrgetter("node"), attrgetter("request")


class LazyLoader:
    """Books every task where the snapshot found it.

    Tasks of a gang that are all alike and simply hold what they request are subtracted from the
    arrays of the nodes; they are materialised when the gang or the contents of a node are read.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._booked: list[Job] = []
        """Jobs that are booked without tasks."""
        self._found: dict[tuple[TaskStatus, str], Placement] = {}
        """One placement for all tasks of the same status on the same node."""

    def load(self) -> None:
        """Book all tasks."""
        rows: list[int] = []
        needs: list[tuple[int, int, int, int]] = []
        counts: list[int] = []
        others: list[PodSet] = []
        row_of = self._state.nodes.rows
        self._state.jobs.enter = self._enter
        steady = [spec.tasks[0] for spec in self._state.jobs.steady]
        rows += [row_of[task.node] for task in steady if task.node is not None]
        assert len(rows) == len(steady), "each steady task has a node"
        for request, equal in groupby(map(_request, steady)):
            needs.append(need_of(request))
            counts.append(sum(1 for _ in equal))
        for job in self._state.jobs.others:
            for pod_set in job.pod_sets.values():
                if pod_set.untouched(~ACTIVE_USED_MASK):
                    continue  # it holds nothing
                nodes = None if job.is_materialised else _plain_nodes(job.spec)
                if nodes is None:
                    others.append(pod_set)
                    continue
                rows += map(row_of.__getitem__, nodes)
                needs.append(need_of(job.spec.tasks[0].request))
                counts.append(len(nodes))
                job.enter = self._enter
                self._booked.append(job)
        if rows:
            self._state.node_list.book(rows, needs, counts)
            self._state.changes.enter_all = self._enter_all
        for pod_set in others:
            for task in pod_set.tasks:
                self._state.load(task)
        self._materialise_likely()

    def _materialise_likely(self) -> None:
        """Materialise the nodes and tasks that will probably be needed one by one.

        This decides nothing: all others are materialised when they are read.
        """
        nodes = self._state.node_list
        left = int(nodes.idle[:, GPU_COLUMN].sum())
        waiting = [job for job in self._state.jobs.others if job.has_pending]
        lazy = [job for job in waiting if not job.is_materialised]
        wanted = sum([job.gpus_wanted for job in lazy])
        if len(lazy) < len(waiting) or wanted * ROOMY_FROM >= left:
            nodes.make_roomy()
        for job in lazy:
            if job.size == 1:
                # Whatever the order of tasks, the only one is next.
                (pod_set,) = job.pod_sets.values()
                only = LazyTasks(pod_set, 1)
                job.next_tasks = (0, only, only)
            wanted = job.gpus_wanted
            if wanted <= left:
                left -= wanted
                job.materialise()

    def _enter_all(self) -> None:
        """Enter all tasks at their nodes."""
        self._state.changes.enter_all = None
        steady = [self._state.jobs[spec.name] for spec in self._state.jobs.steady]
        for job in (*steady, *self._booked):
            if not job.is_materialised:
                job.materialise()

    def _enter(self, task: Task) -> None:
        """Enter a task, which is booked already, at its node."""
        spec = task.spec
        assert spec.node is not None, f"{spec.uid} has a node"
        place = (spec.status, spec.node)
        placement = self._found.get(place)
        if placement is None:
            placement = Placement(*place, (), (Booking(spec.node, Hold.NOW),))
            self._found[place] = placement
        task.placement = placement
        self._state.nodes[spec.node].enter(task)


def _plain_nodes(spec: JobSpec) -> list[str] | None:
    """Return the nodes of tasks that are alike, if each simply holds what it requests there."""
    first = spec.tasks[0]
    if (
        not first.status & ALLOCATED_MASK
        or first.request.gpu.kind not in WHOLE_KINDS
        or first.claims
    ):
        return None
    nodes = list(map(_node, spec.tasks))
    return None if None in nodes else nodes
