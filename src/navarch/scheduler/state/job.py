"""A job inside a session: a tree of groups whose leaves are pod sets."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from navarch.scheduler.cluster import JobSpec, SubGroupSpec, TopologyConstraint
from navarch.scheduler.state.task import Task
from navarch.scheduler.status import (
    ACTIVE_ALLOCATED_MASK,
    ACTIVE_USED_MASK,
    ALIVE_MASK,
    TaskStatus,
)

T = TypeVar("T")


class PodSet:
    """Equal members of a job and the least number of them that is worth running."""

    __slots__ = ("min_available", "name", "tasks", "topology")

    def __init__(
        self,
        name: str,
        min_available: int,
        topology: TopologyConstraint | None,
        tasks: Sequence[Task] = (),
    ) -> None:
        self.name = name
        self.min_available = min_available
        self.topology = topology
        self.tasks: list[Task] = list(tasks)

    def count(self, mask: int) -> int:
        """Return how many tasks are in one of the states of `mask`."""
        return sum(1 for task in self.tasks if task.placement.status & mask)

    @property
    def active_allocated(self) -> int:
        """How many tasks hold, or are about to hold, resources."""
        return self.count(ACTIVE_ALLOCATED_MASK)

    @property
    def below_minimum(self) -> bool:
        """Whether fewer tasks are placed than the gang needs."""
        return self.active_allocated < self.min_available

    @property
    def ready(self) -> bool:
        """Whether enough tasks exist, and are not gated, for the gang to start."""
        return self.count(ALIVE_MASK & ~TaskStatus.GATED) >= self.min_available

    def __repr__(self) -> str:
        return f"PodSet({self.name}, min={self.min_available}, tasks={len(self.tasks)})"


class SubGroup:
    """An inner group of a job: further groups, and pod sets."""

    __slots__ = ("groups", "name", "pod_sets", "topology")

    def __init__(
        self,
        name: str,
        topology: TopologyConstraint | None,
        groups: Sequence["SubGroup"],
        pod_sets: Sequence[PodSet],
    ) -> None:
        self.name = name
        self.topology = topology
        self.groups = list(groups)
        self.pod_sets = list(pod_sets)

    def all_pod_sets(self) -> list[PodSet]:
        """Return the pod sets of this group and of all groups in it."""
        found = list(self.pod_sets)
        for group in self.groups:
            found.extend(group.all_pod_sets())
        return found


class Job:
    """One job. A *view* of a job shares its tasks but shows only some of them."""

    __slots__ = (
        "created_at",
        "last_start",
        "memo",
        "name",
        "namespace",
        "origin",
        "pod_sets",
        "preemptible",
        "priority",
        "queue",
        "root",
        "spec",
        "stale_since",
        "tasks",
        "version",
    )

    def __init__(self, spec: JobSpec, *, min_gpu_memory_mib: int) -> None:
        self.spec = spec
        self.name = spec.name
        self.namespace = spec.namespace
        self.queue = spec.queue
        self.priority = spec.priority
        self.preemptible = spec.preemptible
        self.created_at: datetime = spec.created_at
        self.last_start = spec.last_start
        self.stale_since = spec.stale_since
        self.origin: Job = self
        self.version = 0
        """Changes with every change of a task; a view looks at its origin's."""
        self.memo: dict[object, tuple[int, Any]] = {}
        self.tasks: dict[str, Task] = {}
        self.root = _grow(spec.root)
        self.pod_sets: dict[str, PodSet] = {
            pod_set.name: pod_set for pod_set in self.root.all_pod_sets()
        }
        for task_spec in sorted(spec.tasks, key=lambda task: task.uid):
            task = Task(task_spec, self, min_gpu_memory_mib=min_gpu_memory_mib)
            self.tasks[task.uid] = task
            self.pod_sets[task_spec.sub_group].tasks.append(task)

    @property
    def uid(self) -> str:
        """The job's name, which identifies it."""
        return self.name

    @property
    def elastic(self) -> bool:
        """Whether some pod set has more members than it needs."""
        return any(len(s.tasks) > s.min_available for s in self.pod_sets.values())

    @property
    def ready(self) -> bool:
        """Whether every pod set could reach its minimum."""
        return all(pod_set.ready for pod_set in self.pod_sets.values())

    @property
    def satisfied(self) -> bool:
        """Whether every pod set has its minimum, counting tasks on their way out."""
        return all(s.count(ACTIVE_USED_MASK) >= s.min_available for s in self.pod_sets.values())

    @property
    def stale(self) -> bool:
        """Whether the job runs with fewer members than it needs, and has finished none."""
        statuses = [task.placement.status for task in self.tasks.values()]
        if TaskStatus.SUCCEEDED in statuses:
            return False
        return any(s & ACTIVE_ALLOCATED_MASK for s in statuses) and not self.satisfied

    def count(self, mask: int) -> int:
        """Return how many tasks are in one of the states of `mask`."""
        return sum(1 for task in self.tasks.values() if task.placement.status & mask)

    def tasks_in(self, mask: int) -> list[Task]:
        """Return the tasks in one of the states of `mask`, by uid."""
        return [task for task in self.tasks.values() if task.placement.status & mask]

    @property
    def has_pending(self) -> bool:
        """Whether a task waits for a place."""
        return any(t.placement.status is TaskStatus.PENDING for t in self.tasks.values())

    def remember(self, key: object, work_out: Callable[[], T]) -> T:
        """Return what `work_out` gives, worked out again only after a task has changed."""
        version = self.origin.version
        known = self.memo.get(key)
        if known is None or known[0] != version:
            known = (version, work_out())
            self.memo[key] = known
        value: T = known[1]
        return value

    def view_of(self, tasks: Iterable[Task]) -> "Job":
        """Return this job as if it had only `tasks`; minimums stay as they are."""
        return self._view({task.uid for task in tasks}, shrink=False)

    def part_of(self, tasks: Iterable[Task]) -> "Job":
        """Return a job of only `tasks`, all of which it needs."""
        return self._view({task.uid for task in tasks}, shrink=True)

    def _view(self, uids: set[str], *, shrink: bool) -> "Job":
        view = Job.__new__(Job)
        for name in Job.__slots__:
            if name not in {"tasks", "root", "pod_sets", "memo"}:
                setattr(view, name, getattr(self, name))
        view.memo = {}
        view.tasks = {uid: task for uid, task in self.tasks.items() if uid in uids}
        view.root = _prune(self.root, uids, shrink=shrink)
        view.pod_sets = {pod_set.name: pod_set for pod_set in view.root.all_pod_sets()}
        return view

    def __repr__(self) -> str:
        return f"Job({self.name}, queue={self.queue}, tasks={len(self.tasks)})"


def _grow(spec: SubGroupSpec) -> SubGroup:
    """Return the live group of `spec`, still without tasks."""
    pod_sets = [PodSet(s.name, s.min_available, s.topology) for s in spec.pod_sets]
    return SubGroup(spec.name, spec.topology, [_grow(group) for group in spec.groups], pod_sets)


def _prune(group: SubGroup, uids: set[str], *, shrink: bool) -> SubGroup:
    """Return a copy of `group` with only the tasks in `uids`."""
    pod_sets = []
    for pod_set in group.pod_sets:
        tasks = [task for task in pod_set.tasks if task.uid in uids]
        minimum = len(tasks) if shrink else pod_set.min_available
        pod_sets.append(PodSet(pod_set.name, minimum, pod_set.topology, tasks))
    groups = [_prune(child, uids, shrink=shrink) for child in group.groups]
    return SubGroup(group.name, group.topology, groups, pod_sets)
