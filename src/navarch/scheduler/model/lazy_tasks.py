"""Tasks of a pod set that are made when somebody asks for them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, overload

from navarch.scheduler.model.cluster import TaskSpec
from navarch.scheduler.model.pod_set import Look, PodSet
from navarch.scheduler.model.quantity import Amounts
from navarch.scheduler.model.request import Request
from navarch.scheduler.model.task import Task

_uid = attrgetter("uid")


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
