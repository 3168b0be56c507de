"""Placing one job: find nodes for the tasks that are next, all of them or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from navarch.scheduler.framework.gang import tasks_to_place
from navarch.scheduler.model.fit import Fit, UnschedulableJob
from navarch.scheduler.model.job import PodSet
from navarch.scheduler.model.lazy_tasks import materialise
from navarch.scheduler.model.node import WHOLE_GPU

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.framework.job_queue import JobIndex, JobQueue
    from navarch.scheduler.framework.node_table import NodeTable
    from navarch.scheduler.framework.statement import Statement
    from navarch.scheduler.model.job import Job, SubGroup, Task
    from navarch.scheduler.model.node import Node


class Placer(Protocol):
    """Finds places, serving orders and free GPUs.

    A session chooses its placer once, when it opens. All placers decide the same and differ only
    in cost: `ReferencePlacer` calls every hook for every node, `VectorPlacer` works with arrays
    and keeps results, `CheckedPlacer` runs both and compares.
    """

    @property
    def waiting(self) -> JobIndex:
        """Jobs with a pending task."""
        ...

    @property
    def interruptible(self) -> JobIndex:
        """Jobs that could make room for others."""
        ...

    def load(self) -> None:
        """Book every task where the snapshot found it."""
        ...

    def prepare(self) -> None:
        """Compute what is needed once all plugins have registered."""
        ...

    def reset(self) -> None:
        """Drop everything that was derived from hooks: one of them has changed."""
        ...

    def place(
        self, attempt: PlacementAttempt, tasks: Sequence[Task], nodes: Sequence[Node]
    ) -> bool:
        """Put the tasks of one pod set on some of `nodes`; return whether it worked.

        A failed call leaves what it has placed so far to the caller to roll back.
        """
        ...

    def queue(
        self, jobs: Iterable[Job], *, victims: bool = False, depth: int | None = None
    ) -> JobQueue:
        """Return a queue of `jobs`, at most `depth` of the best per leaf."""
        ...

    def queue_from(
        self, index: JobIndex, wanted: Callable[[Job], bool], *, victims: bool = False
    ) -> JobQueue:
        """Return a queue of the wanted jobs of an index."""
        ...

    def node_table(self) -> NodeTable:
        """Return all nodes as arrays."""
        ...

    def free_gpus(self) -> list[int]:
        """Return what each node has, idle or coming free, in hundredths of whole GPUs."""
        ...

    def free_gpu_counts(self) -> Mapping[int, int]:
        """Return how many of the nodes with GPUs have each amount of `free_gpus`."""
        ...

    def gpus_to_spare(self) -> int:
        """Return all unpromised GPUs, whole, shared or sliced, in hundredths."""
        ...

    def rows_with_gpus(self) -> set[int]:
        """Return the nodes on which a GPU, whole, shared or sliced, is idle or coming free."""
        ...


class PlacementAttempt:
    """One attempt to place one job.

    A `real` attempt puts tasks on idle resources where they fit at once. Otherwise places are only
    promised, which shows what would happen once victims have left. A failed attempt leaves the
    statement as it found it. With `record`, the reasons of a failure are recorded.
    """

    __slots__ = ("_placer", "job", "real", "record", "state", "statement")

    def __init__(
        self,
        state: ClusterState,
        placer: Placer,
        statement: Statement,
        job: Job,
        *,
        real: bool,
        record: bool | None = None,
    ) -> None:
        self.state = state
        self.statement = statement
        self.job = job
        self.real = real
        self.record = real if record is None else record
        self._placer = placer

    def place(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> bool:
        """Place `tasks` on some of `nodes`; return whether it worked."""
        if is_plain(self.state, self.job, tasks):
            checkpoint = self.statement.checkpoint()
            if self._placer.place(self, tasks, nodes):
                return True
            self.statement.rollback(checkpoint)
            return False
        return self._place_group(self.job.root, materialise(tasks), nodes)

    def place_one(self, task: Task) -> bool:
        """Place one task on any node, regardless of the others."""
        return self._placer.place(self, [task], self.state.node_list)

    def place_task(self, task: Task, nodes: Sequence[Node]) -> bool:
        """Place one task on the best of `nodes` it fits, calling the hooks for each node."""
        refusal = self.state.pre_predicate(task, self.job)
        if refusal is not None:
            if self.record:
                self.state.note_task_reason(refusal)
            return False
        for _, node in self.state.score_nodes(task, nodes):
            fit = self.state.fit(task, self.job, node, record=self.record)
            if fit is not Fit.NO and self.put(task, node, now=self.real and fit is Fit.NOW):
                return True
        return False

    def put(self, task: Task, node: Node, *, now: bool) -> bool:
        """Put the task on the node, at once or once others have left; return whether it worked."""
        groups: tuple[str, ...] = ()
        if task.request.gpu.shared:
            choice = share_gpus(self.state, task, node, now=now)
            if choice is None:
                return False
            groups, now = choice
        if now:
            self.statement.allocate(task, node, groups)
        else:
            self.statement.pipeline(task, node, groups, update_if_there=self.real)
        return True

    def _place_group(
        self, group: SubGroup | PodSet, tasks: Sequence[Task], nodes: Sequence[Node]
    ) -> bool:
        """Place those of `tasks` that are in the group, all of them on one of its node sets."""
        pod_sets = [group] if isinstance(group, PodSet) else group.all_pod_sets()
        names = {pod_set.name for pod_set in pod_sets}
        tasks = [task for task in tasks if task.spec.sub_group in names]
        if isinstance(group, PodSet) and not tasks:
            return True
        subsets = self.state.subset_nodes(self.job, group, pod_sets, tasks, nodes)
        if isinstance(subsets, UnschedulableJob):
            if self.record:
                self.state.note_job_reason(self.job, subsets)
            return False
        for subset in subsets:
            checkpoint = self.statement.checkpoint()
            if isinstance(group, PodSet):
                placed = self._placer.place(self, tasks, subset)
            else:
                placed = self._place_members(group, tasks, subset)
            if placed:
                return True
            self.statement.rollback(checkpoint)
        return False

    def _place_members(self, group: SubGroup, tasks: Sequence[Task], nodes: Sequence[Node]) -> bool:
        for child in self.state.sort_sub_groups(group.groups):
            if not self._place_group(child, tasks, nodes):
                return False
        pod_sets = self.state.sort_pod_sets(group.pod_sets)
        return all(self._place_group(pod_set, tasks, nodes) for pod_set in pod_sets)


def is_plain(state: ClusterState, job: Job, tasks: Sequence[Task]) -> bool:
    """Return whether a job is a single pod set that no hook confines to some of the nodes."""
    root = job.root
    if root.groups or len(root.pod_sets) != 1 or not tasks:
        return False
    hooks = state.hooks("subset_nodes")
    return not hooks or not any(hook.concerns(tasks[0]) for hook in hooks)


def admitted(state: ClusterState, job: Job, *, real: bool) -> Sequence[Task] | None:
    """Return the tasks of `job` that are next, or `None` if the queues do not allow them."""
    state.pre_job_allocation(job)
    tasks = tasks_to_place(state, job, real=real)
    verdict = state.is_job_over_capacity(job, tasks)
    if verdict.schedulable:
        return tasks
    if real:
        state.note_job_reason(job, UnschedulableJob(summary=verdict.message))
    return None


def share_gpus(
    state: ClusterState, task: Task, node: Node, *, now: bool
) -> tuple[tuple[str, ...], bool] | None:
    """Return the best GPUs of the node for the task, and whether it can have them at once.

    Without `now`, GPUs that are coming free count as well. The result is `None` if there are too
    few.
    """
    wanted = task.request.gpu.devices
    whole = [WHOLE_GPU] * max(0, node.whole_gpus_free)
    fitting = state.score_gpus(task, node, [*node.groups_with_room(task.request), *whole])
    groups: list[str] = []
    opened = 0
    for gpu in fitting[:wanted]:
        if gpu == WHOLE_GPU:
            opened += 1
            # An id that no GPU of the node has; derived from names, so a replay gives the same.
            number = 0
            while (new := f"{node.name}/{task.uid}/{number}") in {*node.groups, *groups}:
                number += 1
            groups.append(new)
            continue
        if node.groups[gpu].awaited:
            opened += 1  # it is only promised: a task that starts on it takes an idle GPU
        else:
            now = now and node.group_fits_now(gpu, task.request)
        groups.append(gpu)
    if len(groups) < wanted:
        return None
    return tuple(groups), now and node.can_open_now(opened, task.request)
