"""Jobs of all queues in the order in which they are served, or are taken from."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.queues import Queue

Entry = tuple[Any, int, "Job"]
"""A job with its sort key; the number separates it from views of itself."""


class JobIndex:
    """The jobs for which `holds` is true, in order of their names."""

    def __init__(self, state: ClusterState, holds: Callable[[Job], bool]) -> None:
        self._state = state
        self._holds = holds

    @property
    def jobs(self) -> Sequence[Job]:
        """The jobs by name."""
        return [job for job in self._state.jobs.values() if self._holds(job)]

    def __len__(self) -> int:
        return len(self.jobs)


class VictimList(Sequence["Job"]):
    """The victims so far, in a list that only grows, and the next one."""

    __slots__ = ("before", "following")

    def __init__(self, before: list[Job], following: Job) -> None:
        self.before = before
        self.following = following

    def __len__(self) -> int:
        return len(self.before) + 1

    @overload
    def __getitem__(self, index: int) -> Job: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Job]: ...

    def __getitem__(self, index: int | slice) -> Job | Sequence[Job]:
        return [*self.before, self.following][index]


class Leaf:
    """The jobs of one leaf queue as a sorted list, and how many of them were handed out."""

    __slots__ = ("entries", "head", "next")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.next = 0
        self.head: Job | None = entries[0][2] if entries else None
        """The next job."""

    def add(self, entry: Entry) -> None:
        """Insert a job among those that were not handed out."""
        insort(self.entries, entry, lo=self.next)
        self.head = self.entries[self.next][2]

    def take(self) -> None:
        """Remove the next job."""
        self.next += 1
        self.head = self.entries[self.next][2] if self.next < len(self.entries) else None


class _Reversed:
    """A sort key that puts the last first."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:  # noqa: ANN401
        self.key = key

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(other.key == self.key)

    __hash__ = None  # type: ignore[assignment]


class JobQueue:
    """Hands out one job at a time: the best queue at each level, then the best job in it.

    The best queue is determined on every pop, since each placement changes what is fair. With
    `victims` every comparison is reversed, and queues are compared as they would be without the
    jobs already handed out.
    """

    def __init__(
        self,
        state: ClusterState,
        *,
        victims: bool = False,
        key: Callable[[Job], Any] | None = None,
    ) -> None:
        self._state = state
        self._victims = victims
        self._key = key or self._sort_key()
        self._leaves: dict[str, Leaf] = {}
        self._popped: dict[str, list[Job]] = {}
        self._pushes = 0

    def fill(self, jobs: Iterable[Job], depth: int | None = None) -> None:
        """Add jobs to an empty queue, at most `depth` of the best per leaf."""
        found: dict[str, list[Entry]] = {}
        key = self._key
        for number, job in enumerate(jobs):
            entries = found.get(job.queue)
            if entries is None:
                entries = found[job.queue] = []
            entries.append((key(job), number, job))
            self._pushes = number + 1
        for name, entries in found.items():
            if self._state.queues.leaf(name) is not None:
                entries.sort()
                self._leaves[name] = Leaf(entries if depth is None else entries[:depth])

    def push(self, job: Job) -> None:
        """Add a job; a job whose queue does not exist or is not a leaf is left out."""
        leaf = self._leaves.get(job.queue)
        if leaf is None:
            if self._state.queues.leaf(job.queue) is None:
                return
            leaf = self._leaves[job.queue] = self._new_leaf()
        leaf.add((self._key(job), self._pushes, job))
        self._pushes += 1

    def pop(self) -> Job | None:
        """Return the next job, or `None` when all have been handed out."""
        best = self._next()
        if best is None:
            return None
        self._leaves[best.queue].take()
        if self._victims:
            self._popped.setdefault(best.queue, []).append(best)
        return best

    def pop_one_of(self, wanted: Sequence[Job]) -> Job | None:
        """Return the next of the wanted jobs; the jobs before it are dropped."""
        while (job := self.pop()) is not None and job not in wanted:
            pass
        return job

    def _new_leaf(self) -> Leaf:
        return Leaf([])

    def _sort_key(self) -> Callable[[Job], Any]:
        """Return a key that is smallest for the best job of a leaf.

        The order of a job changes only while it is handed out, so a key is valid for as long as a
        job is in here.
        """
        key = self._state.job_key() or cmp_to_key(self._state.compare_jobs)
        if not self._victims:
            return key
        if self._state.hooks("victim_cost"):
            return lambda job: (self._state.victim_cost(job), _Reversed(key(job)))
        return lambda job: _Reversed(key(job))

    def _next(self) -> Job | None:
        """Return the best job of all."""
        return self._best_of_siblings(self._state.queues.roots)

    def _best_of_siblings(self, queues: Sequence[Queue]) -> Job | None:
        best: Job | None = None
        best_queue: Queue | None = None
        for queue in queues:
            candidate = self._best_in(queue)
            if candidate is None:
                continue
            if (
                best is None
                or best_queue is None
                or self._compare_queues(queue, candidate, best_queue, best) < 0
            ):
                best, best_queue = candidate, queue
        return best

    def _best_in(self, queue: Queue) -> Job | None:
        """Return the next job of a queue."""
        if queue.children:
            return self._best_of_siblings(queue.children)
        leaf = self._leaves.get(queue.name)
        return None if leaf is None else leaf.head

    def _compare_queues(self, left: Queue, left_best: Job, right: Queue, right_best: Job) -> int:
        memory = self._state.min_gpu_memory_mib
        if not self._victims:
            jobs = (left_best, right_best)
            return self._state.compare_queues(left, right, jobs, ((), ()), memory)
        victims = (self._victims_with(left_best), self._victims_with(right_best))
        return -self._state.compare_queues(left, right, (None, None), victims, memory)

    def _victims_with(self, best: Job) -> VictimList:
        return VictimList(self._popped.setdefault(best.queue, []), best)
