"""Tasks of a pod set that are materialised when they are read."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, overload

from navarch.scheduler.model.cluster import TaskSpec
from navarch.scheduler.model.job import Job, PodSet, Task, TaskShape
from navarch.scheduler.model.quantity import Amounts
from navarch.scheduler.model.request import Request

_uid = attrgetter("uid")


class LazyTasks(Sequence[Task]):
    """Waiting tasks of a pod set, all alike or of a few shapes, materialised when they are read."""

    __slots__ = ("_materialised", "_order", "number", "pod_set", "shapes")

    def __init__(
        self,
        pod_set: PodSet,
        number: int,
        shapes: Sequence[TaskShape] = (),
        order: Callable[[TaskShape], Any] | None = None,
    ) -> None:
        """Hold all tasks of `shapes`, sorted by the key `order`; without, the first of equals."""
        self.pod_set = pod_set
        self.number = number
        """How many there are."""
        self.shapes = sorted(shapes, key=order) if len(shapes) > 1 else shapes
        self._order = order
        self._materialised: list[Task] | None = None

    @property
    def _owner(self) -> Job:
        assert self.pod_set.owner is not None, "waiting tasks have an owner"
        return self.pod_set.owner

    @property
    def _specs(self) -> list[TaskSpec]:
        """The tasks in order: by shape as far as their keys differ, then by name."""
        found: list[TaskSpec] = []
        for _, together in groupby(self.shapes, self._order):
            found += sorted([spec for shape in together for spec in shape.specs], key=_uid)
        return found

    @property
    def requests(self) -> list[Request]:
        """Their requests, in order."""
        if not self.shapes:
            return [self._owner.spec.tasks[0].request] * self.number
        found: list[Request] = []
        for _, group in groupby(self.shapes, self._order):
            shapes = list(group)
            if len(shapes) == 1:
                found += [shapes[0].specs[0].request] * len(shapes[0].specs)
            else:
                specs = [spec for shape in shapes for spec in shape.specs]
                found += [spec.request for spec in sorted(specs, key=_uid)]
        return found

    @property
    def requested_quota(self) -> Amounts:
        """What queues would be charged for all of them before they have a place."""
        if not self.shapes:
            return self._owner.quota_each.times(self.number)
        return self._owner.quota_of(self.shapes)

    def part(self, shape: TaskShape) -> Sequence[Task]:
        """Return the tasks of one shape, materialised when they are read."""
        return LazyTasks(self.pod_set, len(shape.specs), [shape], self._order)

    def __len__(self) -> int:
        return self.number

    @overload
    def __getitem__(self, index: int) -> Task: ...

    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...

    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        if index == 0 and not self.shapes:
            return self.pod_set.first  # the others stay lazy
        return self.materialise()[index]

    def __iter__(self) -> Iterator[Task]:
        return iter(self.materialise())

    def materialise(self) -> list[Task]:
        """Return the tasks themselves."""
        if self._materialised is None:
            if not self.shapes:
                self._materialised = self.pod_set.tasks[: self.number]
            else:
                tasks = self._owner.tasks
                self._materialised = [tasks[spec.uid] for spec in self._specs]
        return self._materialised


def materialise(tasks: Sequence[Task]) -> Sequence[Task]:
    """Return the tasks as a list, materialised if they were not."""
    return tasks.materialise() if isinstance(tasks, LazyTasks) else tasks
