"""A job queue that ranks queues once per change and reads jobs from an index that is kept sorted.

It hands out the jobs of a `JobQueue` in the same order.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Any

from navarch.scheduler.framework.job_queue import Entry, JobQueue, Leaf, VictimList

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.framework.hooks import Hook
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.queues import Queue


class RankMemory:
    """What queues of one session have in common: the outcome of ties, and ranks of losses."""

    def __init__(self) -> None:
        self.ties: dict[tuple[str, str], bool] = {}
        """By two queues of equal rank, whether the first is served first."""
        self.loss_ties: dict[tuple[str, str], bool] = {}
        """By two queues of equal rank, whether the first loses a job first."""
        self.loss_ranks: dict[str, tuple[int, Job, Any]] = {}
        """By queue, its version, its next job to lose, and its rank with that loss."""


class IndexedLeaf(Leaf):
    """The wanted jobs of one leaf queue, read from a sorted list that others read as well."""

    __slots__ = ("_added", "_front", "_last_first", "_wanted")

    def __init__(
        self, entries: list[Entry], wanted: Callable[[Job], bool], *, last_first: bool
    ) -> None:
        super().__init__(entries)
        self._wanted = wanted
        self._last_first = last_first
        self._added: list[Entry] = []
        """Views of jobs that were added later, in order."""
        self._front: Entry | None = None
        self._read_on()
        self._find_head()

    def add(self, entry: Entry) -> None:
        """Insert a job among those that were not handed out."""
        insort(self._added, entry)
        self._find_head()

    def take(self) -> None:
        """Remove the next job."""
        if self._front is not None and self.head is self._front[2]:
            self._read_on()
        else:
            self._added.pop(-1 if self._last_first else 0)
        self._find_head()

    def _read_on(self) -> None:
        """Find the next wanted job of the list."""
        for place in range(self.next, len(self.entries)):
            entry = self.entries[-1 - place if self._last_first else place]
            if self._wanted(entry[2]):
                self._front, self.next = entry, place + 1
                return
        self._front, self.next = None, len(self.entries)

    def _find_head(self) -> None:
        front = self._front
        if self._added:
            added = self._added[-1 if self._last_first else 0]
            if front is None or (front < added) is self._last_first:
                front = added
        self.head = None if front is None else front[2]


class _RankedSibling:
    """One queue among its siblings: its best job, and its rank as of the last change."""

    __slots__ = ("changes", "job", "leaf", "queue", "rank")

    def __init__(self, queue: Queue, leaf: Leaf | None) -> None:
        self.queue = queue
        self.leaf = leaf
        self.changes = -1
        """The version of the queue for which the rank was computed."""
        self.job: Job | None = None
        self.rank: Any = None

    def rank_by(self, rank: Callable[[Queue, Job], Any]) -> None:
        """Compute the rank for the job that is the best now."""
        assert self.job is not None, "ranked queues have a job"
        self.changes, self.rank = self.queue.changes, rank(self.queue, self.job)


class RankedQueue(JobQueue):
    """A job queue that works with ranks of queues instead of comparisons."""

    def __init__(
        self,
        state: ClusterState,
        memory: RankMemory,
        *,
        victims: bool = False,
        key: Callable[[Job], Any] | None = None,
    ) -> None:
        super().__init__(state, victims=victims, key=key)
        self._wanted: Callable[[Job], bool] | None = None
        """The condition that jobs of an index have to meet, if it reads one."""
        self._levels: dict[int, list[_RankedSibling]] = {}
        """Siblings, by the identity of the list they are in."""
        self._memory = memory
        self._ties = memory.loss_ties if victims else memory.ties
        order = state.only_queue_order()
        self._rank = None if order is None else self._loss_rank(order) if victims else order.rank

    def read(self, leaves: Mapping[str, list[Entry]], wanted: Callable[[Job], bool]) -> RankedQueue:
        """Hold the wanted jobs of an index; `leaves` are sorted by the key of this queue."""
        self._wanted = wanted
        for name, entries in leaves.items():
            if name in self._state.queues.leaves:
                self._leaves[name] = IndexedLeaf(entries, wanted, last_first=self._victims)
        return self

    def _new_leaf(self) -> Leaf:
        self._levels.clear()
        if self._wanted is None:
            return super()._new_leaf()
        return IndexedLeaf([], self._wanted, last_first=self._victims)

    def _next(self) -> Job | None:
        if self._rank is None:
            return super()._next()
        return self._best_by_rank(self._state.queues.roots, self._rank)

    def _loss_rank(self, order: Hook) -> Callable[[Queue, Job], Any] | None:
        """Return a function that ranks a queue as it would be without its next job."""
        rank = order.loss_rank
        if rank is None:
            return None
        kept = self._memory.loss_ranks

        def rank_with_loss(queue: Queue, job: Job) -> Any:  # noqa: ANN401
            if job.queue in self._popped:
                return rank(queue, self._victims_with(job))
            known = kept.get(queue.name)
            if known is None or known[0] != queue.changes or known[1] is not job:
                known = kept[queue.name] = (queue.changes, job, rank(queue, VictimList([], job)))
            return known[2]

        return rank_with_loss

    def _best_by_rank(
        self, queues: Sequence[Queue], rank: Callable[[Queue, Job], Any]
    ) -> Job | None:
        """Return the result of `_best_of_siblings`, computing only ranks that may have changed."""
        best: _RankedSibling | None = None
        level = self._levels.get(id(queues))
        if level is None:
            level = self._level(queues)
        if len(level) == 1 and level[0].leaf is not None:
            return level[0].leaf.head  # a queue without competitors is not ranked
        for sibling in level:
            leaf, queue = sibling.leaf, sibling.queue
            job = self._best_by_rank(queue.children, rank) if leaf is None else leaf.head
            if job is None:
                continue
            if job is not sibling.job:
                sibling.job, sibling.changes = job, -1
            if best is None or self._is_better(sibling, best, rank):
                best = sibling
        return None if best is None else best.job

    def _is_better(
        self, one: _RankedSibling, best: _RankedSibling, rank: Callable[[Queue, Job], Any]
    ) -> bool:
        """Return whether a queue with its best job is before another; rank them if needed."""
        if best.changes != best.queue.changes:
            best.rank_by(rank)
        if one.changes != one.queue.changes:
            one.rank_by(rank)
        if one.rank == best.rank:
            assert one.job is not None, "ranked queues have a job"
            assert best.job is not None, "ranked queues have a job"
            return self._wins_tie(one.queue, one.job, best.queue, best.job)
        return bool(one.rank < best.rank) is not self._victims  # the first to lose ranks last

    def _level(self, queues: Sequence[Queue]) -> list[_RankedSibling]:
        key = id(queues)
        while len(queues) == 1 and queues[0].children:
            queues = queues[0].children  # an only queue has no competitors
        # A leaf without jobs has nothing to offer until one is added, which rebuilds the levels.
        leaves = self._leaves
        level = self._levels[key] = [
            _RankedSibling(queue, leaves.get(queue.name))
            for queue in queues
            if queue.children or queue.name in leaves
        ]
        return level

    def _wins_tie(self, left: Queue, left_job: Job, right: Queue, right_job: Job) -> bool:
        pair = (left.name, right.name)
        tie = self._ties.get(pair)
        if tie is None:
            tie = self._ties[pair] = self._compare_queues(left, left_job, right, right_job) < 0
        return tie
