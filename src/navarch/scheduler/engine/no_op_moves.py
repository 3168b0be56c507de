"""Victims that would return to the place they had to leave, found without moving them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from navarch.scheduler.engine.serving_order import QueueRank, ServingOrder
from navarch.scheduler.framework.hooks import Event, EventFn
from navarch.scheduler.framework.placing import is_plain
from navarch.scheduler.model.placement import Placement, without_place

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from navarch.scheduler.engine.place_finder import PlaceFinder
    from navarch.scheduler.engine.ranking import Ranking
    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.model.job import Job, Task
    from navarch.scheduler.model.queues import Queue


T = TypeVar("T")


class _Worth(NamedTuple):
    """The score that the node of a task would have for it if the task had to leave."""

    placement: Placement
    """Where it is: it holds as long as that, its node and the extremes are what they were."""
    extents: list[tuple[int, int]]
    seen: int
    """How long the log of changed nodes was."""
    score: float | None


class NoOpMoveCheck:
    """Finds single tasks that would return at once if they had to leave.

    With room elsewhere, a pending job often evicts a task that is served before it and takes its
    old place again: a simulation moves it out and back, only to find everything as it was. Many
    pending jobs choose the same victim one after another, so results are kept.
    """

    def __init__(self, state: ClusterState, finder: PlaceFinder, order: ServingOrder) -> None:
        self._state = state
        self._finder = finder
        self._order = order
        self._weights: dict[str, tuple[Placement, Any]] = {}
        """By task, where it was, and what its job weighed when it had to leave there."""
        self._worths: dict[str, _Worth] = {}
        """By task."""
        self._rankings: dict[str, Ranking] = {}
        """By task that only the nodes could keep from returning, their ranking."""

    def goes_straight_back(self, part: Job, leaving: Sequence[Task]) -> bool:
        """Return whether the only task to leave for `part` would be served before it, and return.

        `False` is always safe: then a simulation decides.
        """
        if len(leaving) != 1:
            return False
        (task,) = leaving
        if task.placement.node is None or part.queue == task.job.queue:
            return False
        ranking = self._rankings.get(task.uid) or self._ranking(task)
        if ranking is None:
            return False
        return self._is_first(task, part) and self._is_best_off_at_home(task, ranking)

    def _ranking(self, task: Task) -> Ranking | None:
        """Return the ranking of nodes for a task that only they could keep from returning."""
        state, finder, job = self._state, self._finder, task.job
        if job.size != 1 or not is_plain(state, job, [task]):
            return None
        if any(hook.concerns(job) for hook in state.hooks("is_job_over_capacity")):
            return None
        kind = finder.kind(task)
        if finder.refusal(kind, [task], job) is not None or kind not in finder.never_refused:
            return None
        ranking = finder.ranking(kind, [task], job)
        if ranking is not None:
            self._rankings[task.uid] = ranking
        return ranking

    def _is_first(self, task: Task, part: Job) -> bool:
        """Return whether a task that left for `part` would be served before it."""
        state, order = self._state, self._order
        leaves = state.queues.leaves
        if part.queue not in leaves or task.job.queue not in leaves:
            return False
        theirs, ours = state.queues.diverging(part.queue, task.job.queue)
        rank = self._rank_without(task, ours)
        other = order.rank_of(part, theirs)  # no job below that queue has to leave
        if rank is None or other is None:
            return False
        first = order.first_as_known(rank, other)
        if first is None:
            first = while_leaving(state, task, lambda: order.first(part, task.job))
        return first is task.job

    def _rank_without(self, task: Task, queue: Queue) -> QueueRank | None:
        """Return the rank of a queue as if the task, in or below it, had to leave."""
        state, job = self._state, task.job
        known, order = self._weights.get(task.uid), state.only_queue_order()
        return_rank = None if order is None else order.return_rank
        if return_rank is None or known is None or known[0] is not task.placement:
            rank = while_leaving(state, task, lambda: self._order.rank_of(job, queue))
            if rank is not None:
                self._weights[task.uid] = (task.placement, rank.weight)
            return rank
        return QueueRank(job, queue, known[1], return_rank(queue, job))

    def _is_best_off_at_home(self, task: Task, ranking: Ranking) -> bool:
        """Return whether a task that left would find no better node than the one it is on."""
        state, placement = self._state, task.placement
        assert placement.node is not None, f"{task} has a place"
        ranking.refresh()  # now, since what is kept must not see the task leave
        home = state.nodes[placement.node]
        known, log = self._worths.get(task.uid), state.changes.rows
        if (
            known is None
            or known.placement is not placement
            or known.extents != ranking.extents
            or home.index in log[known.seen :]
        ):
            score = while_leaving(state, task, lambda: ranking.score_for_a_moment(home))
            known = _Worth(placement, ranking.extents, len(log), score)
            self._worths[task.uid] = known
        return known.score is not None and ranking.is_best_at(home.index, known.score)


def while_leaving(state: ClusterState, task: Task, query: Callable[[], T]) -> T:
    """Return the result of `query` while the task, which shares no GPU, is leaving.

    Nodes, accounts and the task itself show that it leaves; afterwards everything is as before.
    The change log does not record it, so `query` must not read anything that is kept by the log.
    """
    before = task.placement
    assert before.node is not None, f"{task} cannot leave: it has no place"
    after, event = without_place(before), Event(task, before.node)
    undo: list[EventFn | None] = []
    _show(state, task, before, after)
    try:
        for handler in state.event_handlers:
            if handler.deallocate_fn is not None:
                handler.deallocate_fn(event)
            undo.append(handler.allocate_fn)
        return query()
    finally:
        _show(state, task, after, before)
        for opposite in reversed(undo):
            if opposite is not None:
                opposite(event)


def _show(state: ClusterState, task: Task, before: Placement, after: Placement) -> None:
    """Let nodes and the task show a step that is not recorded."""
    for booking in after.bookings:
        if booking not in before.bookings:
            state.nodes[booking.node].show(task, booking, 1)
    for booking in before.bookings:
        if booking not in after.bookings:
            state.nodes[booking.node].show(task, booking, -1)
    task.placement = after
    task.job.version += 1
