"""A job inside a session: a tree of groups whose leaves are pod sets."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar, overload

from navarch.scheduler.cluster import JobSpec, SubGroupSpec, TaskSpec, TopologyConstraint
from navarch.scheduler.quantity import NOTHING, Amounts
from navarch.scheduler.request import Request
from navarch.scheduler.state.kind import Kinds, end_of_equals
from navarch.scheduler.state.task import Task
from navarch.scheduler.status import (
    ACTIVE_ALLOCATED_MASK,
    ACTIVE_USED_MASK,
    ALIVE_MASK,
    ANY_MASK,
    TaskStatus,
)

T = TypeVar("T")

FEW_LOOKS: Final = 4
"""Gangs in which looks of tasks change more often than this are looked at task by task."""


class Look(NamedTuple):
    """Those tasks of a gang that wait and differ in nothing but their names."""

    kind: int
    specs: Sequence[TaskSpec]


class PodSet:
    """Equal members of a job and the least number of them that is worth running."""

    __slots__ = (
        "_tasks",
        "alike",
        "found",
        "kind",
        "looks",
        "min_available",
        "name",
        "owner",
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
        """Whether all tasks are of one kind and age, so that only their names tell them apart."""
        self.kind: int | None = None
        """The kind of all tasks, where they are alike and pending."""
        self.looks: Sequence[Look] = ()
        """The few kinds of tasks there are, where all wait and are of one age."""
        self.owner: Job | None = None
        self.found: TaskStatus | None = None
        """The state that all tasks had in the snapshot, good as long as nothing has changed."""

    @property
    def tasks(self) -> list[Task]:
        """The tasks by uid, made when somebody first asks for one of them."""
        if self._tasks is None:
            assert self.owner is not None, "tasks that are still to be made have an owner"
            self.owner.make_tasks()
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
        """Have so many tasks, or these once they are made."""
        self._tasks = tasks
        self.size = size

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
        """Say whether all tasks are still as they were found, in one of the states of `mask`."""
        owner, found = self.owner, self.found
        return owner is not None and found is not None and not owner.version and bool(found & mask)

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


class Members(Sequence[Task]):
    """The first so many tasks of a pod set of equal ones, made when somebody asks for them."""

    __slots__ = ("number", "pod_set")

    def __init__(self, pod_set: PodSet, count: int) -> None:
        self.pod_set = pod_set
        self.number = min(count, pod_set.size)
        """How many there are."""

    @property
    def first(self) -> Task:
        """The first of them; the others need not be made for that."""
        return self.pod_set.first

    @property
    def request(self) -> Request:
        """What each of them asks for."""
        assert self.pod_set.owner is not None, "equal tasks have an owner"
        return self.pod_set.owner.spec.tasks[0].request

    @property
    def charge(self) -> Amounts:
        """What queues would be charged for all of them before they have a place."""
        assert self.pod_set.owner is not None, "equal tasks have an owner"
        each = self.pod_set.owner.charge_each
        return each if self.number == 1 else each.times(self.number)

    def __len__(self) -> int:
        return self.number

    @overload
    def __getitem__(self, index: int) -> Task: ...

    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...

    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        return self.first if index == 0 else self.made()[index]

    def __iter__(self) -> Iterator[Task]:
        return iter(self.made())

    def made(self) -> list[Task]:
        """Return the tasks themselves."""
        tasks = self.pod_set.tasks
        return tasks if len(tasks) == self.number else tasks[: self.number]


class Mixed(Sequence[Task]):
    """All tasks of a pod set of a few kinds, in order, made when somebody asks for them."""

    __slots__ = ("_made", "_order", "looks", "pod_set")

    def __init__(
        self, pod_set: PodSet, looks: Sequence[Look], order: Callable[[Look], Any]
    ) -> None:
        """With a key that says which kinds come first."""
        self.pod_set = pod_set
        self.looks = sorted(looks, key=order) if len(looks) > 1 else looks
        self._order = order
        self._made: list[Task] | None = None

    @property
    def _specs(self) -> list[TaskSpec]:
        """The tasks in order: by kind as far as that tells them apart, then by name."""
        found: list[TaskSpec] = []
        for _, together in groupby(self.looks, self._order):
            found += sorted([spec for look in together for spec in look.specs], key=_uid)
        return found

    @property
    def charge(self) -> Amounts:
        """What queues would be charged for all of them before they have a place."""
        assert self.pod_set.owner is not None, "waiting tasks have an owner"
        return self.pod_set.owner.charge_all(self.pod_set)

    @property
    def requests(self) -> list[Request]:
        """What they ask for, in order."""
        found: list[Request] = []
        for _, together in groupby(self.looks, self._order):
            looks = list(together)
            if len(looks) == 1:
                found += [looks[0].specs[0].request] * len(looks[0].specs)
            else:
                specs = [spec for look in looks for spec in look.specs]
                found += [spec.request for spec in sorted(specs, key=_uid)]
        return found

    def part(self, look: Look) -> Sequence[Task]:
        """Return the tasks of one of the kinds, made when somebody asks for them."""
        return Mixed(self.pod_set, [look], self._order)

    def __len__(self) -> int:
        return sum([len(look.specs) for look in self.looks])

    @overload
    def __getitem__(self, index: int) -> Task: ...

    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...

    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        return self.made()[index]

    def __iter__(self) -> Iterator[Task]:
        return iter(self.made())

    def made(self) -> list[Task]:
        """Return the tasks themselves."""
        if self._made is None:
            assert self.pod_set.owner is not None, "waiting tasks have an owner"
            tasks = self.pod_set.owner.tasks
            self._made = [tasks[spec.uid] for spec in self._specs]
        return self._made


def made(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return tasks as a list, made if they were not."""
    return tasks.made() if isinstance(tasks, Members | Mixed) else tasks


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
        "origin",
        "pod_sets",
        "preemptible",
        "priority",
        "queue",
        "root",
        "spec",
        "stale_since",
        "turn",
        "turn_charge",
        "version",
    )

    def __init__(
        self,
        spec: JobSpec,
        *,
        min_gpu_memory_mib: int,
        kinds: Kinds | None = None,
    ) -> None:
        """With `kinds`, tasks that all look alike are made when they are needed."""
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
        self.turn: tuple[int, Sequence[Task] | None, Sequence[Task] | None] | None = None
        """The version it holds for, and whose turn it is, really and in simulations."""
        self.turn_charge: tuple[int, Amounts] | None = None
        self._tasks: dict[str, Task] | None = None
        self._first: Task | None = None
        self._min_gpu_memory_mib = min_gpu_memory_mib
        self._kinds = kinds
        self.enter: Callable[[Task], None] | None = None
        """What puts a task where the snapshot found it, if that is still to be done."""
        self.root = _grow(spec.root)
        root = self.root
        pod_sets = root.all_pod_sets() if root.groups else root.pod_sets
        self.pod_sets: dict[str, PodSet] = {pod_set.name: pod_set for pod_set in pod_sets}
        if kinds is None:
            self.make_tasks()
        elif not self._look(kinds):
            self.make_tasks()
            for pod_set in self.pod_sets.values():
                _compare(pod_set, self, kinds)

    def _look(self, kinds: Kinds) -> bool:
        """Find out what the tasks have in common; say whether they need not be made to be known.

        That is so if all are alike but for their names, or wait and are of a few kinds.
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
            if len(specs) == 1:
                # The only one there is: whatever orders tasks, it is its turn.
                self.turn = (0, members := Members(pod_set, 1), members)
                self.turn_charge = (0, self.charge_each)
        return True

    def _look_closer(self, end: int, kinds: Kinds) -> bool:
        """Sort tasks of several looks into kinds; say whether there are only a few.

        The first `end` tasks look alike.
        """
        first, specs = self.spec.tasks[0], self.spec.tasks
        if first.status is not TaskStatus.PENDING:
            return False
        found: dict[int, list[TaskSpec]] = {}
        start = 0
        for _ in range(FEW_LOOKS):
            spec = specs[start]
            if not _looks_apart_in_kind_only(spec, first):
                return False
            found.setdefault(kinds.number(spec), []).extend(specs[start:end])
            start = end
            if start == len(specs):
                break
            end = end_of_equals(specs, start)
        else:
            return False
        pod_set = self.pod_sets[first.sub_group]
        pod_set.owner, pod_set.found, pod_set.looks = (
            self,
            first.status,
            [Look(kind, members) for kind, members in found.items()],
        )
        pod_set.hold(None, len(self.spec.tasks))
        return True

    def make_tasks(self) -> None:
        """Make the tasks, each where the snapshot found it."""
        first, specs = self._first, self.spec.tasks
        ordered = sorted(specs, key=_uid) if len(specs) > 1 else specs
        tasks = [
            first if first is not None and spec is first.spec else self._make(spec)
            for spec in ordered
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
        if pod_set.looks and self._kinds is not None:
            task.kind = self._kinds.number(spec)
        return task

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks by uid, made when somebody first asks for one of them."""
        if self._tasks is None:
            self.make_tasks()
        assert self._tasks is not None, "they have been made"
        return self._tasks

    def first_of(self, pod_set: PodSet) -> Task:
        """Return the first task by uid of the only pod set, the others of which are not made."""
        if self._first is None:
            spec = min(self.spec.tasks, key=_uid)
            self._first = Task(spec, self, min_gpu_memory_mib=self._min_gpu_memory_mib)
            self._first.kind = pod_set.kind
            if self.enter is not None:
                self.enter(self._first)
        return self._first

    @property
    def is_made(self) -> bool:
        """Whether somebody has asked for the tasks."""
        return self._tasks is not None

    @property
    def size(self) -> int:
        """How many tasks there are."""
        total = 0
        for pod_set in self.pod_sets.values():  # there is one, mostly: summing up takes longer
            total += pod_set.size
        return total

    @property
    def charge_each(self) -> Amounts:
        """What queues would be charged for each of equal tasks before it has a place."""
        return self.spec.tasks[0].request.quota_on(self._min_gpu_memory_mib)

    def charge_all(self, pod_set: PodSet) -> Amounts:
        """Return what queues would be charged for tasks of a few kinds that have no place."""
        total = NOTHING
        for look in pod_set.looks:
            quota = look.specs[0].request.quota_on(self._min_gpu_memory_mib)
            total = total.plus(quota.times(len(look.specs)))
        return total

    @property
    def gpus_wanted(self) -> int:
        """How many GPUs, in hundredths, tasks that were not made ask for whole."""
        (pod_set,) = self.pod_sets.values()
        looks = pod_set.looks
        if not looks:
            return self.spec.tasks[0].request.gpu.whole * pod_set.size
        return sum(look.specs[0].request.gpu.whole * len(look.specs) for look in looks)

    @property
    def exemplars(self) -> Sequence[TaskSpec]:
        """Tasks of every look there is among those of the snapshot."""
        if self._tasks is not None:
            return self.spec.tasks
        (pod_set,) = self.pod_sets.values()
        looks = pod_set.looks
        return [look.specs[0] for look in looks] or self.spec.tasks[:1]

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
        for pod_set in self.pod_sets.values():  # noqa: SIM110 - asked of every job: twice as quick
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
        """Say whether some task is in one of the states of `mask`."""
        for pod_set in self.pod_sets.values():
            if pod_set.untouched(ANY_MASK):
                if pod_set.size and pod_set.untouched(mask):
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
        for pod_set in self.pod_sets.values():
            if pod_set.untouched(ANY_MASK):
                if pod_set.found is TaskStatus.PENDING:
                    return True
                continue
            for task in pod_set.tasks:
                if task.placement.status is TaskStatus.PENDING:
                    return True
        return False

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
        uids = {task.uid for task in tasks}
        return self if len(uids) == self.size else self._view(uids, shrink=False)

    def part_of(self, tasks: Sequence[Task]) -> "Job":
        """Return a job of only `tasks`, all of which it needs."""
        if len(tasks) == self.size:
            for pod_set in self.pod_sets.values():
                if pod_set.min_available != pod_set.size:
                    break
            else:
                return self
        return self._view({task.uid for task in tasks}, shrink=True)

    def _view(self, uids: set[str], *, shrink: bool) -> "Job":
        view = Job.__new__(Job)
        for name in _SHARED_BY_VIEWS:
            setattr(view, name, getattr(self, name))
        view.memo = {}
        view.turn = view.turn_charge = None
        view._tasks = {  # noqa: SLF001 - its own
            uid: task for uid, task in self.tasks.items() if uid in uids
        }
        view.root = _prune(self.root, uids, shrink=shrink)
        view.pod_sets = {pod_set.name: pod_set for pod_set in view.root.all_pod_sets()}
        return view

    def __repr__(self) -> str:
        return f"Job({self.name}, queue={self.queue}, tasks={self.size})"


