"""Jobs of all queues in the order they are to be served, or to be taken from."""

from __future__ import annotations

from bisect import insort
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from navarch.scheduler.taken import Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from navarch.scheduler.session import Session
    from navarch.scheduler.state.job import Job
    from navarch.scheduler.state.queues import Queue


class _Reversed:
    """A key by which the last comes first."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:  # noqa: ANN401
        self.key = key

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(other.key == self.key)

    __hash__ = None  # type: ignore[assignment]


Entry = tuple[Any, int, "Job"]
"""A job with its place in the order; the counter only separates it from views of itself."""


class _Leaf:
    """The jobs of one leaf queue in order, and how many of them have been handed out."""

    __slots__ = ("entries", "next")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.next = 0


class JobQueue:
    """Hands out one job at a time: best queue at each level, then the best job in it.

    The best queue is looked for on every pop, since each placement changes what is fair. With
    `victims` every comparison is turned round, and queues are compared as they would be without
    the jobs already handed out.
    """

    def __init__(self, session: Session, *, victims: bool = False) -> None:
        self._session = session
        self._victims = victims
        self._key = self._sort_key()
        self._leaves: dict[str, _Leaf] = {}
        self._popped: dict[str, list[Job]] = {}
        self._pushes = 0
        self._rank = None if victims else session.queue_rank()
        self._ranks: dict[str, tuple[int, Job, Any]] = {}
        """Of each queue, its rank, with the change of its account and the job it holds for."""
        self._ties: dict[tuple[str, str], bool] = {}

    @classmethod
    def of(
        cls,
        session: Session,
        jobs: Iterable[Job],
        *,
        victims: bool = False,
        depth: int | None = None,
    ) -> JobQueue:
        """Return a queue that holds `jobs`, at most `depth` of the best per leaf."""
        queue = cls(session, victims=victims)
        queue._fill(jobs, depth)
        return queue

    def _fill(self, jobs: Iterable[Job], depth: int | None) -> None:
        """Add jobs to a queue that is empty."""
        found: dict[str, list[Entry]] = {}
        key = self._key
        for number, job in enumerate(jobs):
            entries = found.get(job.queue)
            if entries is None:
                entries = found[job.queue] = []
            entries.append((key(job), number, job))
            self._pushes = number + 1
        for name, entries in found.items():
            if self._session.queues.leaf(name) is not None:
                entries.sort()
                self._leaves[name] = _Leaf(entries if depth is None else entries[:depth])

    def push(self, job: Job) -> None:
        """Add a job; one whose queue does not exist or is not a leaf is left out."""
        leaf = self._leaves.get(job.queue)
        if leaf is None:
            if self._session.queues.leaf(job.queue) is None:
                return
            leaf = self._leaves[job.queue] = _Leaf([])
        insort(leaf.entries, (self._key(job), self._pushes, job), lo=leaf.next)
        self._pushes += 1

    def _sort_key(self) -> Callable[[Job], Any]:
        """Return a key by which the best job of a leaf is the smallest.

        The order of a job may change only while it is handed out, so a key is good for as long
        as a job is in here.
        """
        key = self._session.job_key() or cmp_to_key(self._session.compare_jobs)
        if not self._victims:
            return key
        if self._session.hooks("victim_cost"):
            return lambda job: (self._session.victim_cost(job), _Reversed(key(job)))
        return lambda job: _Reversed(key(job))

    def pop(self) -> Job | None:
        """Return the next job, or nothing when all have been handed out."""
        best = self._best_of_siblings(self._session.queues.roots)
        if best is None:
            return None
        self._leaves[best.queue].next += 1
        if self._victims:
            self._popped.setdefault(best.queue, []).append(best)
        return best

    def _best_of_siblings(self, queues: Sequence[Queue]) -> Job | None:
        if self._rank is not None:
            return self._best_by_rank(queues, self._rank)
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

    def _best_by_rank(
        self, queues: Sequence[Queue], rank: Callable[[Queue, Job], Any]
    ) -> Job | None:
        """Return what `_best_of_siblings` would, working out only ranks that may have changed."""
        candidates = self._candidates(queues)
        if len(candidates) < 2:
            return candidates[0][1] if candidates else None
        best: Job | None = None
        best_queue: Queue | None = None
        best_rank: Any = None
        ranks = self._ranks
        for queue, candidate in candidates:
            known = ranks.get(queue.name)
            if known is None or known[0] != queue.changes or known[1] is not candidate:
                known = (queue.changes, candidate, rank(queue, candidate))
                ranks[queue.name] = known
            if best is None or best_queue is None:
                first = True
            elif known[2] != best_rank:
                first = known[2] < best_rank
            else:
                first = self._wins_tie(queue, candidate, best_queue, best)
            if first:
                best, best_queue, best_rank = candidate, queue, known[2]
        return best

    def _candidates(self, queues: Sequence[Queue]) -> list[tuple[Queue, Job]]:
        """Return the queues that have a job to hand out, with the next of each."""
        found: list[tuple[Queue, Job]] = []
        leaves = self._leaves
        for queue in queues:
            if queue.children:
                best = self._best_of_siblings(queue.children)
                if best is not None:
                    found.append((queue, best))
                continue
            leaf = leaves.get(queue.name)
            if leaf is not None and leaf.next < len(leaf.entries):
                found.append((queue, leaf.entries[leaf.next][2]))
        return found

    def _wins_tie(self, left: Queue, left_best: Job, right: Queue, right_best: Job) -> bool:
        pair = (left.name, right.name)
        tie = self._ties.get(pair)
        if tie is None:
            tie = self._compare_queues(left, left_best, right, right_best) < 0
            self._ties[pair] = tie
        return tie

    def _best_in(self, queue: Queue) -> Job | None:
        """Return the job that a queue would hand out next."""
        if queue.children:
            return self._best_of_siblings(queue.children)
        leaf = self._leaves.get(queue.name)
        if leaf is None or leaf.next == len(leaf.entries):
            return None
        return leaf.entries[leaf.next][2]

    def _compare_queues(self, left: Queue, left_best: Job, right: Queue, right_best: Job) -> int:
        memory = self._session.min_gpu_memory_mib
        if not self._victims:
            jobs = (left_best, right_best)
            return self._session.compare_queues(left, right, jobs, ((), ()), memory)
        victims = (self._taken_with(left_best), self._taken_with(right_best))
        return -self._session.compare_queues(left, right, (None, None), victims, memory)

    def _taken_with(self, best: Job) -> Taken:
        return Taken(self._popped.setdefault(best.queue, []), best)
