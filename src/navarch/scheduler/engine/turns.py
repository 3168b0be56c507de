"""Who of two comes first, told without going through all who wait between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.queues import Queue


class Turn(NamedTuple):
    """When a queue is served, given the next job in it or below it."""

    job: Job
    queue: Queue
    weight: Any
    rank: Any


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
        """By queue, how many wait in it or below it that weigh so much."""
        self._above: dict[str, Sequence[dict[Any, int]]] = {}
        """By leaf queue, the counts of it, of its parent, and so on."""
        self._ties: dict[str, bool] = {}
        """By the second of two siblings, whether it is preferred to the first of equal rank."""

    def first(self, one: Job, other: Job) -> Job | None:
        """Return who comes first, nothing if it takes all who wait to tell; `one` of equals."""
        session = self._session
        leaves = session.queues.leaves
        if one.queue not in leaves or other.queue not in leaves:
            return None
        if one.queue == other.queue:
            key = session.job_key()
            return None if key is None else other if key(other) < key(one) else one
        ours, theirs = session.queues.diverging(one.queue, other.queue)
        left, right = self.turn_of(one, ours), self.turn_of(other, theirs)
        if left is None or right is None or not self._are_steady(left, right):
            return None
        if left.rank == right.rank:
            return self._wins_tie(left, right)
        return one if left.rank < right.rank else other

    def turn_of(self, job: Job, queue: Queue) -> Turn | None:
        """Return what decides when it is the turn of a queue, with a job in or below it next."""
        order = self._session.only_queue_order()
        if order is None or order.rank is None or order.weight is None:
            return None
        return Turn(job, queue, order.weight(job), order.rank(queue, job))

    def turn_as_ranked(self, job: Job, queue: Queue) -> Turn | None:
        """Do as `turn_of` does, with the rank of who was served last, if it is that."""
        order, known = self._session.only_queue_order(), queue.ranked
        if (
            order is None
            or order.weight is None
            or known is None
            or known[:3] != (order.rank, queue.changes, job)
        ):
            return self.turn_of(job, queue)
        return Turn(job, queue, order.weight(job), known[3])

    def first_as_known(self, one: Turn, other: Turn) -> Job | None:
        """Return whose turn comes first of two siblings' that were found before, if it is plain.

        That may have been when accounts were others, so who is preferred of equals cannot be asked.
        """
        if not self._are_steady(one, other):
            return None
        if one.rank != other.rank:
            return one.job if one.rank < other.rank else other.job
        return self._wins_tie(one, other, ask=False)

    def _wins_tie(self, left: Turn, right: Turn, *, ask: bool = True) -> Job | None:
        """Return whose queue is preferred to the other of equal rank."""
        session, queue = self._session, left.queue
        siblings = session.queues.roots if queue.parent is None else queue.parent.children
        if len(siblings) > 2:
            return None  # a third of equal rank may be preferred to one, but not to the other
        earlier, later = (left, right) if queue is siblings[0] else (right, left)
        wins = self._ties.get(later.queue.name)
        if wins is None and not ask:
            return None
        if wins is None:
            jobs, memory = (later.job, earlier.job), session.min_gpu_memory_mib
            order = session.compare_queues(later.queue, earlier.queue, jobs, ((), ()), memory)
            wins = self._ties[later.queue.name] = order < 0
        return later.job if wins else earlier.job

    def _are_steady(self, one: Turn, other: Turn) -> bool:
        """Say whether ranks stay as they are while those who wait are handed out."""
        self._catch_up()
        return self._all_weigh(one.queue, one.weight) and self._all_weigh(other.queue, other.weight)

    def _all_weigh(self, queue: Queue, weight: object) -> bool:
        """Say whether everybody who waits in a queue, or below it, weighs so much."""
        counts = self._counts.get(queue.name)
        return not counts or (len(counts) == 1 and weight in counts)

    def _catch_up(self) -> None:
        log = self._session.changes.jobs
        if self._seen == len(log):
            return
        order = self._session.only_queue_order()
        assert order is not None, "turns have ranks"
        weight = order.weight
        assert weight is not None, "turns have weights"
        changed = self._session.waiting.jobs if self._seen < 0 else dict.fromkeys(log[self._seen :])
        self._seen = len(log)
        weights = self._weights
        for job in changed:
            before = weights.get(job.name)
            after = weight(job) if job.has_pending else None
            if before == after:
                continue
            counts = self._counts_above(job.queue)
            if before is not None:
                del weights[job.name]
                _count(counts, before, -1)
            if after is not None:
                weights[job.name] = after
                _count(counts, after, 1)

    def _counts_above(self, leaf: str) -> Sequence[dict[Any, int]]:
        """Return what is counted of a leaf queue, of its parent, and so on."""
        known = self._above.get(leaf)
        if known is None:
            queue = self._session.queues.leaf(leaf)
            lineage = () if queue is None else queue.lineage()
            known = [self._counts.setdefault(each.name, {}) for each in lineage]
            self._above[leaf] = known
        return known


def _count(everywhere: Sequence[dict[Any, int]], weight: object, change: int) -> None:
    for counts in everywhere:
        left = counts.get(weight, 0) + change
        if left:
            counts[weight] = left
        else:
            del counts[weight]
