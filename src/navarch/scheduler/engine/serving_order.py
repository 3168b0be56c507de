"""The order of two waiting jobs, found without all jobs between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.framework.job_queue import JobIndex
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.queues import Queue


class QueueRank(NamedTuple):
    """When a queue is served, given the next job in it or below it."""

    job: Job
    queue: Queue
    weight: Any
    rank: Any


class ServingOrder:
    """Compares two jobs among all waiting ones, as a `JobQueue` of them would hand them out.

    Within a queue the order of jobs decides. Between two queues, the ranks of their ancestors that
    are siblings decide, if neither changes while jobs are handed out: a rank depends on the weight
    of the next job, so all jobs below must have the same weight. Jobs in other queues come in
    between without changing the order of the two. A tie is left open if a third queue could have a
    part in it.
    """

    def __init__(self, state: ClusterState, waiting: JobIndex) -> None:
        self._state = state
        self._waiting = waiting
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
        """Return the job that is served first, or `None` if other jobs may decide it."""
        state = self._state
        leaves = state.queues.leaves
        if one.queue not in leaves or other.queue not in leaves:
            return None
        if one.queue == other.queue:
            key = state.job_key()
            return None if key is None else other if key(other) < key(one) else one
        ours, theirs = state.queues.diverging(one.queue, other.queue)
        left, right = self.rank_of(one, ours), self.rank_of(other, theirs)
        if left is None or right is None or not self._are_steady(left, right):
            return None
        if left.rank == right.rank:
            return self._wins_tie(left, right)
        return one if left.rank < right.rank else other

    def rank_of(self, job: Job, queue: Queue) -> QueueRank | None:
        """Return the rank of a queue, with a job in or below it next."""
        order = self._state.only_queue_order()
        if order is None or order.rank is None or order.weight is None:
            return None
        return QueueRank(job, queue, order.weight(job), order.rank(queue, job))

    def last_rank_of(self, job: Job, queue: Queue) -> QueueRank | None:
        """Return the same as `rank_of`, from the last rank of the queue if that is still valid."""
        order, known = self._state.only_queue_order(), queue.ranked
        if (
            order is None
            or order.weight is None
            or known is None
            or known[:3] != (order.rank, queue.changes, job)
        ):
            return self.rank_of(job, queue)
        return QueueRank(job, queue, order.weight(job), known[3])

    def first_as_known(self, one: QueueRank, other: QueueRank) -> Job | None:
        """Return the first of two jobs by ranks that were computed before, if they differ.

        The ranks may predate the last allocation, so a tie that was never compared stays open.
        """
        if not self._are_steady(one, other):
            return None
        if one.rank != other.rank:
            return one.job if one.rank < other.rank else other.job
        return self._wins_tie(one, other, ask=False)

    def _wins_tie(self, left: QueueRank, right: QueueRank, *, ask: bool = True) -> Job | None:
        """Return the job of the queue that wins a tie."""
        state, queue = self._state, left.queue
        siblings = state.queues.roots if queue.parent is None else queue.parent.children
        if len(siblings) > 2:
            return None  # a third of equal rank may be preferred to one, but not to the other
        earlier, later = (left, right) if queue is siblings[0] else (right, left)
        wins = self._ties.get(later.queue.name)
        if wins is None and not ask:
            return None
        if wins is None:
            jobs, memory = (later.job, earlier.job), state.min_gpu_memory_mib
            order = state.compare_queues(later.queue, earlier.queue, jobs, ((), ()), memory)
            wins = self._ties[later.queue.name] = order < 0
        return later.job if wins else earlier.job

    def _are_steady(self, one: QueueRank, other: QueueRank) -> bool:
        """Return whether ranks stay as they are while waiting jobs are handed out."""
        self._catch_up()
        return self._all_weigh(one.queue, one.weight) and self._all_weigh(other.queue, other.weight)

    def _all_weigh(self, queue: Queue, weight: object) -> bool:
        """Return whether all jobs waiting in a queue, or below it, have this weight."""
        counts = self._counts.get(queue.name)
        return not counts or (len(counts) == 1 and weight in counts)

    def _catch_up(self) -> None:
        log = self._state.changes.jobs
        if self._seen == len(log):
            return
        order = self._state.only_queue_order()
        assert order is not None, "queues are ranked"
        weight = order.weight
        assert weight is not None, "ranks have weights"
        changed = self._waiting.jobs if self._seen < 0 else dict.fromkeys(log[self._seen :])
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
            queue = self._state.queues.leaf(leaf)
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
