"""The search: place a pending job by simulating that others leave, one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from navarch.scheduler.gang import tasks_to_place
from navarch.scheduler.job_queue import JobQueue
from navarch.scheduler.placing import place_job
from navarch.scheduler.scenario import Scenario, Victim
from navarch.scheduler.solver.room import GpuRoom
from navarch.scheduler.solver.victims import VictimSearch
from navarch.scheduler.status import ACTIVE_USED_MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from navarch.scheduler.session import Session
    from navarch.scheduler.state.job import Job
    from navarch.scheduler.state.node import Node
    from navarch.scheduler.state.task import Task
    from navarch.scheduler.statement import Statement


@dataclass(frozen=True, slots=True)
class _Solution:
    statement: Statement
    victims: list[Task]
    """Everybody who had to leave a place, whether or not another was found."""


class JobSolver:
    """Looks for victims whose leaving lets one job run.

    The job is solved task by task: victims found for the first k tasks are kept for k + 1. For
    each part, victims are added one unit at a time until a simulation places the part and the
    validator accepts what became of everybody.
    """

    def __init__(
        self,
        session: Session,
        job: Job,
        *,
        action: str,
        victim_queue: Callable[[], JobQueue],
        validate: Callable[[Scenario], bool],
        reason: Callable[[Task], str],
    ) -> None:
        self._session = session
        self._job = job
        self._action = action
        self._victim_queue = victim_queue
        self._validate = validate
        self._reason = reason
        self._feasible = feasible_nodes(session, job)

    def solve(self) -> Statement | None:
        """Return a statement that places the job, ready to commit, or nothing."""
        tasks = tasks_to_place(self._session, self._job, real=False)
        active_before = self._job.count(ACTIVE_USED_MASK)
        solution: _Solution | None = None
        for size in range(1, len(tasks) + 1):
            recorded = solution.victims if solution else []
            if solution is not None:
                solution.statement.discard()
            solution = self._solve_part(self._job.part_of(tasks[:size]), recorded)
            if solution is None:
                return None
        if solution is None:
            return None
        if self._job.satisfied and self._job.count(ACTIVE_USED_MASK) > active_before:
            return solution.statement
        solution.statement.discard()
        return None

    def _solve_part(self, part: Job, recorded: Sequence[Task]) -> _Solution | None:
        search = VictimSearch(self._session, recorded, self._victim_queue())
        room = GpuRoom(list(part.tasks.values()), self._session.nodes.values())
        for _ in search.steps():
            if not search.candidates and not search.recorded:
                continue
            if not room.suffices_with(search.tasks()):
                continue
            solution = self._try(part, search)
            if solution is not None:
                return solution
        return None

    def _try(self, part: Job, search: VictimSearch) -> _Solution | None:
        """Simulate with the recorded victims, and those beside the newest candidate."""
        statement = self._session.attempt(self._action)
        self._evict(statement, search.recorded)
        if not search.candidates:
            solution = self._simulate(statement, part, search.recorded)
            if solution is None:
                statement.discard()
            return solution
        for node in sorted({task.node for task in search.latest if task.node is not None}):
            checkpoint = statement.checkpoint()
            leaving = search.candidates_beside(node)
            self._evict(statement, leaving)
            solution = self._simulate(statement, part, [*search.recorded, *leaving])
            if solution is not None:
                return solution
            statement.rollback(checkpoint)
        statement.discard()
        return None

    def _evict(self, statement: Statement, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if task.placement.counts:
                statement.evict(task, self._reason(task), beneficiary=self._job.name)

    def _simulate(
        self, statement: Statement, part: Job, evicted: Sequence[Task]
    ) -> _Solution | None:
        """Place the part and as many of the evicted as fit; judge what became of them."""
        if not self._place_all(statement, part, evicted):
            return None
        if not self._validate(Scenario(preemptor=part, victims=_by_job(evicted))):
            return None
        touched = {task.uid for task in statement.touched()}
        return _Solution(statement, [task for task in evicted if task.uid in touched])

    def _place_all(self, statement: Statement, part: Job, evicted: Sequence[Task]) -> bool:
        """Offer places in the usual order, so that victims who rank first are served first."""
        nodes = self._nodes_with(evicted)
        victims = {task.job.name for task in evicted}
        others = [j for j in self._session.jobs.values() if j is not part.origin]
        queue = JobQueue.of(
            self._session, [part, *(j for j in others if j.name in victims or j.has_pending)]
        )
        placed = False
        while (job := queue.pop()) is not None:
            if job is part:
                placed = place_job(self._session, statement, part, nodes, real=False)
                if not placed:
                    return False
            elif job.name in victims and self._replace(statement, job, nodes):
                queue.push(job)
        return placed

    def _replace(self, statement: Statement, victim: Job, nodes: list[Node]) -> bool:
        """Find a place for a victim; say whether it has more tasks to bring back.

        An elastic job comes back one task at a time, as it would when allocated.
        """
        if not place_job(self._session, statement, victim, nodes, real=False):
            return False
        return bool(tasks_to_place(self._session, victim, real=False))

    def _nodes_with(self, evicted: Sequence[Task]) -> list[Node]:
        names = self._feasible | {task.node for task in evicted if task.node is not None}
        return [node for name, node in self._session.nodes.items() if name in names]


def feasible_nodes(session: Session, job: Job) -> set[str]:
    """Return the nodes worth looking at: with GPUs to spare, if all tasks of the job need some."""
    if any(not task.requires_gpu for task in job.tasks.values()):
        return set(session.nodes)
    return {node.name for node in session.nodes.values() if node.has_available_gpus()}


def _by_job(tasks: Sequence[Task]) -> dict[str, Victim]:
    grouped: dict[str, list[Task]] = {}
    for task in tasks:
        grouped.setdefault(task.job.name, []).append(task)
    return {name: Victim(tasks[0].job, tuple(tasks)) for name, tasks in grouped.items()}
