"""The search: place a pending job by simulating that others leave, one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from navarch.scheduler.actions.solver.room import GpuRoom, rows_with_gpus
from navarch.scheduler.actions.solver.victims import Units, VictimSearch, taken_whole, whole_units
from navarch.scheduler.engine.check import check_decisions, check_same
from navarch.scheduler.framework.gang import tasks_to_place
from navarch.scheduler.framework.job_queue import JobQueue
from navarch.scheduler.framework.placing import place_job
from navarch.scheduler.model.lazy_tasks import materialise
from navarch.scheduler.model.nodes import SomeNodes
from navarch.scheduler.model.scenario import Scenario, Victim
from navarch.scheduler.model.status import ACTIVE_USED_MASK, TaskStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from navarch.scheduler.framework.session import Session
    from navarch.scheduler.framework.statement import Statement
    from navarch.scheduler.model.job import Job
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.task import Task


AT_ONCE_FROM: Final = 4
"""Fewer tasks are solved part by part."""


class _Solution(NamedTuple):
    statement: Statement
    victims: list[Task]
    """The tasks to evict first for the next part: whole units, not only the tasks that moved."""
    moved: int
    """How many evicted tasks lost their place, whether or not another was found."""


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
        self._units: Units | None = None
        self._feasible: set[int] | None = None
        """The nodes worth looking at for the job itself, once somebody has asked."""
        self._spacious = False
        """Whether there may be room for the part in question without anybody else leaving."""

    def solve(self) -> Statement | None:
        """Return a statement that places the job, ready to commit, or nothing."""
        tasks = materialise(tasks_to_place(self._session, self._job, real=False))
        active_before = self._job.count(ACTIVE_USED_MASK)
        if next(iter(self._known_units()), None) is None:
            return None  # without victims there is nothing to simulate
        solution = self._solve_at_once(tasks)
        if solution is None:
            solution = self._solve_by_parts(tasks)
        elif self._session.parameters.check_fast_paths:
            solution = self._checked(solution, tasks)
        if solution is None:
            return None
        # Members that are leaving do not count: this action may have evicted the gang before.
        short = any(pod_set.below_minimum for pod_set in self._job.pod_sets.values())
        if not short and self._job.count(ACTIVE_USED_MASK) > active_before:
            return solution.statement
        solution.statement.discard()
        return None

    def _solve_by_parts(self, tasks: Sequence[Task]) -> _Solution | None:
        solution: _Solution | None = None
        for size in range(1, len(tasks) + 1):
            recorded = solution.victims if solution else []
            if solution is not None:
                solution.statement.discard()
            solution = self._solve_part(self._job.part_of(tasks[:size]), recorded)
            if solution is None:
                return None
        return solution

    def _solve_at_once(self, tasks: Sequence[Task]) -> _Solution | None:
        """Gather victims for all parts first, and simulate only the whole.

        Good for many equal tasks of which each part takes exactly the room that was made for it:
        then no victim found for one part is spared by another. If the whole does not work out,
        or somebody need not have left, it is for `_solve_by_parts` to say.
        """
        if len(tasks) < AT_ONCE_FROM or not self._session.parameters.fast_paths:
            return None
        recorded = self._gather(tasks)
        if recorded is None:
            return None
        solution = self._simulate(self._job.part_of(tasks), recorded)
        if solution is not None and solution.moved < len(recorded):
            solution.statement.discard()
            return None
        return solution

    def _checked(self, solution: _Solution, tasks: Sequence[Task]) -> _Solution | None:
        """Return the solution found part by part, which must decide the same."""
        quick = solution.statement.decisions()
        solution.statement.discard()
        slow = self._solve_by_parts(tasks)
        check_decisions(quick, slow.statement.decisions() if slow else [], self._job)
        return slow

    def _gather(self, tasks: Sequence[Task]) -> list[Task] | None:
        """Return the victims that part after part would be found to need, if that is plain."""
        if len({task.kind for task in tasks}) > 1 or not tasks[0].request.gpu.whole:
            return None
        room = GpuRoom(tasks[:1], self._session)
        search = VictimSearch(self._session, [])
        units = iter(self._known_units())
        recorded: list[Task] = []
        for size in range(1, len(tasks) + 1):
            room.want(tasks[:size])
            if room.suffices():
                return None
            while not room.suffices():
                found = next(units, None)
                if found is None:
                    return None
                search.add(*found)
                room.free_up(found[1])
            nodes = {task.node for task in search.latest}
            if len(nodes) > 1 or not room.exact_for_equals:
                return None
            leaving = search.candidates_beside(str(nodes.pop()))
            search.record(leaving)
            recorded += leaving
        return recorded if taken_whole(self._session, recorded) else None

    def _known_units(self) -> Units:
        if self._units is None:
            self._units = Units(self._session, self._victim_queue())
        return self._units

    def _solve_part(self, part: Job, recorded: Sequence[Task]) -> _Solution | None:
        room = GpuRoom(list(part.tasks.values()), self._session)
        search = VictimSearch(self._session, recorded)
        if self._session.parameters.fast_paths and taken_whole(self._session, recorded):
            steps = search.steps_of(self._known_units())
        else:
            steps = search.steps(self._victim_queue())
        room.free_up(search.recorded)
        enough = self._spacious = room.suffices()
        for unit in steps:
            if not enough:  # with more who leave, what suffices goes on to
                room.free_up(unit)
                enough = room.suffices()
            nobody = not unit and not search.recorded
            if nobody or not enough:
                continue
            if self._session.budget.exhausted() is not None:
                return None
            solution = self._try(part, search)
            if solution is not None:
                return solution
        return None

    def _try(self, part: Job, search: VictimSearch) -> _Solution | None:
        """Simulate with the recorded victims, and those beside the newest candidate."""
        if not search.candidates:
            return self._simulate(part, search.recorded)
        nodes = {node for task in search.latest if (node := task.placement.node) is not None}
        if len(nodes) == 1 and not self._session.parameters.victims_on_many_nodes:
            # There is nothing else to try that could be the same.
            return self._simulate(part, [*search.recorded, *search.candidates_beside(*nodes)])
        tried: set[tuple[str, ...]] = set()
        for node in sorted(nodes):
            leaving = [*search.recorded, *search.candidates_beside(node)]
            uids = tuple(task.uid for task in leaving)
            if uids in tried:
                continue  # a gang is beside itself on each of its nodes
            tried.add(uids)
            solution = self._simulate(part, leaving)
            if solution is not None:
                return solution
        if not self._session.parameters.victims_on_many_nodes:
            return None
        everybody = [*search.recorded, *(t for tasks in search.candidates.values() for t in tasks)]
        if tuple(task.uid for task in everybody) in tried:
            return None
        # Those who need not have left find their old places again, and are no victims.
        return self._simulate(part, everybody)

    def _simulate(self, part: Job, leaving: Sequence[Task]) -> _Solution | None:
        """Place the part and as many of those leaving as fit; judge what became of them."""
        if not self._session.budget.spend():
            return None
        session, statement = self._session, self._session.attempt(self._action)
        if self._feasible is None:
            self._feasible = feasible_rows(session, self._job)
        # A task that only had a promise is nowhere once that is withdrawn: ask before.
        nodes = [node for task in leaving if (node := task.placement.node) is not None]
        rows = self._feasible.union([session.nodes.rows[node] for node in nodes])
        stays = self._spacious and session.no_op_moves.goes_straight_back(part, leaving)
        if stays:
            if session.parameters.check_fast_paths:
                self._check_return(part, leaving[0])
            placed = place_job(session, statement, part, self._nodes_at(rows), real=False)
        else:
            for task in leaving:
                if task.placement.counts:
                    statement.evict(task, self._reason(task), beneficiary=self._job.name)
            placed = self._place_all(statement, part, leaving, rows)
        if not placed or not self._validate(Scenario(preemptor=part, victims=_by_job(leaving))):
            statement.discard()
            return None
        if stays:
            return _Solution(statement, [], 0)
        moved = {task.uid for task in statement.touched()}
        moved.intersection_update([task.uid for task in leaving])
        return _Solution(statement, whole_units(session, leaving, moved), len(moved))

    def _check_return(self, part: Job, task: Task) -> None:
        """Make sure that a task which leaves for `part` is served first, and stays where it is."""
        before, victim = task.placement, task.job
        with self._session.attempt(self._action) as statement:
            statement.evict(task, "")
            served = self._queue_of(part, [victim]).pop_one_of([part, victim])
            check_same("the first to be served is", victim, served)
            self._replace(statement, victim, self._session.node_list)
            check_same(f"task {task.uid} returns to", before, task.placement)

    def _nodes_at(self, rows: set[int]) -> Sequence[Node]:
        everywhere = self._session.node_list
        return everywhere if len(rows) == len(everywhere) else SomeNodes(everywhere, rows)

    def _place_all(
        self, statement: Statement, part: Job, leaving: Sequence[Task], rows: set[int]
    ) -> bool:
        """Offer places in the usual order, so that victims who rank first are served first."""
        everywhere, nodes = self._session.node_list, self._nodes_at(rows)
        views = _victim_views(leaving)
        order = self._order_of_two(part, views)
        if order is not None:
            for each in order:
                if each is not part:
                    self._replace(statement, each, everywhere)
                elif not place_job(self._session, statement, part, nodes, real=False):
                    return False
            return True
        queue = self._queue_of(part, views)
        left = [part, *views]
        placed = False
        while left:
            # Bystanders only decide whose turn it is: the last one who is left need not ask.
            job = left[0] if len(left) == 1 else queue.pop_one_of(left)
            if job is None:
                break
            left.remove(job)
            if job is part:
                placed = place_job(self._session, statement, part, nodes, real=False)
                if not placed:
                    return False
            elif self._replace(statement, job, everywhere):
                queue.push(job)
                left.append(job)
        return placed

    def _order_of_two(self, part: Job, views: Sequence[Job]) -> Sequence[Job] | None:
        """Return the part and its only victim in order, if that is one task and plain to see."""
        parameters = self._session.parameters
        if not parameters.fast_paths or len(views) != 1 or views[0].size != 1:
            return None
        first = self._session.turns.first(part, views[0])
        if first is None:
            return None
        if parameters.check_fast_paths:
            served = self._queue_of(part, views).pop_one_of([part, *views])
            check_same("the first to be served is", first, served)
        return (part, views[0]) if first is part else (views[0], part)

    def _queue_of(self, part: Job, views: Sequence[Job]) -> JobQueue:
        """Return the part and the victims, among all others who wait."""
        there = {part.origin, *(view.origin for view in views)}
        queue = JobQueue.out_of(self._session, self._session.waiting, lambda job: job not in there)
        for job in (part, *views):
            queue.push(job)
        return queue

    def _replace(self, statement: Statement, victim: Job, nodes: Sequence[Node]) -> bool:
        """Find a place for a victim; say whether it has more tasks to bring back.

        An elastic job comes back one task at a time, as it would when allocated.
        """
        if not place_job(self._session, statement, victim, nodes, real=False):
            return False
        return bool(tasks_to_place(self._session, victim, real=False))


def feasible_rows(session: Session, job: Job) -> set[int]:
    """Return the nodes worth looking at: with GPUs to spare, if all tasks of the job need some."""
    for task in job.tasks.values():
        if not task.requires_gpu:
            return set(range(len(session.node_list)))
    return rows_with_gpus(session)


def _by_job(tasks: Sequence[Task]) -> dict[str, Victim]:
    grouped: dict[str, list[Task]] = {}
    for task in tasks:
        grouped.setdefault(task.job.name, []).append(task)
    return {name: Victim(tasks[0].job, tuple(tasks)) for name, tasks in grouped.items()}


def _victim_views(leaving: Sequence[Task]) -> list[Job]:
    """Return the victims' jobs without tasks that were pending before and are not in question."""
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
