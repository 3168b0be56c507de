"""All jobs of a session: each as an object once it is needed, and until then as it was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from navarch.scheduler.model.job import Job, Task
from navarch.scheduler.model.request import WHOLE_KINDS
from navarch.scheduler.model.status import ALLOCATED_MASK

if TYPE_CHECKING:
    from navarch.scheduler.model.cluster import JobSpec, TaskSpec
    from navarch.scheduler.model.task_kinds import Kinds


_look = attrgetter("request", "node_selector")


class JobTable(Mapping[str, Job]):
    """The jobs by name, materialised when they are read.

    Most jobs of a large cluster have one task that simply runs, and stay as they are for a whole
    cycle. A job that is not materialised has not changed.
    """

    def __init__(self, specs: Sequence[JobSpec], *, min_gpu_memory_mib: int, kinds: Kinds) -> None:
        self._min_gpu_memory_mib = min_gpu_memory_mib
        self._kinds = kinds
        self._specs = {spec.name: spec for spec in specs}
        self.steady = [spec for spec in specs if is_steady(spec)]
        """The jobs of one task that simply runs, as the snapshot found them."""
        self._made: dict[str, Job | None] = dict.fromkeys(self._specs)
        self.enter: Callable[[Task], None] | None = None
        """What puts the task of a steady job where the snapshot found it."""
        steady = {spec.name for spec in self.steady}
        self.others = [self._make(spec) for spec in specs if spec.name not in steady]
        """All other jobs."""

    def _make(self, spec: JobSpec) -> Job:
        job = Job(spec, min_gpu_memory_mib=self._min_gpu_memory_mib, kinds=self._kinds)
        job.enter = self.enter
        self._made[spec.name] = job
        return job

    def made(self) -> list[Job]:
        """Return the jobs that are materialised: all that wait, are stale or have changed."""
        return [job for job in self._made.values() if job is not None]

    def looks(self) -> Iterator[tuple[TaskSpec, int]]:
        """Yield tasks of the snapshot with the number of tasks that look like them."""
        for _, alike in groupby([spec.tasks[0] for spec in self.steady], key=_look):
            first, *rest = alike
            yield first, 1 + len(rest)
        for job in self.others:
            yield from job.looks()

    def __getitem__(self, name: str) -> Job:
        return self._made[name] or self._make(self._specs[name])

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    def values(self) -> ValuesView[Job]:
        """Return all jobs by name."""
        return _InOrder(self)


class _InOrder(ValuesView[Job]):
    _mapping: JobTable

    def __iter__(self) -> Iterator[Job]:
        return iter([self._mapping[name] for name in self._mapping])


def is_steady(spec: JobSpec) -> bool:
    """Return whether a job has one task, which simply holds what it requests."""
    if len(spec.tasks) != 1 or spec.stale_since is not None:
        return False
    (task,), root = spec.tasks, spec.root
    if not task.status & ALLOCATED_MASK or task.node is None:
        return False
    if task.request.gpu.kind not in WHOLE_KINDS or task.claims or task.anti_affinity:
        return False
    if root.groups or root.topology is not None or len(root.pod_sets) != 1:
        return False
    (pod_set,) = root.pod_sets
    is_complete = pod_set.name == task.sub_group and pod_set.min_available <= 1
    return is_complete and pod_set.topology is None
