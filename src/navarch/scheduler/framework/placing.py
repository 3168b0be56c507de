"""Placing one job: find nodes for the tasks whose turn it is, all of them or none."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from navarch.core.errors import InvariantError
from navarch.scheduler.engine.check import check_place
from navarch.scheduler.engine.engine import Engine
from navarch.scheduler.framework.gang import tasks_to_place
from navarch.scheduler.framework.sharing import share_gpus
from navarch.scheduler.model.fit import Fit, UnschedulableJob
from navarch.scheduler.model.lazy_tasks import materialise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from navarch.scheduler.engine.ranking import Ranking
    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.framework.statement import Statement
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.pod_set import PodSet, SubGroup
    from navarch.scheduler.model.task import Task


WORTH_A_TABLE: Final = 4
"""For fewer tasks it does not pay to look at some of the nodes as a table of their own."""


class JobPlacing:
    """One attempt to place one job.

    With `real` tasks are put on idle resources where they fit at once; without, places are only
    promised, which is how simulations see what would happen once victims have left. A failed
    attempt leaves the statement as it found it.
    """

    def __init__(self, session: Session, statement: Statement, job: Job, *, real: bool) -> None:
        self._session = session
        self._statement = statement
        self._job = job
        self._real = real

    def place(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> bool:
        """Place the tasks, whose turn it is, on some of `nodes`; say whether it worked."""
        tasks = materialise(tasks)
        if is_plain(self._session, self._job, tasks):
            checkpoint = self._statement.checkpoint()
            alike = self._job.root.pod_sets[0].alike
            if self._place_tasks(tasks, nodes, alike=alike):
                return True
            self._statement.rollback(checkpoint)
            return False
        return self._place_group(self._job.root, tasks, nodes)

    def place_one(self, task: Task) -> bool:
        """Place one task on any node, whatever becomes of the others."""
        return self._place_tasks([task], self._session.node_list)

    def _place_group(self, group: SubGroup, tasks: Sequence[Task], nodes: Sequence[Node]) -> bool:
        pod_sets = group.all_pod_sets()
        subsets = self._session.subset_nodes(self._job, group, pod_sets, tasks, nodes)
        if isinstance(subsets, UnschedulableJob):
            self._note(subsets)
            return False
        for subset in subsets:
            checkpoint = self._statement.checkpoint()
            if self._place_members(group, tasks, subset):
                return True
            self._statement.rollback(checkpoint)
        return False

    def _place_members(self, group: SubGroup, tasks: Sequence[Task], nodes: Sequence[Node]) -> bool:
        for child in self._session.sort_sub_groups(group.groups):
            if not self._place_group(child, _within(child.all_pod_sets(), tasks), nodes):
                return False
        for pod_set in self._session.sort_pod_sets(group.pod_sets):
            if not self._place_pod_set(pod_set, _within([pod_set], tasks), nodes):
                return False
        return True

    def _place_pod_set(self, pod_set: PodSet, tasks: Sequence[Task], nodes: Sequence[Node]) -> bool:
        if not tasks:
            return True
        subsets = self._session.subset_nodes(self._job, pod_set, [pod_set], tasks, nodes)
        if isinstance(subsets, UnschedulableJob):
            self._note(subsets)
            return False
        for subset in subsets:
            checkpoint = self._statement.checkpoint()
            if self._place_tasks(tasks, subset):
                return True
            self._statement.rollback(checkpoint)
        return False

    def _place_tasks(
        self, tasks: Sequence[Task], nodes: Sequence[Node], *, alike: bool = False
    ) -> bool:
        """Place all the tasks, runs of equal ones together where that can be done."""
        engine = self._engine(tasks, nodes)
        if engine is None:
            place = self._place_among if self._session.parameters.fast_paths else self._place_task
            for task in tasks:  # noqa: SIM110 - one task, mostly: twice as quick
                if not place(task, nodes):
                    return False
            return True
        runs = [tasks] if alike else list(_runs(engine, tasks))
        if len(runs) > 1 and self._is_hopeless(engine, runs):
            return False
        for run in runs:
            ranking = engine.ranking(run[0], self._job)
            if ranking is None:
                if not all(self._place_task(task, nodes) for task in run):
                    return False
            elif not self._place_run(engine, ranking, run, nodes):
                return False
        return True

    def _is_hopeless(self, engine: Engine, runs: Sequence[Sequence[Task]]) -> bool:
        """Say whether some run is known to find no room, before others are put down in vain."""
        if not self._real or self._session.parameters.check_fast_paths:
            return False
        rankings: list[Ranking] = []
        for run in runs:
            ranking = engine.ranking(run[0], self._job)
            if ranking is None or not engine.is_welcome(engine.kind(run[0])):
                return False
            rankings.append(ranking)
        # What is known without another look first.
        for has_room in (engine.may_have_room, engine.has_room):
            for run, ranking in zip(runs, rankings, strict=True):
                if not has_room(ranking, len(run)):
                    self._session.unplaced[self._job.name] = (run, self._job)
                    return True
        return False

    def _engine(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> Engine | None:
        """Return what finds places for runs of tasks; nothing if it is not worth its while."""
        if not self._session.parameters.fast_paths:
            return None
        if nodes is self._session.node_list:
            return self._session.engine
        few = len(tasks) < WORTH_A_TABLE or not nodes
        return None if few else Engine(self._session, nodes)

    def _place_run(
        self, engine: Engine, ranking: Ranking, run: Sequence[Task], nodes: Sequence[Node]
    ) -> bool:
        """Place equal tasks, all of them; one after another they would end up just there."""
        refusal = engine.refusal(run[0], self._job)
        if refusal is not None:
            if self._real:
                self._session.note_task_reason(refusal)
            return False
        if self._session.parameters.check_fast_paths:
            return self._place_checked(engine, ranking, run, nodes)
        while run:
            places = engine.next_nodes(ranking, run, real=self._real)
            if not places:
                if self._real:
                    self._session.unplaced[self._job.name] = (run, self._job)
                return False
            self._put_all(ranking, run[: len(places)], places)
            engine.placed()
            run = run[len(places) :]
        return True

    def _place_checked(
        self, engine: Engine, ranking: Ranking, run: Sequence[Task], nodes: Sequence[Node]
    ) -> bool:
        """Place equal tasks as `_place_run` does, comparing each place with the slow way's."""
        while run:
            places = engine.next_nodes(ranking, run, real=self._real)
            if not places:
                self._check_hopeless(run, nodes)
                if self._real:
                    self._session.unplaced[self._job.name] = (run, self._job)
                return False
            for task, node in zip(run, places, strict=False):
                check_place(self._session, task, self._job, nodes, node)
                self._put_all(ranking, [task], [node])
            engine.placed()
            run = run[len(places) :]
        return True

    def _check_hopeless(self, run: Sequence[Task], nodes: Sequence[Node]) -> None:
        """Make sure that the tasks cannot all be placed one after another."""
        checkpoint = self._statement.checkpoint()
        fitted = all(self._place_task(task, nodes) for task in run)
        self._statement.rollback(checkpoint)
        self._session.forget_reasons(self._job)
        if fitted:
            raise InvariantError(
                f"fast path: {len(run)} tasks of job {self._job.name} were found not to fit, but "
                "one after another they do"
            )

    def _put_all(self, ranking: Ranking, tasks: Sequence[Task], nodes: Sequence[Node]) -> None:
        if self._real and ranking.can_start(nodes):
            self._statement.allocate_all(tasks, nodes)
            return
        for task, node in zip(tasks, nodes, strict=True):
            now = self._real and not ranking.must_wait(node) and node.fits_now(task.request)
            self._put(task, node, now=now)

    def _place_among(self, task: Task, nodes: Sequence[Node]) -> bool:
        """Do as `_place_task` does, with what is known about the kind of task."""
        engine = self._session.engine
        ranking = None if self._real else engine.ranking(task, self._job)
        if ranking is None:
            return self._place_task(task, nodes)
        if engine.refusal(task, self._job) is not None:
            return False
        node = engine.best_among(ranking, nodes)
        if self._session.parameters.check_fast_paths:
            check_place(self._session, task, self._job, nodes, node)
        return node is not None and self._put(task, node, now=False)

    def _place_task(self, task: Task, nodes: Sequence[Node]) -> bool:
        refusal = self._session.pre_predicate(task, self._job)
        if refusal is not None:
            if self._real:
                self._session.note_task_reason(refusal)
            return False
        for _, node in self._session.score_nodes(task, nodes):
            fit = self._session.fit(task, self._job, node, record=self._real)
            if fit is not Fit.NO and self._put(task, node, now=self._real and fit is Fit.NOW):
                return True
        return False

    def _put(self, task: Task, node: Node, *, now: bool) -> bool:
        groups: tuple[str, ...] = ()
        if task.request.gpu.shared:
            choice = share_gpus(self._session, task, node, now=now)
            if choice is None:
                return False
            groups, now = choice.groups, choice.now
        if now:
            self._statement.allocate(task, node, groups)
        else:
            self._statement.pipeline(task, node, groups, update_if_there=self._real)
        return True

    def _note(self, refusal: UnschedulableJob) -> None:
        if self._real:
            self._session.note_job_reason(self._job, refusal)


