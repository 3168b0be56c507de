"""The order of two waiting jobs, found without all jobs between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
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
        """By job, what it weighs if it waits."""
        self._counts: dict[str, dict[Any, int]] = {}
        """By queue, how many wait in it or below it that weigh so much."""
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
        for job in changed:
            before, after = self._weights.get(job.name), weight(job) if job.has_pending else None
            if before == after:
                continue
            self._weights[job.name] = after
            leaf = self._state.queues.leaf(job.queue)
            for queue in () if leaf is None else leaf.lineage():
                counts = self._counts.setdefault(queue.name, {})
                if before is not None:
                    counts[before] -= 1
                    if not counts[before]:
                        del counts[before]
                if after is not None:
                    counts[after] = counts.get(after, 0) + 1
