"""Placing a gang of equal tasks that nobody has touched, all of it or nothing, without an undo log.

Most gangs are like that: one pod set of equal pods, all pending, and idle nodes that hold them all.
There is nothing to take back step by step, so what a statement keeps for that is not written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.decision import Bind, MarkStarted, a_bind
from navarch.scheduler.fast.check import check_place
from navarch.scheduler.fast.engine import UNKNOWN
from navarch.scheduler.quantity import gpus
from navarch.scheduler.state.job import Members, made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.session import Session
    from navarch.scheduler.state.job import Job
    from navarch.scheduler.state.node import Node
    from navarch.scheduler.state.task import Task


class Express:
    """Places whole gangs for the allocate action where that is plain."""

    def __init__(self, session: Session, action: str) -> None:
        self._session = session
        self._action = action
        self._subsets = session.hooks("subset_nodes")
        self._mutates = bool(session.hooks("bind_request_mutate"))
        self._checks = session.parameters.check_fast_paths
        self._usable = session.parameters.fast_paths

    def takes(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Say whether `tasks` are all there is of the job, equal, pending, and free to go anywhere.

        Others have to be placed with a statement.
        """
        # Whose turn it is is only left open where nobody has touched equal tasks.
        if not self._usable or not isinstance(tasks, Members) or len(tasks) != job.size:
            return False
        subsets = self._subsets
        return not subsets or not any(hook.concerns(tasks[0]) for hook in subsets)

    def place(self, job: Job, tasks: Sequence[Task]) -> bool | None:
        """Place and decide; say whether it worked, or nothing if that takes a statement."""
        engine = self._session.engine
        kind = job.root.pod_sets[0].kind
        assert kind is not None, "equal tasks are of a kind"
        ranking = engine.known_ranking(kind, job)
        if ranking is UNKNOWN:
            ranking = engine.ranking(tasks[0], job)
        if ranking is None:
            return None
        if not engine.is_welcome(kind) and engine.refusal(tasks[0], job) is not None:
            return None
        nodes = engine.next_nodes(ranking, tasks, real=True)
        if not nodes:
            if self._checks:
                return None  # the long way makes sure of it
            self._session.unplaced[job.name] = (tasks, job)
            return False
        if len(nodes) < len(tasks) or not ranking.can_start(nodes):
            engine.put_back(len(nodes))
            return None
        tasks = made(tasks)
        if self._checks:
            self._check(job, tasks, nodes)
        self._session.take_all(tasks, nodes)
        engine.placed()
        return self._decide(job, tasks, nodes)

    def _check(self, job: Job, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        """Compare each place with the one that asking about every node finds."""
        session = self._session
        with session.attempt(self._action) as statement:
            for task, node in zip(tasks, nodes, strict=True):
                check_place(session, task, job, session.node_list, node)
                statement.allocate_all([task], [node])

    def _decide(self, job: Job, tasks: Sequence[Task], nodes: Sequence[Node]) -> bool:
        session = self._session
        accept = session.sink.accept
        binds = self._binds(job, tasks, nodes)
        accepted = 0
        try:
            for bind in binds:
                if accept(bind) is not None:
                    break
                accepted += 1
        finally:
            if accepted < len(binds):
                for bind in reversed(binds[:accepted]):
                    session.sink.withdraw(bind)
                session.give_all(tasks, nodes)
        if accepted < len(binds):
            return False
        session.settle_all(tasks, nodes)
        if accept(MarkStarted(job=job.name, at=session.now)) is None:
            job.last_start = session.now
        return True

    def _binds(self, job: Job, tasks: Sequence[Task], nodes: Sequence[Node]) -> list[Bind]:
        name, action = job.name, self._action
        portion = gpus(nodes[0].quota_of(tasks[0].request).gpu)
        pairs = zip(tasks, nodes, strict=True)
        if not self._mutates:
            return [a_bind(task.uid, name, node.name, action, portion, {}) for task, node in pairs]
        notes = self._session.bind_annotations
        return [
            a_bind(task.uid, name, node.name, action, portion, notes(task, node.name))
            for task, node in pairs
        ]
