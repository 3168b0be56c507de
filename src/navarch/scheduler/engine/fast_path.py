"""Placing a gang of equal tasks that nobody has touched, all of it or nothing, without an undo log.

Most gangs are like that: one pod set of equal pods, all pending, and idle nodes that hold them all.
There is nothing to take back step by step, so what a statement keeps for that is not written down.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from navarch.scheduler.engine.check import check_place
from navarch.scheduler.engine.engine import UNKNOWN
from navarch.scheduler.framework.decision import Bind, a_bind, a_start
from navarch.scheduler.model.lazy_tasks import LazyMixedTasks, LazyTasks, materialise
from navarch.scheduler.model.quantity import gpus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from navarch.scheduler.engine.engine import Engine
    from navarch.scheduler.engine.ranking import Ranking
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.task import Task


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
        """Say whether `tasks` are all there is of a job, of few kinds, pending, and not confined.

        Others have to be placed with a statement.
        """
        if not self._usable:
            return False
        # Whose turn it is is only left open where nobody has touched the tasks.
        if isinstance(tasks, LazyTasks):
            subsets = self._subsets
            if tasks.number != tasks.pod_set.size:
                return False
            return not subsets or not any(hook.concerns(tasks.first) for hook in subsets)
        return isinstance(tasks, LazyMixedTasks) and not self._subsets and not self._checks

    def place(self, job: Job, tasks: Sequence[Task]) -> bool | None:
        """Place and decide; say whether it worked, or nothing if that takes a statement."""
        if type(tasks) is LazyMixedTasks:  # asked of every job: an abstract base is slow to say no
            return self._place_mixed(job, tasks)
        engine = self._session.engine
        assert isinstance(tasks, LazyTasks), "that is what it takes"
        count = tasks.number
        kind = job.root.pod_sets[0].kind
        assert kind is not None, "equal tasks are of a kind"
        ranking = engine.known_ranking(kind, job)
        if ranking is UNKNOWN:
            ranking = engine.ranking(tasks[0], job)
        if ranking is None:
            return None
        if not engine.is_welcome(kind) and engine.refusal(tasks[0], job) is not None:
            return None
        if ranking.is_hopeless(count) and not self._checks:
            self._session.unplaced[job.name] = (tasks, job)
            return False
        if count == 1 and not self._checks:
            return self._place_one(engine, ranking, job, tasks)
        nodes = self._take(engine, ranking, job, tasks)
        if nodes is None:
            return None
        if not nodes:
            self._session.unplaced[job.name] = (tasks, job)
            return False
        return self._decide(job, [(materialise(tasks), nodes)])

    def _place_mixed(self, job: Job, tasks: LazyMixedTasks) -> bool | None:
        """Place tasks of a few kinds; if one of the kinds finds no room, none is even made."""
        engine = self._session.engine
        rankings: dict[int, Ranking] = {}
        for shape in tasks.shapes:
            ranking = engine.known_ranking(shape.kind, job)
            if ranking is UNKNOWN or not engine.is_welcome(shape.kind):
                first = tasks.part(shape)[0]
                ranking = engine.ranking(first, job)
                if engine.refusal(first, job) is not None:
                    return None
            if ranking is None:
                return None
            rankings[shape.kind] = ranking
        # What is known without another look first.
        for has_room in (engine.may_have_room, engine.has_room):
            for shape in tasks.shapes:
                if not has_room(rankings[shape.kind], len(shape.specs)):
                    self._session.unplaced[job.name] = (tasks.part(shape), job)
                    return False
        return self._place_runs(engine, rankings, job, tasks.materialise())

    def _place_runs(
        self,
        engine: Engine,
        rankings: Mapping[int, Ranking],
        job: Job,
        tasks: Sequence[Task],
    ) -> bool | None:
        """Place tasks in order, equal ones that follow each other together; all or none."""
        parts: list[tuple[Sequence[Task], list[Node]]] = []
        nodes: list[Node] | None = []
        placed = False
        try:
            for kind, equal in groupby(tasks, engine.kind):
                run = list(equal)
                nodes = self._take(engine, rankings[kind], job, run)
                if not nodes:
                    if nodes is not None:
                        self._session.unplaced[job.name] = (run, job)
                    break
                parts.append((run, nodes))
            else:
                placed = True
        finally:
            if not placed:
                self._give_back(parts)
        if placed:
            return self._decide(job, parts)
        return None if nodes is None else False

    def _give_back(self, parts: Sequence[tuple[Sequence[Task], Sequence[Node]]]) -> None:
        for tasks, nodes in reversed(parts):
            self._session.release(tasks, nodes)

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
        tasks = materialise(tasks)
        session.allocate(tasks, nodes)
        engine.placed()
        task, node = tasks[0], nodes[0]
        accept = session.sink.accept
        accepted = False
        try:
            portion = gpus(node.quota_of(task.request).gpu)
            notes = session.bind_annotations(task, node.name) if self._mutates else {}
            bind = a_bind(task.uid, job.name, node.name, self._action, portion, notes)
            accepted = accept(bind) is None
        finally:
            if not accepted:
                session.release(tasks, nodes)
        if not accepted:
            return False
        task.placement = node.bound
        session.note_change(job)
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
                tasks = materialise(tasks)
                part = tasks[len(taken) : len(taken) + len(nodes)]
                if self._checks:
                    self._check(job, part, nodes)
                self._session.allocate(part, nodes)
                engine.placed()
                taken += nodes
        finally:
            if taken and len(taken) < len(tasks):
                self._session.release(tasks[: len(taken)], taken)
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

    def _decide(self, job: Job, parts: Sequence[tuple[Sequence[Task], Sequence[Node]]]) -> bool:
        session = self._session
        accept = session.sink.accept
        binds: list[Bind] = []
        accepted = 0
        everybody = False
        try:
            for tasks, nodes in parts:
                binds += self._binds(job, tasks, nodes)
            for bind in binds:
                if accept(bind) is not None:
                    break
                accepted += 1
            everybody = accepted == len(binds)
        finally:
            if not everybody:
                for bind in reversed(binds[:accepted]):
                    session.sink.withdraw(bind)
                self._give_back(parts)
        if not everybody:
            return False
        for tasks, nodes in parts:
            session.commit(tasks, nodes)
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