def place_job(
    session: Session, statement: Statement, job: Job, nodes: Sequence[Node], *, real: bool
) -> bool:
    """Place the tasks of `job` whose turn it is; say whether it worked."""
    tasks = admitted(session, job, real=real)
    return tasks is not None and JobPlacing(session, statement, job, real=real).place(tasks, nodes)


def is_plain(session: Session, job: Job, tasks: Sequence[Task]) -> bool:
    """Say whether a job is a single pod set that nobody confines to some of the nodes."""
    root = job.root
    if root.groups or len(root.pod_sets) != 1 or not tasks:
        return False
    hooks = session.hooks("subset_nodes")
    return not hooks or not any(hook.concerns(tasks[0]) for hook in hooks)


def admitted(session: Session, job: Job, *, real: bool) -> Sequence[Task] | None:
    """Return the tasks of `job` whose turn it is, or nothing if queues do not allow them."""
    session.pre_job_allocation(job)
    tasks = tasks_to_place(session, job, real=real)
    verdict = session.is_job_over_capacity(job, tasks)
    if verdict.schedulable:
        return tasks
    if real:
        session.note_job_reason(job, UnschedulableJob(summary=verdict.message))
    return None


def _runs(engine: Engine, tasks: Sequence[Task]) -> Iterator[Sequence[Task]]:
    """Yield the tasks in order, equal ones that follow each other together."""
    if len(tasks) == 1:
        yield tasks
        return
    start = 0
    for _, equal in groupby(map(engine.kind, tasks)):
        end = start + len(list(equal))
        yield tasks[start:end]
        start = end


def _within(pod_sets: Sequence[PodSet], tasks: Sequence[Task]) -> list[Task]:
    names = {pod_set.name for pod_set in pod_sets}
    return [task for task in tasks if task.spec.sub_group in names]
