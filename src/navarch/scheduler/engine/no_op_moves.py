"""Victims that would take the very place they had to leave: told without moving anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from navarch.scheduler.engine.turns import Turn
from navarch.scheduler.framework.placing import is_plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.engine.ranking import Ranking
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.placement import Placement
    from navarch.scheduler.model.queues import Queue
    from navarch.scheduler.model.task import Task


class _Worth(NamedTuple):
    """What the node that a task has to leave would be worth to it."""

    placement: Placement
    """Where it is: it holds as long as that, its node and the extremes are what they were."""
    extents: list[tuple[int, int]]
    seen: int
    """How long the log of changed nodes was."""
    score: float | None


class NoOpMoveCheck:
    """Tells of single tasks whether they would go straight back if they had to leave.

    With room elsewhere, a pending job often makes a task leave that is served before it and takes
    its old place again: a simulation moves it out and back, only to find everything as it was.
    Many pending jobs choose the same victim one after another, so what is found is kept.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._weights: dict[str, tuple[Placement, Any]] = {}
        """By task, where it was, and what its job weighed when it had to leave there."""
        self._worths: dict[str, _Worth] = {}
        """By task."""
        self._rankings: dict[str, Ranking] = {}
        """By task that only nodes could keep from returning, what they are worth to it."""

    def goes_straight_back(self, part: Job, leaving: Sequence[Task]) -> bool:
        """Say whether the only task to leave for `part` would be served before it, and return.

        No is always a safe answer: then it takes a simulation.
        """
        if len(leaving) != 1 or not self._session.parameters.fast_paths:
            return False
        (task,) = leaving
        if task.placement.node is None or part.queue == task.job.queue:
            return False
        ranking = self._rankings.get(task.uid) or self._ranking(task)
        if ranking is None:
            return False
        return self._is_first(task, part) and self._is_best_off_at_home(task, ranking)

    def _ranking(self, task: Task) -> Ranking | None:
        """Return what nodes are worth to a task that only they could keep from returning."""
        session, engine, job = self._session, self._session.engine, task.job
        if job.size != 1 or not is_plain(session, job, [task]):
            return None
        if any(hook.concerns(job) for hook in session.hooks("is_job_over_capacity")):
            return None
        if engine.refusal(task, job) is not None or not engine.is_welcome(engine.kind(task)):
            return None
        ranking = engine.ranking(task, job)
        if ranking is not None:
            self._rankings[task.uid] = ranking
        return ranking

    def _is_first(self, task: Task, part: Job) -> bool:
        """Say whether a task that left for `part` would be served before it."""
        session, turns = self._session, self._session.turns
        leaves = session.queues.leaves
        if part.queue not in leaves or task.job.queue not in leaves:
            return False
        theirs, ours = session.queues.diverging(part.queue, task.job.queue)
        turn = self._turn(task, ours)
        other = turns.turn_as_ranked(part, theirs)  # nobody below that queue has to leave
        if turn is None or other is None:
            return False
        first = turns.first_as_known(turn, other)
        if first is None:
            first = session.ask_while_leaving(task, lambda: turns.first(part, task.job))
        return first is task.job

    def _turn(self, task: Task, queue: Queue) -> Turn | None:
        """Return when it would be the turn of a queue if the task, in or below it, had to leave."""
        session, job = self._session, task.job
        known, order = self._weights.get(task.uid), session.only_queue_order()
        return_rank = None if order is None else order.return_rank
        if return_rank is None or known is None or known[0] is not task.placement:
            turn = session.ask_while_leaving(task, lambda: session.turns.turn_of(job, queue))
            if turn is not None:
                self._weights[task.uid] = (task.placement, turn.weight)
            return turn
        return Turn(job, queue, known[1], return_rank(queue, job))

    def _is_best_off_at_home(self, task: Task, ranking: Ranking) -> bool:
        """Say whether a task that left would find no better node than the one it is on."""
        session, placement = self._session, task.placement
        assert placement.node is not None, f"{task} has a place"
        ranking.refresh()  # now, since what is kept must not see the task leave
        home = session.nodes[placement.node]
        known, log = self._worths.get(task.uid), session.changes.rows
        if (
            known is None
            or known.placement is not placement
            or known.extents != ranking.extents
            or home.index in log[known.seen :]
        ):
            score = session.ask_while_leaving(task, lambda: ranking.score_for_a_moment(home))
            known = _Worth(placement, ranking.extents, len(log), score)
            self._worths[task.uid] = known
        return known.score is not None and ranking.is_best_at(home.index, known.score)
