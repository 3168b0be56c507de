"""A job inside a session: its tasks, and the tree of groups whose leaves are pod sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from navarch.scheduler.model.cluster import JobSpec, SubGroupSpec, TaskSpec, TopologyConstraint
from navarch.scheduler.model.placement import Placement
from navarch.scheduler.model.quantity import NOTHING, Amounts
from navarch.scheduler.model.request import Request
from navarch.scheduler.model.status import (
    ACTIVE_ALLOCATED_MASK,
    ACTIVE_USED_MASK,
    ALIVE_MASK,
    TaskStatus,
)
from navarch.scheduler.model.task_kinds import Kinds, end_of_equals

T = TypeVar("T")

FEW_SHAPES: Final = 4
"""Gangs in which looks of tasks change more often than this are looked at task by task."""


UNPLACED: Final = {status: Placement(status) for status in TaskStatus}
"""The placement of a task without a node, by status."""


class Task:
    """One task: fixed facts from the snapshot, and a placement that statements change."""

    __slots__ = (
        "created_at",
        "job",
        "kind",
        "labels",
        "namespace",
        "pending_quota",
        "placement",
        "request",
        "requires_gpu",
        "spec",
        "uid",
    )

    def __init__(self, spec: TaskSpec, job: Job, *, min_gpu_memory_mib: int) -> None:
        self.spec = spec
        self.uid = spec.uid
        self.job = job
        self.namespace = job.namespace
        self.request: Request = spec.request
        self.labels: Mapping[str, str] = spec.labels
        self.requires_gpu = spec.request.requires_gpu
        self.created_at: datetime = spec.created_at or job.created_at
        # The quota of the task before its node is known.
        self.pending_quota: Amounts = spec.request.quota_on(min_gpu_memory_mib)
        self.placement = UNPLACED[spec.status]
        self.kind: int | None = None
        """Equal for tasks with equal requests; `None` until it is computed."""

    @property
    def name(self) -> str:
        """The task's name, which is its uid."""
        return self.uid

    @property
    def status(self) -> TaskStatus:
        """Where the task is in its life."""
        return self.placement.status

    @property
    def node(self) -> str | None:
        """The node it is on, or will be on."""
        return self.placement.node

    @property
    def gpu_groups(self) -> tuple[str, ...]:
        """The shared GPUs it uses a part of."""
        return self.placement.gpu_groups

    def is_candidate(self, *, real: bool) -> bool:
        """Return whether the task needs a place: pending, or evicted only in this simulation."""
        placement = self.placement
        if placement.status is TaskStatus.PENDING:
            return True
        return not real and placement.virtual and placement.status is TaskStatus.RELEASING

    def __repr__(self) -> str:
        return f"Task({self.uid}, {self.status.title}, {self.node})"


class TaskShape(NamedTuple):
    """Those tasks of a gang that wait and differ in nothing but their names."""

    kind: int
    specs: Sequence[TaskSpec]


class PodSet:
    """Equal members of a job, and the least number of them that can run."""

    __slots__ = (
        "_tasks",
        "alike",
        "found",
        "kind",
        "min_available",
        "name",
        "owner",
        "shapes",
        "size",
        "topology",
    )

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
        self._tasks: list[Task] | None = list(tasks)
        self.size = len(tasks)
        """How many tasks there are."""
        self.alike = False
        """Whether all tasks have one kind and age, so that they differ only in their names."""
        self.kind: int | None = None
        """The kind of all tasks, if they are alike and pending."""
        self.shapes: Sequence[TaskShape] = ()
        """The few shapes of the tasks, if all wait and have one age."""
        self.owner: Job | None = None
        self.found: TaskStatus | None = None
        """The state that all tasks had in the snapshot, valid as long as nothing has changed."""

    @property
    def tasks(self) -> list[Task]:
        """The tasks by uid, materialised on first use."""
        if self._tasks is None:
            assert self.owner is not None, "tasks that are still to be made have an owner"
            self.owner.materialise()
        assert self._tasks is not None, "they have been made"
        return self._tasks

    @property
    def first(self) -> Task:
        """The first task by uid."""
        if self._tasks is None:
            assert self.owner is not None, "tasks that are still to be made have an owner"
            return self.owner.first_of(self)
        return self._tasks[0]

    def hold(self, tasks: list[Task] | None, size: int) -> None:
        """Hold `tasks`, or `size` tasks that are not materialised yet."""
        self._tasks = tasks
        self.size = size

    @property
    def common_status(self) -> int:
        """The state that all tasks were found in and still have; 0 if some may have changed."""
        owner = self.owner
        if owner is None or owner.version or self.found is None:
            return 0
        return self.found

    def count(self, mask: int) -> int:
        """Return how many tasks are in one of the states of `mask`."""
        owner = self.owner
        if owner is not None and not owner.version and self.found is not None:
            return self.size if self.found & mask else 0
        total = 0
        for task in self.tasks:  # few, mostly: a list of them takes longer
            if task.placement.status & mask:
                total += 1
        return total

    def untouched(self, mask: int) -> bool:
        """Return whether no task has changed, and all were found in a state of `mask`."""
        return bool(self.common_status & mask)

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
        return f"PodSet({self.name}, min={self.min_available}, tasks={self.size})"


