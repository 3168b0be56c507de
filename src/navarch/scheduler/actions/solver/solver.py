"""The search: place a pending job by simulating that others leave, one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from navarch.scheduler.actions.solver.room import GpuRoom
from navarch.scheduler.actions.solver.victims import VictimSearch, whole_units
from navarch.scheduler.framework.gang import tasks_to_place
from navarch.scheduler.model.lazy_tasks import materialise
from navarch.scheduler.model.nodes import SomeNodes
from navarch.scheduler.model.scenario import Scenario, Victim
from navarch.scheduler.model.status import ACTIVE_USED_MASK, TaskStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from navarch.scheduler.framework.job_queue import JobQueue
    from navarch.scheduler.framework.session import Search, Session
    from navarch.scheduler.framework.statement import Statement
    from navarch.scheduler.model.job import Job, Task
    from navarch.scheduler.model.node import Node


class Solution(NamedTuple):
    """A simulation that placed a part of the job, and was accepted."""

    statement: Statement
    victims: list[Task]
    """The tasks to evict first for the next part: whole units, not only the tasks that moved."""
    moved: int
    """How many evicted tasks lost their place, whether or not another was found."""


class JobSolver:
    """Searches for victims that make room for one job.

    The job is solved task by task: victims found for the first k tasks are kept for k + 1. For each
    part, victims are added one unit at a time until a simulation places the part and the validator
    accepts the outcome for all jobs.
    """

    def __init__(self, session: Session, search: Search) -> None:
        self._session = session
        self._search = search
        self._job = search.job
        self._feasible: set[int] | None = None
        """The nodes that could hold the job itself, once they were requested."""
        self._spacious = False
        """Whether the current part may fit without further victims."""

    @classmethod
    def run(cls, session: Session, search: Search) -> Statement | None:
        """Return a statement that places the job, ready to commit, or `None`."""
        return cls(session, search).solve()

    def solve(self) -> Statement | None:
        """Return a statement that places the job, ready to commit, or `None`."""
        tasks = materialise(tasks_to_place(self._session, self._job, real=False))
        active_before = self._job.count(ACTIVE_USED_MASK)
        if not self._has_victims():
            return None  # without victims there is nothing to simulate
        solution = self._solve_tasks(tasks)
        if solution is None:
            return None
        # Members that are leaving do not count: this action may have evicted the gang before.
        short = any(pod_set.below_minimum for pod_set in self._job.pod_sets.values())
        if not short and self._job.count(ACTIVE_USED_MASK) > active_before:
            return solution.statement
        solution.statement.discard()
        return None

    def _has_victims(self) -> bool:
        steps = VictimSearch(self._session, []).steps(self._search.victim_queue())
        return any(steps)

    def _solve_tasks(self, tasks: Sequence[Task]) -> Solution | None:
        return self._solve_by_parts(tasks)

    def _solve_by_parts(self, tasks: Sequence[Task]) -> Solution | None:
        solution: Solution | None = None
        for size in range(1, len(tasks) + 1):
            recorded = solution.victims if solution else []
            if solution is not None:
                solution.statement.discard()
            solution = self._solve_part(self._job.part_of(tasks[:size]), recorded)
            if solution is None:
                return None
        return solution

    def _solve_part(self, part: Job, recorded: Sequence[Task]) -> Solution | None:
        room = GpuRoom(list(part.tasks.values()), self._session)
        search = VictimSearch(self._session, recorded)
        room.free_up(search.recorded)
        enough = self._spacious = room.suffices()
        for unit in self._steps(search):
            if not enough:  # more victims never make less room
                room.free_up(unit)
                enough = room.suffices()
            no_victims = not unit and not search.recorded
            if no_victims or not enough:
                continue
            if self._session.budget.exhausted() is not None:
                return None
            solution = self._try(part, search)
            if solution is not None:
                return solution
        return None

    def _steps(self, search: VictimSearch) -> Iterator[list[Task]]:
        return search.steps(self._search.victim_queue())

    def _try(self, part: Job, search: VictimSearch) -> Solution | None:
        """Simulate with the recorded victims, and all candidates on the node of the newest."""
        if not search.candidates:
            return self._simulate(part, search.recorded)
        nodes = {node for task in search.latest if (node := task.placement.node) is not None}
        if len(nodes) == 1 and not self._session.parameters.victims_on_many_nodes:
            # There is only one combination to try.
            return self._simulate(part, [*search.recorded, *search.candidates_beside(*nodes)])
        tried: set[tuple[str, ...]] = set()
        for node in sorted(nodes):
            leaving = [*search.recorded, *search.candidates_beside(node)]
            uids = tuple(task.uid for task in leaving)
            if uids in tried:
                continue  # a gang shares each of its nodes with itself
            tried.add(uids)
            solution = self._simulate(part, leaving)
            if solution is not None:
                return solution
        if not self._session.parameters.victims_on_many_nodes:
            return None
        together = [*search.recorded, *(t for tasks in search.candidates.values() for t in tasks)]
        if tuple(task.uid for task in together) in tried:
            return None
        # Tasks that need not have left find their old places again, and are no victims.
        return self._simulate(part, together)

    def _simulate(self, part: Job, leaving: Sequence[Task]) -> Solution | None:
        """Place the part and as many of the leaving tasks as fit; validate the outcome."""
        if not self._session.budget.spend():
            return None
        statement = self._session.attempt(self._search.action)
        # A task that only had a promise has no node once that is withdrawn: read it before.
        rows = self._rows_for(leaving)
        for task in leaving:
            if task.placement.counts:
                statement.evict(task, self._search.reason(task), beneficiary=self._job.name)
        if not self._place_all(statement, part, leaving, rows) or not self._accepts(part, leaving):
            statement.discard()
            return None
        moved = {task.uid for task in statement.touched()}
        moved.intersection_update([task.uid for task in leaving])
        return Solution(statement, whole_units(self._session, leaving, moved), len(moved))

    def _accepts(self, part: Job, leaving: Sequence[Task]) -> bool:
        return self._search.validate(Scenario(preemptor=part, victims=_by_job(leaving)))

    def _rows_for(self, leaving: Sequence[Task]) -> set[int]:
        """Return the nodes that could hold the job, and those of the leaving tasks."""
        session = self._session
        if self._feasible is None:
            self._feasible = feasible_rows(session, self._job)
        nodes = [node for task in leaving if (node := task.placement.node) is not None]
        return self._feasible.union([session.nodes.rows[node] for node in nodes])

    def _nodes_at(self, rows: set[int]) -> Sequence[Node]:
        everywhere = self._session.node_list
        return everywhere if len(rows) == len(everywhere) else SomeNodes(everywhere, rows)

    def _place_part(self, statement: Statement, part: Job, rows: set[int]) -> bool:
        return self._session.place_job(statement, part, self._nodes_at(rows), real=False)

    def _place_all(
        self, statement: Statement, part: Job, leaving: Sequence[Task], rows: set[int]
    ) -> bool:
        """Offer places in the usual order, so that victims that rank first are served first."""
        views = _victim_views(leaving)
        queue = self._queue_of(part, views)
        left = [part, *views]
        placed = False
        while left:
            # The other waiting jobs only decide the order: the last one left needs no queue.
            job = left[0] if len(left) == 1 else queue.pop_one_of(left)
            if job is None:
                break
            left.remove(job)
            if job is part:
                placed = self._place_part(statement, part, rows)
                if not placed:
                    return False
            elif self._replace(statement, job):
                queue.push(job)
                left.append(job)
        return placed

    def _queue_of(self, part: Job, views: Sequence[Job]) -> JobQueue:
        """Return the part and the victims, among all other waiting jobs."""
        there = {part.origin, *(view.origin for view in views)}
        session = self._session
        queue = session.placer.queue_from(session.waiting, lambda job: job not in there)
        for job in (part, *views):
            queue.push(job)
        return queue

    def _replace(self, statement: Statement, victim: Job) -> bool:
        """Find a place for a victim; return whether it has more tasks to bring back.

        An elastic job comes back one task at a time, as it would when allocated.
        """
        session = self._session
        if not session.place_job(statement, victim, session.node_list, real=False):
            return False
        return bool(tasks_to_place(session, victim, real=False))


def feasible_rows(session: Session, job: Job) -> set[int]:
    """Return the nodes that could hold the job: with GPUs to spare, if all its tasks need some."""
    for task in job.tasks.values():
        if not task.requires_gpu:
            return set(range(len(session.node_list)))
    return session.placer.rows_with_gpus()


def _by_job(tasks: Sequence[Task]) -> dict[str, Victim]:
    grouped: dict[str, list[Task]] = {}
    for task in tasks:
        grouped.setdefault(task.job.name, []).append(task)
    return {name: Victim(tasks[0].job, tuple(tasks)) for name, tasks in grouped.items()}


def _victim_views(leaving: Sequence[Task]) -> list[Job]:
    """Return the victims' jobs without tasks that were pending before and are not concerned."""
    uids = {task.uid for task in leaving}
    jobs = {task.job.name: task.job for task in leaving}
    return [
        job.view_of(
            task
            for task in job.tasks.values()
            if task.uid in uids or task.status is not TaskStatus.PENDING
        )
        for job in jobs.values()
    ]
