"""Jobs of all queues in the order they are to be served, or to be taken from."""

from __future__ import annotations

from bisect import insort
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from navarch.scheduler.engine.check import check_same
from navarch.scheduler.engine.job_index import Entry, JobIndex
from navarch.scheduler.framework.victim_list import VictimList

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from navarch.scheduler.framework.points import Hook
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.queues import Queue


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


class _Leaf:
    """The jobs of one leaf queue in order, and how many of them have been handed out."""

    __slots__ = ("entries", "head", "next")

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.next = 0
        self.head: Job | None = entries[0][2] if entries else None
        """The one to hand out next."""

    def add(self, entry: Entry) -> None:
        """Add a job where it belongs among those that were not handed out."""
        insort(self.entries, entry, lo=self.next)
        self.head = self.entries[self.next][2]

    def take(self) -> None:
        """Have the next one handed out."""
        self.next += 1
        self.head = self.entries[self.next][2] if self.next < len(self.entries) else None


class _KeptLeaf:
    """Those jobs of one leaf queue that are wanted, out of a list in order that others use, too."""

    __slots__ = ("_added", "_entries", "_front", "_last_first", "_next", "_wanted", "head")

    def __init__(
        self,
        entries: Sequence[Entry],
        wanted: Callable[[Job], bool],
        *,
        last_first: bool,
        unwanted: int | None = None,
    ) -> None:
        """With how many at the front were found not to be wanted, before one that is."""
        self._entries = entries
        self._wanted = wanted
        self._last_first = last_first
        self._next = 0
        """How many have been looked at; who is wanted is found out one by one."""
        self._added: list[Entry] = []
        """Views of jobs that were added since, in order."""
        self._front: Entry | None = None
        self.head: Job | None = None
        if unwanted is None:
            self._look_further()
        elif unwanted < len(entries):
            self._front, self._next = self._entry(unwanted), unwanted + 1
        else:
            self._next = unwanted
        self._find_head()

    def _entry(self, place: int) -> Entry:
        return self._entries[-1 - place if self._last_first else place]

    def add(self, entry: Entry) -> None:
        """Add a job where it belongs among those that were not handed out."""
        insort(self._added, entry)
        self._find_head()

    def take(self) -> None:
        """Have the next one handed out."""
        if self._front is not None and self.head is self._front[2]:
            self._look_further()
        else:
            self._added.pop(-1 if self._last_first else 0)
        self._find_head()

    def _look_further(self) -> None:
        """Find the next one of the list that is wanted."""
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


class _Place:
    """One queue among its siblings: the best job in it, and its rank as it was last worked out."""

    __slots__ = ("changes", "job", "leaf", "queue", "rank")

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.leaf: _Leaf | _KeptLeaf | None = None
        self.changes = -1
        """How often the account of the queue had changed when the rank was worked out."""
        self.job: Job | None = None
        self.rank: Any = None

    def rank_by(self, rank: Callable[[Queue, Job], Any]) -> None:
        """Work the rank out, for the job that is the best now."""
        queue, job = self.queue, self.job
        assert job is not None, "those that wait have a job"
        self.changes, self.rank = queue.changes, rank(queue, job)
        queue.ranked = (rank, queue.changes, job, self.rank)


