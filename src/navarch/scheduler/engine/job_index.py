"""Jobs of which something holds, such as those that wait, kept from one look to the next."""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from navarch.scheduler.engine.check import check_same

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Job

Entry = tuple[Any, int, "Job"]
"""A job with its place in the order; the number only separates it from views of itself."""

MANY: Final = 32
"""So many jobs that have changed are quicker to put in order with all others again."""
MOST: Final = 4
"""If more than one in so many has changed, it is quicker to ask about all of them again."""

_name = attrgetter("name")


class JobIndex:
    """The jobs of a session of which something holds, brought up to date when looked at.

    A search for victims changes a few jobs at a time, and takes all of it back if it was in vain.
    What it handed out before stays as it was: lists are replaced, never changed.
    """

    def __init__(self, session: Session, holds: Callable[[Job], bool]) -> None:
        self._session = session
        self._holds = holds
        self._seen = -1
        self._jobs: list[Job] | None = None
        """The jobs by name, once somebody has asked for them."""
        self._names: set[str] = set()
        self._leaves: dict[str, list[Entry]] | None = None
        """By leaf queue, the jobs in order, once somebody has asked for it."""
        self._keys: dict[str, Any] = {}
        """By job, the key it was put in order by."""

    @property
    def jobs(self) -> Sequence[Job]:
        """The jobs by name."""
        self._catch_up()
        if self._jobs is None:
            jobs = self._session.jobs.values()  # by name, too
            self._jobs = [job for job in jobs if job.name in self._names]
        return self._jobs

    def __len__(self) -> int:
        """Return how many jobs there are."""
        self._catch_up()
        return len(self._names)

    def leaves(self, key: Callable[[Job], Any]) -> Mapping[str, Sequence[Entry]]:
        """Return the jobs of each leaf queue, the smallest key first.

        Keys must depend on nothing but their own job, and always be the same ones.
        """
        self._catch_up(key)
        if self._leaves is None:
            self._leaves, jobs = {}, self.jobs
            self._keys = {job.name: key(job) for job in jobs}
            for job in jobs:
                self._leaves.setdefault(job.queue, []).append((self._keys[job.name], 0, job))
            for entries in self._leaves.values():
                entries.sort()
        if self._session.parameters.check_fast_paths:
            self._check(self._leaves, key)
        return self._leaves

    def _check(self, leaves: Mapping[str, Sequence[Entry]], key: Callable[[Job], Any]) -> None:
        """Compare what was kept with what looking at every job again finds."""
        held = sorted([job for job in self._session.jobs.values() if self._holds(job)], key=key)
        for name in {*leaves, *(job.queue for job in held)}:
            kept = [job.name for _, _, job in leaves.get(name, ())]
            again = [job.name for job in held if job.queue == name]
            check_same(f"the jobs of queue {name} in order are", kept, again)

    def _catch_up(self, key: Callable[[Job], Any] | None = None) -> None:
        log = self._session.changes.jobs
        if self._seen == len(log):
            return
        changed = dict.fromkeys(log[self._seen :]) if self._seen >= 0 else {}
        many = len(changed) > MANY
        if self._seen < 0 or (many and len(changed) * MOST > len(self._session.jobs)):
            self._jobs = [job for job in self._session.jobs.values() if self._holds(job)]
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
