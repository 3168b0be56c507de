"""Who of two comes first, told without going through all who wait between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from navarch.scheduler.session import Session
    from navarch.scheduler.state.job import Job
    from navarch.scheduler.state.queues import Queue


class Turns:
    """Compares two jobs among all who wait, as a `JobQueue` of them would hand them out.

    In one queue the order of jobs decides. In two, the rank of the queues' ancestors that are
    siblings does, if neither changes while jobs are handed out: a rank depends on what the next
    job weighs, so all jobs below must weigh the same. Whoever waits elsewhere comes in between,
    but does not change who of the two is first; unless there is a tie, which is left open where
    a third could have a part in it.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._seen = -1
        self._weights: dict[str, Any] = {}
        """By job that waits, what it weighs."""
        self._counts: dict[str, dict[Any, int]] = {}
        """By leaf queue, how many wait that weigh so much."""
        self._ties: dict[str, bool] = {}
        """By the second of two siblings, whether it is preferred to the first of equal rank."""

    def first(self, one: Job, other: Job) -> Job | None:
        """Return who comes first, nothing if it takes all who wait to tell; `one` of equals."""
        session = self._session
        queues, rank, weight = session.queues, session.queue_rank(), session.queue_weight()
        if one.queue not in queues.leaves or other.queue not in queues.leaves:
            return None
        if one.queue == other.queue:
            key = session.job_key()
            return None if key is None else other if key(other) < key(one) else one
        if rank is None or weight is None:
            return None
        ours, theirs = queues.diverging(one.queue, other.queue)
        self._catch_up(weight)
        if not self._all_weigh(ours, weight(one)) or not self._all_weigh(theirs, weight(other)):
            return None
        our_rank, their_rank = rank(ours, one), rank(theirs, other)
        if our_rank == their_rank:
            return self._wins_tie((ours, one), (theirs, other))
        return one if our_rank < their_rank else other

    def _wins_tie(self, left: tuple[Queue, Job], right: tuple[Queue, Job]) -> Job | None:
        """Return whose queue is preferred to the other of equal rank."""
        session, queue = self._session, left[0]
        siblings = session.queues.roots if queue.parent is None else queue.parent.children
        if len(siblings) > 2:
            return None  # a third of equal rank may be preferred to one, but not to the other
        earlier, later = (left, right) if queue is siblings[0] else (right, left)
        wins = self._ties.get(later[0].name)
        if wins is None:
            jobs, memory = (later[1], earlier[1]), session.min_gpu_memory_mib
            order = session.compare_queues(later[0], earlier[0], jobs, ((), ()), memory)
            wins = self._ties[later[0].name] = order < 0
        return later[1] if wins else earlier[1]

    def _all_weigh(self, queue: Queue, weight: object) -> bool:
        """Say whether everybody who waits in a queue, or below it, weighs so much."""
        if queue.children:
            return all(self._all_weigh(child, weight) for child in queue.children)
        counts = self._counts.get(queue.name)
        return not counts or (len(counts) == 1 and weight in counts)

    def _catch_up(self, weight: Callable[[Job], Any]) -> None:
        log = self._session.changes.jobs
        if self._seen == len(log):
            return
        changed = (
            self._session.jobs.values() if self._seen < 0 else dict.fromkeys(log[self._seen :])
        )
        self._seen = len(log)
        for job in changed:
            before = self._weights.pop(job.name, None)
            after = weight(job) if job.has_pending else None
            if after is not None:
                self._weights[job.name] = after
            if before != after:
                self._count(job.queue, before, -1)
                self._count(job.queue, after, 1)

    def _count(self, leaf: str, weight: object, change: int) -> None:
        if weight is None:
            return
        counts = self._counts.setdefault(leaf, {})
        left = counts.get(weight, 0) + change
        if left:
            counts[weight] = left
        else:
            del counts[weight]
