"""Pod sets, the leaves of a job, and the groups that they are in."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from navarch.scheduler.model.cluster import SubGroupSpec, TaskSpec, TopologyConstraint
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK, ALIVE_MASK, TaskStatus
from navarch.scheduler.model.task import Task

if TYPE_CHECKING:
    from navarch.scheduler.model.job import Job


class TaskShape(NamedTuple):
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
        """Whether all tasks are of one kind and age, so that only their names tell them apart."""
        self.kind: int | None = None
        """The kind of all tasks, where they are alike and pending."""
        self.shapes: Sequence[TaskShape] = ()
        """The few kinds of tasks there are, where all wait and are of one age."""
        self.owner: Job | None = None
        self.found: TaskStatus | None = None
        """The state that all tasks had in the snapshot, good as long as nothing has changed."""

    @property
    def tasks(self) -> list[Task]:
        """The tasks by uid, made when somebody first asks for one of them."""
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
