"""Placing a gang of equal tasks that nobody has touched, all of it or nothing, without an undo log.

Most gangs are like that: one pod set of equal pods, all pending, and idle nodes that hold them all.
There is nothing to take back step by step, so what a statement keeps for that is not written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.scheduler.decision import Bind, a_bind, a_start
from navarch.scheduler.fast.check import check_place
from navarch.scheduler.fast.engine import UNKNOWN
from navarch.scheduler.quantity import gpus
from navarch.scheduler.state.job import Members, Mixed, made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.fast.engine import Engine
    from navarch.scheduler.fast.ranking import Ranking
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

    def takes(self, tasks: Sequence[Task]) -> bool:
        """Say whether `tasks` are all there is of a job, equal, pending, and free to go anywhere.

        Others have to be placed with a statement.
        """
        # Whose turn it is is only left open where nobody has touched equal tasks.
        if not isinstance(tasks, Members) or tasks.number != tasks.pod_set.size:
            return False
        subsets = self._subsets
        return self._usable and not (subsets and any(h.concerns(tasks.first) for h in subsets))

    def refuses(self, job: Job, tasks: Sequence[Task]) -> bool:
        """Say whether one of several kinds of tasks is known to find no room; then none is made."""
        if not isinstance(tasks, Mixed) or not self._usable or self._checks or self._subsets:
            return False
        engine = self._session.engine
        rankings: list[Ranking] = []
        for look in tasks.looks:
            ranking = engine.known_ranking(look.kind, job)
            if ranking is None or ranking is UNKNOWN or not engine.is_welcome(look.kind):
                return False
            rankings.append(ranking)
        # What is known without another look first.
        for has_room in (engine.may_have_room, engine.has_room):
            for look, ranking in zip(tasks.looks, rankings, strict=True):
                if not has_room(ranking, len(look.specs)):
                    self._session.unplaced[job.name] = (tasks.part(look), job)
                    return True
        return False

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
        if ranking.is_hopeless(len(tasks)) and not self._checks:
            self._session.unplaced[job.name] = (tasks, job)
            return False
        if len(tasks) == 1 and not self._checks:
            return self._place_one(engine, ranking, job, tasks)
        nodes = self._take(engine, ranking, job, tasks)
        if nodes is None:
            return None
        if not nodes:
            self._session.unplaced[job.name] = (tasks, job)
            return False
        return self._decide(job, made(tasks), nodes)

    def _place_one(
        self, engine: Engine, ranking: Ranking, job: Job, tasks: Sequence[Task]
    ) -> bool | None:
        """Do for a job of one task what `_take` and `_decide` do for any; most jobs are such."""
        session = self._session
        nodes = engine.next_nodes(ranking, tasks, real=True)
        if not nodes:
            session.unplaced[job.name] = (tasks, job)
            return False
        if not ranking.can_start(nodes):
            engine.put_back(1)
            return None
        tasks = made(tasks)
        session.take_all(tasks, nodes)
        engine.placed()
        task, node = tasks[0], nodes[0]
        accept = session.sink.accept
        accepted = False
        try:
            portion = gpus(task.request.gpu.whole)
            notes = session.bind_annotations(task, node.name) if self._mutates else {}
            bind = a_bind(task.uid, job.name, node.name, self._action, portion, notes)
            accepted = accept(bind) is None
        finally:
            if not accepted:
                session.give_all(tasks, nodes)
        if not accepted:
            return False
        task.placement = node.bound
        job.version += 1
        if accept(a_start(job.name, session.now)) is None:
            job.last_start = session.now
        return True

    def _take(
        self, engine: Engine, ranking: Ranking, job: Job, tasks: Sequence[Task]
    ) -> list[Node] | None:
        """Put tasks on nodes, all or none; nothing is returned if that takes a statement."""
        taken: list[Node] = []
        nodes: list[Node] = []
        try:
            while len(taken) < len(tasks):
                rest = tasks[len(taken) :] if taken else tasks
                nodes = engine.next_nodes(ranking, rest, real=True)
                if not nodes or not ranking.can_start(nodes):
                    engine.put_back(len(nodes))
                    break
                tasks = made(tasks)
                part = tasks[len(taken) : len(taken) + len(nodes)]
                if self._checks:
                    self._check(job, part, nodes)
                self._session.take_all(part, nodes)
                engine.placed()
                taken += nodes
        finally:
            if taken and len(taken) < len(tasks):
                self._session.give_all(tasks[: len(taken)], taken)
        if len(taken) == len(tasks):
            return taken
        # That nobody has room the long way makes sure of where fast paths are checked.
        return None if nodes or self._checks else []

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
        binds: list[Bind] = []
        accepted = 0
        try:
            binds = self._binds(job, tasks, nodes)
            for bind in binds:
                if accept(bind) is not None:
                    break
                accepted += 1
        finally:
            if accepted < len(tasks):
                for bind in reversed(binds[:accepted]):
                    session.sink.withdraw(bind)
                session.give_all(tasks, nodes)
        if accepted < len(tasks):
            return False
        session.settle_all(tasks, nodes)
        if accept(a_start(job.name, session.now)) is None:
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