class SubGroup:
    """An inner group of a job: further groups, and pod sets."""

    __slots__ = ("groups", "name", "pod_sets", "topology")

    def __init__(
        self,
        name: str,
        topology: TopologyConstraint | None,
        groups: Sequence[SubGroup],
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


def grow(spec: SubGroupSpec) -> SubGroup:
    """Return the live group of `spec`, still without tasks."""
    pod_sets = [PodSet(s.name, s.min_available, s.topology) for s in spec.pod_sets]
    groups = [grow(group) for group in spec.groups] if spec.groups else ()
    return SubGroup(spec.name, spec.topology, groups, pod_sets)


def prune(group: SubGroup, uids: set[str], *, shrink: bool) -> SubGroup:
    """Return a copy of `group` with only the tasks in `uids`."""
    pod_sets = []
    for pod_set in group.pod_sets:
        tasks = [task for task in pod_set.tasks if task.uid in uids]
        minimum = len(tasks) if shrink else pod_set.min_available
        part = PodSet(pod_set.name, minimum, pod_set.topology, tasks)
        part.alike, part.kind = pod_set.alike, pod_set.kind
        pod_sets.append(part)
    groups = [prune(child, uids, shrink=shrink) for child in group.groups]
    return SubGroup(group.name, group.topology, groups, pod_sets)


class Job:
    """One job. A *view* of a job shares its tasks but shows only some of them."""

    __slots__ = (
        "_first",
        "_kinds",
        "_min_gpu_memory_mib",
        "_tasks",
        "created_at",
        "enter",
        "last_start",
        "memo",
        "name",
        "namespace",
        "next_tasks",
        "origin",
        "pod_sets",
        "preemptible",
        "priority",
        "queue",
        "requested_quota",
        "root",
        "size",
        "spec",
        "stale_since",
        "version",
    )

    def __init__(self, spec: JobSpec, *, min_gpu_memory_mib: int, kinds: Kinds) -> None:
        self.spec = spec
        self.name = spec.name
        self.namespace = spec.namespace
        self.queue = spec.queue
        self.priority = spec.priority
        self.preemptible = spec.preemptible
        self.created_at: datetime = spec.created_at
        self.last_start = spec.last_start
        self.stale_since = spec.stale_since
        self.size = len(spec.tasks)
        """How many tasks there are."""
        self.origin: Job = self
        self.version = 0
        """Changes with every change of a task; a view looks at its origin's."""
        self.memo: dict[object, tuple[int, Any]] = {}
        self.next_tasks: tuple[int, Sequence[Task] | None, Sequence[Task] | None] | None = None
        """A version, and the tasks to place next at that version, for real and in simulations."""
        self.requested_quota: tuple[int, Amounts] | None = None
        self._tasks: dict[str, Task] | None = None
        self._first: Task | None = None
        self._min_gpu_memory_mib = min_gpu_memory_mib
        self._kinds = kinds
        self.enter: Callable[[Task], None] | None = None
        """What puts a task where the snapshot found it, if that is still to be done."""
        self.root = grow(spec.root)
        root = self.root
        pod_sets = root.all_pod_sets() if root.groups else root.pod_sets
        self.pod_sets: dict[str, PodSet] = {pod_set.name: pod_set for pod_set in pod_sets}
        if not self._look(kinds):
            self.materialise()
            for pod_set in self.pod_sets.values():
                _compare(pod_set, self, kinds)

    def _look(self, kinds: Kinds) -> bool:
        """Find out what the tasks have in common; return whether they can stay lazy.

        They can if they differ only in their names, or if all wait and have one of a few shapes.
        """
        specs = self.spec.tasks
        if len(self.pod_sets) != 1 or not specs or specs[0].sub_group not in self.pod_sets:
            return False
        first = specs[0]
        if len(specs) > 1:
            end = end_of_equals(specs, 0)
            if end < len(specs):
                return self._look_closer(end, kinds)
        pod_set = self.pod_sets[first.sub_group]
        pod_set.owner, pod_set.found = self, first.status
        pod_set.hold(None, len(specs))
        if first.status is TaskStatus.PENDING:
            pod_set.alike, pod_set.kind = True, kinds.number(first)
        return True

    def _look_closer(self, end: int, kinds: Kinds) -> bool:
        """Group tasks of several shapes by kind; return whether there are only a few.

        The first `end` tasks are alike.
        """
        first, specs = self.spec.tasks[0], self.spec.tasks
        if first.status is not TaskStatus.PENDING:
            return False
        found: dict[int, list[TaskSpec]] = {}
        start = 0
        for _ in range(FEW_SHAPES):
            spec = specs[start]
            if _beside_kind(spec) != _beside_kind(first):
                return False
            found.setdefault(kinds.number(spec), []).extend(specs[start:end])
            start = end
            if start == len(specs):
                break
            end = end_of_equals(specs, start)
        else:
            return False
        pod_set = self.pod_sets[first.sub_group]
        pod_set.owner, pod_set.found = self, first.status
        pod_set.shapes = [TaskShape(kind, members) for kind, members in found.items()]
        pod_set.hold(None, len(specs))
        return True

    def materialise(self) -> None:
        """Make the tasks, each where the snapshot found it."""
        first, specs = self._first, self.spec.tasks
        if len(specs) == 1:
            tasks = [first or self._make(specs[0])]
        else:
            tasks = [
                first if first is not None and spec is first.spec else self._make(spec)
                for spec in sorted(specs, key=_uid)
            ]
        self._tasks = {task.uid: task for task in tasks}
        for pod_set in self.pod_sets.values():
            members = tasks
            if len(self.pod_sets) > 1:
                members = [task for task in tasks if task.spec.sub_group == pod_set.name]
            pod_set.hold(members, len(members))
        if self.enter is not None:
            for task in tasks:
                if task is not first:
                    self.enter(task)

    def _make(self, spec: TaskSpec) -> Task:
        task = Task(spec, self, min_gpu_memory_mib=self._min_gpu_memory_mib)
        pod_set = self.pod_sets[spec.sub_group]
        task.kind = pod_set.kind
        if pod_set.shapes:
            task.kind = self._kinds.number(spec)
        return task

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks by uid, materialised on first use."""
        if self._tasks is None:
            self.materialise()
        assert self._tasks is not None, "they have been made"
        return self._tasks

    def first_of(self, pod_set: PodSet) -> Task:
        """Return the first task by uid of the only pod set, without the others."""
        if self._first is None:
            spec = min(self.spec.tasks, key=_uid)
            self._first = Task(spec, self, min_gpu_memory_mib=self._min_gpu_memory_mib)
            self._first.kind = pod_set.kind
            if self.enter is not None:
                self.enter(self._first)
        return self._first

    @property
    def is_materialised(self) -> bool:
        """Whether the tasks exist as objects."""
        return self._tasks is not None

    @property
    def quota_each(self) -> Amounts:
        """What queues would be charged for each of equal tasks before it has a place."""
        return self.spec.tasks[0].request.quota_on(self._min_gpu_memory_mib)

    def quota_of(self, shapes: Sequence[TaskShape]) -> Amounts:
        """Return what queues would be charged for tasks of a few shapes that have no place."""
        total = NOTHING
        for shape in shapes:
            quota = shape.specs[0].request.quota_on(self._min_gpu_memory_mib)
            total = total.plus(quota.times(len(shape.specs)))
        return total

    @property
    def gpus_wanted(self) -> int:
        """The whole GPUs, in hundredths, that lazy tasks request."""
        (pod_set,) = self.pod_sets.values()
        shapes = pod_set.shapes
        if not shapes:
            return self.spec.tasks[0].request.gpu.whole * pod_set.size
        return sum(shape.specs[0].request.gpu.whole * len(shape.specs) for shape in shapes)

    def looks(self) -> Iterable[tuple[TaskSpec, int]]:
        """Return tasks with the number of tasks that look like them, in order of the first uids."""
        if self._tasks is not None:
            return [(task.spec, 1) for task in self._tasks.values()]
        (pod_set,) = self.pod_sets.values()
        if not pod_set.shapes:
            return [(self.spec.tasks[0], pod_set.size)]
        shapes = sorted(pod_set.shapes, key=lambda shape: min(map(_uid, shape.specs)))
        return [(shape.specs[0], len(shape.specs)) for shape in shapes]

    @property
    def exemplars(self) -> Sequence[TaskSpec]:
        """Tasks of every look there is among those of the snapshot."""
        if self._tasks is not None:
            return self.spec.tasks
        (pod_set,) = self.pod_sets.values()
        shapes = pod_set.shapes
        return [shape.specs[0] for shape in shapes] or self.spec.tasks[:1]

    @property
    def uid(self) -> str:
        """The job's name, which identifies it."""
        return self.name

    @property
    def elastic(self) -> bool:
        """Whether some pod set has more members than it needs."""
        return any(s.size > s.min_available for s in self.pod_sets.values())

    @property
    def ready(self) -> bool:
        """Whether every pod set could reach its minimum."""
        for pod_set in self.pod_sets.values():  # noqa: SIM110 - called for every job: twice as fast
            if not pod_set.ready:
                return False
        return True

    @property
    def satisfied(self) -> bool:
        """Whether every pod set has its minimum, counting tasks on their way out."""
        for pod_set in self.pod_sets.values():
            if pod_set.count(ACTIVE_USED_MASK) < pod_set.min_available:
                return False
        return True

    @property
    def stale(self) -> bool:
        """Whether the job runs with fewer members than it needs, and has finished none."""
        if not self.count(ACTIVE_ALLOCATED_MASK) or self.count(TaskStatus.SUCCEEDED):
            return False
        return not self.satisfied

    def count(self, mask: int) -> int:
        """Return how many tasks are in one of the states of `mask`."""
        total = 0
        for pod_set in self.pod_sets.values():
            total += pod_set.count(mask)
        return total

    def has_any(self, mask: int) -> bool:
        """Return whether some task is in one of the states of `mask`."""
        for pod_set in self.pod_sets.values():
            status = pod_set.common_status
            if status:
                if status & mask:
                    return True
                continue
            for task in pod_set.tasks:
                if task.placement.status & mask:
                    return True
        return False

    def tasks_in(self, mask: int) -> list[Task]:
        """Return the tasks in one of the states of `mask`, by uid."""
        return [task for task in self.tasks.values() if task.placement.status & mask]

    @property
    def has_pending(self) -> bool:
        """Whether a task waits for a place."""
        return self.has_any(TaskStatus.PENDING)

    def remember(self, key: object, work_out: Callable[[], T]) -> T:
        """Return the result of `work_out`, which is called again only after a task has changed."""
        version = self.origin.version
        known = self.memo.get(key)
        if known is None or known[0] != version:
            known = (version, work_out())
            self.memo[key] = known
        value: T = known[1]
        return value

    def view_of(self, tasks: Iterable[Task]) -> Job:
        """Return this job as if it had only `tasks`; minimums stay as they are."""
        uids = {task.uid for task in tasks}
        return self if len(uids) == self.size else self._view(uids, shrink=False)

    def part_of(self, tasks: Sequence[Task]) -> Job:
        """Return a job that consists of `tasks`, and needs all of them."""
        if len(tasks) == self.size:
            for pod_set in self.pod_sets.values():
                if pod_set.min_available != pod_set.size:
                    break
            else:
                return self
        return self._view({task.uid for task in tasks}, shrink=True)

    def _view(self, uids: set[str], *, shrink: bool) -> Job:
        view = Job.__new__(Job)
        for name in _SHARED_BY_VIEWS:
            setattr(view, name, getattr(self, name))
        view.size = len(uids)
        view.memo = {}
        view.next_tasks = view.requested_quota = None
        view._tasks = {  # noqa: SLF001 - its own
            uid: task for uid, task in self.tasks.items() if uid in uids
        }
        view.root = prune(self.root, uids, shrink=shrink)
        view.pod_sets = {pod_set.name: pod_set for pod_set in view.root.all_pod_sets()}
        return view

    def __repr__(self) -> str:
        return f"Job({self.name}, queue={self.queue}, tasks={self.size})"


_SHARED_BY_VIEWS: Final = tuple(
    name
    for name in Job.__slots__
    if name not in {"_tasks", "root", "size", "pod_sets", "memo", "next_tasks", "requested_quota"}
)
"""What a view of a job has in common with it."""

_uid = attrgetter("uid")
_beside_kind = attrgetter("status", "sub_group", "created_at")
"""What tasks of different kinds must have in common to be placed together."""


def _compare(pod_set: PodSet, owner: Job, kinds: Kinds) -> None:
    """Find out what the tasks of a pod set have in common."""
    tasks = pod_set.tasks
    if not tasks:
        return
    first = tasks[0]
    if all(task.placement is first.placement for task in tasks):
        pod_set.owner, pod_set.found = owner, first.status
    if first.status is not TaskStatus.PENDING:
        return
    number = kinds.number(first.spec)
    alike = True
    for task in tasks:
        task.kind = kinds.number(task.spec)
        if task.kind != number or task.created_at is not first.created_at:
            alike = False
    pod_set.alike = alike
    pod_set.kind = number if alike else None
