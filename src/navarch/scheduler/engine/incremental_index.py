"""An index of jobs that is brought up to date when it is read, and keeps jobs sorted."""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from navarch.scheduler.framework.job_queue import JobIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.framework.job_queue import Entry
    from navarch.scheduler.model.job import Job

MANY: Final = 32
"""With more changed jobs than this, sorting all jobs again is faster."""
MOST: Final = 4
"""If more than one job in four has changed, testing all jobs again is faster."""

_name = attrgetter("name")


class IncrementalIndex(JobIndex):
    """An index that tests only the jobs that have changed since it was last read.

    A search for victims changes a few jobs at a time and reverts them if it fails. Lists that were
    handed out stay as they were: they are replaced, never changed.
    """

    def __init__(
        self,
        state: ClusterState,
        holds: Callable[[Job], bool],
        among: Callable[[], Iterable[Job]],
    ) -> None:
        """`among` returns the jobs by name, those for which `holds` is true included."""
        super().__init__(state, holds)
        self._among = among
        self._seen = -1
        self._jobs: list[Job] | None = None
        """The jobs by name, once they were requested."""
        self._names: set[str] = set()
        self._leaves: dict[str, list[Entry]] | None = None
        """By leaf queue, the sorted jobs, once they were requested."""
        self._keys: dict[str, Any] = {}
        """By job, the key it was sorted by."""

    @property
    def jobs(self) -> Sequence[Job]:
        """The jobs by name."""
        self._catch_up()
        if self._jobs is None:
            self._jobs = [job for job in self._among() if job.name in self._names]
        return self._jobs

    def __len__(self) -> int:
        self._catch_up()
        return len(self._names)

    def leaves(self, key: Callable[[Job], Any]) -> Mapping[str, list[Entry]]:
        """Return the jobs of each leaf queue, the smallest key first.

        A key must depend on nothing but its own job, and every call must pass the same `key`.
        """
        self._catch_up(key)
        if self._leaves is None:
            self._leaves, jobs = {}, self.jobs
            self._keys = {job.name: key(job) for job in jobs}
            for job in jobs:
                self._leaves.setdefault(job.queue, []).append((self._keys[job.name], 0, job))
            for entries in self._leaves.values():
                entries.sort()
        return self._leaves

    def _catch_up(self, key: Callable[[Job], Any] | None = None) -> None:
        log = self._state.changes.jobs
        if self._seen == len(log):
            return
        changed = dict.fromkeys(log[self._seen :]) if self._seen >= 0 else {}
        many = len(changed) > MANY
        if self._seen < 0 or (many and len(changed) * MOST > len(self._state.jobs)):
            self._jobs = [job for job in self._among() if self._holds(job)]
            self._names = set(map(_name, self._jobs))
            self._leaves = None
        else:
            if key is None or many:
                self._leaves = None
            for job in changed:
                self._change(job, key)
        self._seen = len(log)

    def _change(self, job: Job, key: Callable[[Job], Any] | None) -> None:
        name, holds = job.name, self._holds(job)
        if holds is not (name in self._names):
            self._jobs = None
            (self._names.add if holds else self._names.remove)(name)
        if self._leaves is None or key is None:
            return
        before, after = self._keys.pop(name, None), key(job) if holds else None
        if before != after:
            entries = list(self._leaves.get(job.queue, ()))
            if before is not None:
                del entries[bisect_left(entries, (before,))]
            if after is not None:
                insort(entries, (after, 0, job))
            self._leaves[job.queue] = entries
        if after is not None:
            self._keys[name] = after
