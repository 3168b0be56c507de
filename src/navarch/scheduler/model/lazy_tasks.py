"""Tasks of a pod set that are materialised when they are read."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, overload

from navarch.scheduler.model.cluster import TaskSpec
from navarch.scheduler.model.job import PodSet, Task, TaskShape
from navarch.scheduler.model.quantity import Amounts
from navarch.scheduler.model.request import Request

_uid = attrgetter("uid")


class LazyTasks(Sequence[Task]):
    """The first tasks of a pod set of equal ones, materialised when they are read."""

    __slots__ = ("number", "pod_set")

    def __init__(self, pod_set: PodSet, count: int) -> None:
        self.pod_set = pod_set
        self.number = min(count, pod_set.size)
        """How many there are."""

    @property
    def first(self) -> Task:
        """The first task; the others stay lazy."""
        return self.pod_set.first

    @property
    def request(self) -> Request:
        """The request of each of them."""
        assert self.pod_set.owner is not None, "equal tasks have an owner"
        return self.pod_set.owner.spec.tasks[0].request

    @property
    def requested_quota(self) -> Amounts:
        """What queues would be charged for all of them before they have a place."""
        assert self.pod_set.owner is not None, "equal tasks have an owner"
        each = self.pod_set.owner.quota_each
        return each if self.number == 1 else each.times(self.number)

    def __len__(self) -> int:
        return self.number

    @overload
    def __getitem__(self, index: int) -> Task: ...

    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...

    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        return self.first if index == 0 else self.materialise()[index]

    def __iter__(self) -> Iterator[Task]:
        return iter(self.materialise())

    def materialise(self) -> list[Task]:
        """Return the tasks themselves."""
        tasks = self.pod_set.tasks
        return tasks if len(tasks) == self.number else tasks[: self.number]


class LazyMixedTasks(Sequence[Task]):
    """All tasks of a pod set of a few shapes, in order, materialised when they are read."""

    __slots__ = ("_materialised", "_order", "pod_set", "shapes")

    def __init__(
        self, pod_set: PodSet, shapes: Sequence[TaskShape], order: Callable[[TaskShape], Any]
    ) -> None:
        """Sort the shapes by the key `order`."""
        self.pod_set = pod_set
        self.shapes = sorted(shapes, key=order) if len(shapes) > 1 else shapes
        self._order = order
        self._materialised: list[Task] | None = None

    @property
    def _specs(self) -> list[TaskSpec]:
        """The tasks in order: by shape as far as their keys differ, then by name."""
        found: list[TaskSpec] = []
        for _, together in groupby(self.shapes, self._order):
            found += sorted([spec for shape in together for spec in shape.specs], key=_uid)
        return found

    @property
    def requested_quota(self) -> Amounts:
        """What queues would be charged for all of them before they have a place."""
        assert self.pod_set.owner is not None, "waiting tasks have an owner"
        return self.pod_set.owner.quota_of_all(self.pod_set)

    @property
    def requests(self) -> list[Request]:
        """Their requests, in order."""
        found: list[Request] = []
        for _, together in groupby(self.shapes, self._order):
            shapes = list(together)
            if len(shapes) == 1:
                found += [shapes[0].specs[0].request] * len(shapes[0].specs)
            else:
                specs = [spec for shape in shapes for spec in shape.specs]
                found += [spec.request for spec in sorted(specs, key=_uid)]
        return found

    def part(self, shape: TaskShape) -> Sequence[Task]:
        """Return the tasks of one shape, materialised when they are read."""
        return LazyMixedTasks(self.pod_set, [shape], self._order)

    def __len__(self) -> int:
        return sum([len(shape.specs) for shape in self.shapes])

    @overload
    def __getitem__(self, index: int) -> Task: ...

    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...

    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        return self.materialise()[index]

    def __iter__(self) -> Iterator[Task]:
        return iter(self.materialise())

    def materialise(self) -> list[Task]:
        """Return the tasks themselves."""
        if self._materialised is None:
            assert self.pod_set.owner is not None, "waiting tasks have an owner"
            tasks = self.pod_set.owner.tasks
            self._materialised = [tasks[spec.uid] for spec in self._specs]
        return self._materialised


def materialise(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return the tasks as a list, materialised if they were not."""
    return tasks.materialise() if isinstance(tasks, LazyTasks | LazyMixedTasks) else tasks
