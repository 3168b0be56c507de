"""Jobs of all queues in the order they are to be served, or to be taken from."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from navarch.scheduler.taken import Taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from navarch.scheduler.session import Session
    from navarch.scheduler.state.job import Job
    from navarch.scheduler.state.queues import Queue


@dataclass(frozen=True, slots=True)
class _Best:
    """The job that a queue would hand out next, and the leaf it is in."""

    job: Job
    leaf: str


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
        self._heaps: dict[str, list[tuple[object, int, Job]]] = {}
        self._bests: dict[str, _Best] = {}
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
        for job in jobs:
            queue.push(job)
        if depth is not None:
            queue._cut(depth)
        return queue

    def push(self, job: Job) -> None:
        """Add a job; one whose queue does not exist or is not a leaf is left out."""
        leaf = self._session.queues.leaf(job.queue)
        if leaf is None:
            return
        self._pushes += 1
        # The counter only separates a job from views of itself, which compare as equal.
        entry = (self._key(job), self._pushes, job)
        heapq.heappush(self._heaps.setdefault(leaf.name, []), entry)

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
        heapq.heappop(self._heaps[best.leaf])
        self._popped.setdefault(best.leaf, []).append(best.job)
        return best.job

    def _cut(self, depth: int) -> None:
        for name, heap in self._heaps.items():
            self._heaps[name] = heapq.nsmallest(depth, heap)

    def _best_of_siblings(self, queues: Sequence[Queue]) -> _Best | None:
        if self._rank is not None:
            return self._best_by_rank(queues, self._rank)
        best: _Best | None = None
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
    ) -> _Best | None:
        """Return what `_best_of_siblings` would, working out only ranks that may have changed."""
        if len(queues) == 1:
            return self._best_in(queues[0])
        best: _Best | None = None
        best_queue: Queue | None = None
        best_rank: Any = None
        for queue in queues:
            candidate = self._best_in(queue)
            if candidate is None:
                continue
            known = self._ranks.get(queue.name)
            if known is None or known[0] != queue.changes or known[1] is not candidate.job:
                known = (queue.changes, candidate.job, rank(queue, candidate.job))
                self._ranks[queue.name] = known
            if best is None or best_queue is None:
                first = True
            elif known[2] != best_rank:
                first = known[2] < best_rank
            else:
                first = self._wins_tie(queue, candidate, best_queue, best)
            if first:
                best, best_queue, best_rank = candidate, queue, known[2]
        return best

    def _wins_tie(self, left: Queue, left_best: _Best, right: Queue, right_best: _Best) -> bool:
        pair = (left.name, right.name)
        tie = self._ties.get(pair)
        if tie is None:
            tie = self._compare_queues(left, left_best, right, right_best) < 0
            self._ties[pair] = tie
        return tie

    def _best_in(self, queue: Queue) -> _Best | None:
        if queue.is_leaf:
            heap = self._heaps.get(queue.name)
            if not heap:
                return None
            job = heap[0][2]
            known = self._bests.get(queue.name)
            if known is None or known.job is not job:
                known = self._bests[queue.name] = _Best(job, queue.name)
            return known
        return self._best_of_siblings(queue.children)

    def _compare_queues(
        self, left: Queue, left_best: _Best, right: Queue, right_best: _Best
    ) -> int:
        memory = self._session.min_gpu_memory_mib
        if not self._victims:
            jobs = (left_best.job, right_best.job)
            return self._session.compare_queues(left, right, jobs, ((), ()), memory)
        victims = (self._taken_with(left_best), self._taken_with(right_best))
        return -self._session.compare_queues(left, right, (None, None), victims, memory)

    def _taken_with(self, best: _Best) -> Taken:
        return Taken(self._popped.setdefault(best.leaf, []), best.job)