class JobQueue:
    """Hands out one job at a time: best queue at each level, then the best job in it.

    The best queue is looked for on every pop, since each placement changes what is fair. With
    `victims` every comparison is turned round, and queues are compared as they would be without
    the jobs already handed out.
    """

    def __init__(
        self,
        session: Session,
        *,
        victims: bool = False,
        key: Callable[[Job], Any] | None = None,
    ) -> None:
        """With `key`, by which leaves that are kept elsewhere have been put in order."""
        self._session = session
        self._victims = victims
        self._key = key or self._sort_key()
        self._leaves: dict[str, _Leaf | _KeptLeaf] = {}
        self._new_leaf: Callable[[], _Leaf | _KeptLeaf] = lambda: _Leaf([])
        self._unread: tuple[Mapping[str, Sequence[Entry]], Callable[[Job], bool]] | None = None
        """The leaves of a roster, and who of it is wanted: many searches take but one."""
        self._unwanted: dict[str, int] = {}
        """By leaf, how many were passed over when the first was looked for: nobody asks twice."""
        self._first: Job | None = None
        """The one that was handed out before leaves were read."""
        self._popped: dict[str, list[Job]] = {}
        self._pushes = 0
        order = session.only_queue_order()
        self._rank = None if order is None else self._loss_rank(order) if victims else order.rank
        self._levels: dict[int, list[_Place]] = {}
        """Siblings, by the identity of the list they are in."""
        self._ties = session.loss_ties if victims else session.queue_ties

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

    @classmethod
    def out_of(
        cls,
        session: Session,
        roster: JobIndex,
        wanted: Callable[[Job], bool],
        *,
        victims: bool = False,
    ) -> JobQueue:
        """Return a queue that holds those jobs of a roster that are wanted.

        Where the order of jobs can be kept, it takes as long as those take that are handed out.
        """
        _, key, is_kept = session.job_order()
        kept = is_kept and session.parameters.fast_paths
        if key is None or not kept or (victims and session.hooks("victim_cost")):
            return cls.of(session, filter(wanted, roster.jobs), victims=victims)
        queue = cls(session, victims=victims, key=key)
        # A copy: as leaves are now, whenever they are read.
        queue._unread = (dict(roster.leaves(key)), wanted)
        if queue._rank is None or not victims:
            queue._read()
        return queue

    def _read(self) -> None:
        """Have the jobs of a roster in leaves, without the one that was handed out before."""
        assert self._unread is not None, "they are read once"
        (roster, wanted), self._unread = self._unread, None
        known, last_first = self._session.queues.leaves, self._victims
        for name, entries in roster.items():
            if name in known:
                self._leaves[name] = _KeptLeaf(
                    entries, wanted, last_first=last_first, unwanted=self._unwanted.get(name)
                )
        self._new_leaf = lambda: _KeptLeaf((), wanted, last_first=last_first)
        if self._first is not None:
            self._leaves[self._first.queue].take()

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
        if self._unread is not None:
            self._read()
        leaf = self._leaves.get(job.queue)
        if leaf is None:
            if self._session.queues.leaf(job.queue) is None:
                return
            leaf = self._leaves[job.queue] = self._new_leaf()
            self._levels.clear()
        leaf.add((self._key(job), self._pushes, job))
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
        if self._unread is not None:
            if self._first is None:
                return self._pop_first()
            self._read()
        best = self._next()
        if best is None:
            return None
        self._leaves[best.queue].take()
        if self._victims:
            self._popped.setdefault(best.queue, []).append(best)
        return best

    def _next(self) -> Job | None:
        """Return the best job of all."""
        rank, roots = self._rank, self._session.queues.roots
        if rank is None:
            return self._best_of_siblings(roots)
        best = self._best_by_rank(roots, rank)
        if self._session.parameters.check_fast_paths:
            check_same("the next job is", best, self._best_of_siblings(roots))
        return best

    def _pop_first(self) -> Job | None:
        """Return the first to be taken of a roster, without making leaves and levels of it."""
        assert self._unread is not None, "nobody has been handed out"
        assert self._rank is not None, "else leaves are made at once"
        best = self._first_of(self._session.queues.roots, *self._unread, self._rank)
        if best is None:
            self._read()  # nobody is wanted, and nobody need be asked again
            return None
        if self._session.parameters.check_fast_paths:
            self._read()
            check_same("the first job is", best, self._next())
            self._leaves[best.queue].take()
        self._first = best
        self._popped.setdefault(best.queue, []).append(best)
        return best

    def _first_of(
        self,
        queues: Sequence[Queue],
        roster: Mapping[str, Sequence[Entry]],
        wanted: Callable[[Job], bool],
        rank: Callable[[Queue, Job], Any],
    ) -> Job | None:
        best_queue: Queue | None = None
        best: Job | None = None
        best_rank: Any = None
        for queue in queues:
            job: Job | None = None
            if queue.children:
                job = self._first_of(queue.children, roster, wanted, rank)
            else:
                unwanted = 0
                for _, _, last in reversed(roster.get(queue.name, ())):
                    if wanted(last):
                        job = last
                        break
                    unwanted += 1
                self._unwanted[queue.name] = unwanted
            if job is None:
                continue
            own_rank: Any = None  # one that waits alone need not be ranked
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

    def _loss_rank(self, order: Hook) -> Callable[[Queue, Job], Any] | None:
        """Return what `_best_by_rank` is to rank queues by that lose their next job."""
        rank = order.loss_rank
        if rank is None or not self._session.parameters.fast_paths:
            return None
        kept = self._session.loss_ranks

        def rank_with_loss(queue: Queue, job: Job) -> Any:  # noqa: ANN401
            if job.queue in self._popped:
                return rank(queue, self._taken_with(job))
            known = kept.get(queue.name)
            if known is None or known[0] != queue.changes or known[1] is not job:
                known = kept[queue.name] = (queue.changes, job, rank(queue, VictimList([], job)))
            return known[2]

        return rank_with_loss

    def pop_one_of(self, wanted: Sequence[Job]) -> Job | None:
        """Return the next of the wanted jobs; those before it are dropped."""
        order = None if self._rank is None or self._victims else self._session.only_queue_order()
        weight = None if order is None else order.weight
        while (job := self.pop()) is not None and job not in wanted:
            if weight is None:
                continue
            # Dropping a job changes no account: its queue stays the best for one of equal weight.
            leaf, dropped = self._leaves[job.queue], weight(job)
            while (
                (head := leaf.head) is not None and head not in wanted and weight(head) == dropped
            ):
                self._drop(leaf, head)
        return job

    def _drop(self, leaf: _Leaf | _KeptLeaf, head: Job) -> None:
        """Have the head of a leaf handed out, whose turn it is."""
        if self._session.parameters.check_fast_paths:
            popped = self.pop()
            check_same("the next job is", head.name, None if popped is None else popped.name)
        else:
            leaf.take()

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

    def _best_by_rank(
        self, queues: Sequence[Queue], rank: Callable[[Queue, Job], Any]
    ) -> Job | None:
        """Return what `_best_of_siblings` would, working out only ranks that may have changed."""
        best: _Place | None = None
        level = self._levels.get(id(queues))
        if level is None:
            level = self._level(queues)
        if len(level) == 1 and level[0].leaf is not None:
            return level[0].leaf.head  # one that waits alone need not be ranked
        for place in level:
            leaf, queue = place.leaf, place.queue
            job = self._best_by_rank(queue.children, rank) if leaf is None else leaf.head
            if job is None:
                continue
            if job is not place.job:
                place.job, place.changes = job, -1
            if best is None:
                best = place  # one that waits alone need not be ranked
                continue
            if self._is_better(place, best, rank):
                best = place
        return None if best is None else best.job

    def _is_better(self, place: _Place, best: _Place, rank: Callable[[Queue, Job], Any]) -> bool:
        """Say whether a queue with its best job is before another; rank them if need be."""
        if best.changes != best.queue.changes:
            best.rank_by(rank)
        if place.changes != place.queue.changes:
            place.rank_by(rank)
        if place.rank == best.rank:
            assert place.job is not None, "those that wait have a job"
            assert best.job is not None, "those that wait have a job"
            return self._wins_tie(place.queue, place.job, best.queue, best.job)
        return bool(place.rank < best.rank) is not self._victims  # the first to lose ranks last

    def _level(self, queues: Sequence[Queue]) -> list[_Place]:
        key = id(queues)
        while len(queues) == 1 and queues[0].children:
            queues = queues[0].children  # an only one has nobody to be compared with
        # A leaf without jobs has nothing to offer until one is added, and levels are made anew.
        level = self._levels[key] = [
            _Place(queue) for queue in queues if queue.children or queue.name in self._leaves
        ]
        for place in level:
            place.leaf = self._leaves.get(place.queue.name)
        return level

    def _wins_tie(self, left: Queue, left_job: Job, right: Queue, right_job: Job) -> bool:
        pair = (left.name, right.name)
        tie = self._ties.get(pair)
        if tie is None:
            tie = self._ties[pair] = self._compare_queues(left, left_job, right, right_job) < 0
        return tie

    def _best_in(self, queue: Queue) -> Job | None:
        """Return the job that a queue would hand out next."""
        if queue.children:
            return self._best_of_siblings(queue.children)
        leaf = self._leaves.get(queue.name)
        return None if leaf is None else leaf.head

    def _compare_queues(self, left: Queue, left_best: Job, right: Queue, right_best: Job) -> int:
        memory = self._session.min_gpu_memory_mib
        if not self._victims:
            jobs = (left_best, right_best)
            return self._session.compare_queues(left, right, jobs, ((), ()), memory)
        victims = (self._taken_with(left_best), self._taken_with(right_best))
        return -self._session.compare_queues(left, right, (None, None), victims, memory)

    def _taken_with(self, best: Job) -> VictimList:
        return VictimList(self._popped.setdefault(best.queue, []), best)
