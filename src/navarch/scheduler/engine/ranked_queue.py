"""A job queue that ranks queues once per change and reads jobs from an index that is kept sorted.

It hands out the jobs of a `JobQueue` in the same order.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Any, NamedTuple

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


class _Candidates(NamedTuple):
    """The sorted jobs of each leaf, and the condition a job has to meet."""

    leaves: Mapping[str, Sequence[Entry]]
    wanted: Callable[[Job], bool]


class IndexedLeaf:
    """The wanted jobs of one leaf queue, read from a sorted list that others read as well."""

    __slots__ = ("_added", "_entries", "_front", "_last_first", "_next", "_wanted", "head")

    def __init__(
        self,
        entries: Sequence[Entry],
        wanted: Callable[[Job], bool],
        *,
        last_first: bool,
        skipped: int | None = None,
    ) -> None:
        """Read `entries`; the first `skipped` are known to be unwanted, and the next is wanted."""
        self._entries = entries
        self._wanted = wanted
        self._last_first = last_first
        self._next = 0
        """How many entries have been read."""
        self._added: list[Entry] = []
        """Views of jobs that were added later, in order."""
        self._front: Entry | None = None
        self.head: Job | None = None
        if skipped is None:
            self._read_on()
        elif skipped < len(entries):
            self._front, self._next = self._entry(skipped), skipped + 1
        else:
            self._next = skipped
        self._find_head()

    def _entry(self, place: int) -> Entry:
        return self._entries[-1 - place if self._last_first else place]

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
        for place in range(self._next, len(self._entries)):
            entry = self._entry(place)
            if self._wanted(entry[2]):
                self._front, self._next = entry, place + 1
                return
        self._front, self._next = None, len(self._entries)

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
        queue, job = self.queue, self.job
        assert job is not None, "ranked queues have a job"
        self.changes, self.rank = queue.changes, rank(queue, job)
        queue.ranked = (rank, queue.changes, job, self.rank)


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
        self._unread: _Candidates | None = None
        """The jobs of an index that are not in leaves yet: many searches need only one job."""
        self._skipped: dict[str, int] = {}
        """By leaf, how many unwanted jobs were passed over to find the first."""
        self._first: Job | None = None
        """The job that was handed out before the leaves were built."""
        self._levels: dict[int, list[_RankedSibling]] = {}
        """Siblings, by the identity of the list they are in."""
        self._memory = memory
        self._ties = memory.loss_ties if victims else memory.ties
        order = state.only_queue_order()
        self._rank = None if order is None else self._loss_rank(order) if victims else order.rank
        self._make_leaf: Callable[[], Leaf] = super()._new_leaf

    def read(
        self, leaves: Mapping[str, Sequence[Entry]], wanted: Callable[[Job], bool]
    ) -> RankedQueue:
        """Hold the wanted jobs of an index; `leaves` are sorted by the key of this queue."""
        # A copy: as the leaves are now, whenever they are read.
        self._unread = _Candidates(dict(leaves), wanted)
        if self._rank is None or not self._victims:
            self._build_leaves()
        return self

    def _build_leaves(self) -> None:
        """Put the jobs of the index in leaves, without the job that was handed out before."""
        assert self._unread is not None, "an index is read once"
        (index, wanted), self._unread = self._unread, None
        known, last_first = self._state.queues.leaves, self._victims
        for name, entries in index.items():
            if name in known:
                self._leaves[name] = IndexedLeaf(
                    entries, wanted, last_first=last_first, skipped=self._skipped.get(name)
                )
        self._make_leaf = lambda: IndexedLeaf((), wanted, last_first=last_first)
        if self._first is not None:
            self._leaves[self._first.queue].take()

    def _new_leaf(self) -> Leaf:
        self._levels.clear()
        return self._make_leaf()

    def push(self, job: Job) -> None:
        """Add a job; a job whose queue does not exist or is not a leaf is left out."""
        if self._unread is not None:
            self._build_leaves()
        super().push(job)

    def pop(self) -> Job | None:
        """Return the next job, or `None` when all have been handed out."""
        if self._unread is not None:
            if self._first is None:
                return self._pop_first()
            self._build_leaves()
        return super().pop()

    def _next(self) -> Job | None:
        if self._rank is None:
            return super()._next()
        return self._best_by_rank(self._state.queues.roots, self._rank)

    def _pop_first(self) -> Job | None:
        """Return the first job to take from an index, without building leaves and levels."""
        assert self._unread is not None, "no job has been handed out"
        assert self._rank is not None, "otherwise leaves are built at once"
        best = self._first_of(self._state.queues.roots, self._unread, self._rank)
        if best is None:
            self._build_leaves()  # no job is wanted
            return None
        self._first = best
        self._popped.setdefault(best.queue, []).append(best)
        return best

    def _first_of(
        self, queues: Sequence[Queue], jobs: _Candidates, rank: Callable[[Queue, Job], Any]
    ) -> Job | None:
        best_queue: Queue | None = None
        best: Job | None = None
        best_rank: Any = None
        for queue in queues:
            if queue.children:
                job = self._first_of(queue.children, jobs, rank)
            else:
                job = self._first_in(queue, jobs)
            if job is None:
                continue
            own_rank: Any = None  # a queue without competitors is not ranked
            if best is not None and best_queue is not None:
                if best_rank is None:
                    best_rank = rank(best_queue, best)
                own_rank = rank(queue, job)
                if own_rank == best_rank:
                    if not self._wins_tie(queue, job, best_queue, best):
                        continue
                elif own_rank < best_rank:
                    continue  # the first to lose ranks last
            best_queue, best, best_rank = queue, job, own_rank
        return best

    def _first_in(self, queue: Queue, jobs: _Candidates) -> Job | None:
        skipped, found = 0, None
        for _, _, job in reversed(jobs.leaves.get(queue.name, ())):
            if jobs.wanted(job):
                found = job
                break
            skipped += 1
        self._skipped[queue.name] = skipped
        return found

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