_SHARED_BY_VIEWS: Final = tuple(
    name
    for name in Job.__slots__
    if name not in {"_tasks", "root", "pod_sets", "memo", "turn", "turn_charge"}
)
"""What a view of a job has in common with it."""

_uid = attrgetter("uid")


def _looks_apart_in_kind_only(spec: TaskSpec, first: TaskSpec) -> bool:
    """Say whether two tasks are in the same state, pod set and of the same age."""
    return (spec.status, spec.sub_group, spec.created_at) == (
        first.status,
        first.sub_group,
        first.created_at,
    )


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


def _grow(spec: SubGroupSpec) -> SubGroup:
    """Return the live group of `spec`, still without tasks."""
    pod_sets = [PodSet(s.name, s.min_available, s.topology) for s in spec.pod_sets]
    groups = [_grow(group) for group in spec.groups] if spec.groups else ()
    return SubGroup(spec.name, spec.topology, groups, pod_sets)


def _prune(group: SubGroup, uids: set[str], *, shrink: bool) -> SubGroup:
    """Return a copy of `group` with only the tasks in `uids`."""
    pod_sets = []
    for pod_set in group.pod_sets:
        tasks = [task for task in pod_set.tasks if task.uid in uids]
        minimum = len(tasks) if shrink else pod_set.min_available
        part = PodSet(pod_set.name, minimum, pod_set.topology, tasks)
        part.alike, part.kind = pod_set.alike, pod_set.kind
        pod_sets.append(part)
    groups = [_prune(child, uids, shrink=shrink) for child in group.groups]
    return SubGroup(group.name, group.topology, groups, pod_sets)
