"""A search for victims that simulates less: whole gangs at once, and no moves without effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from navarch.scheduler.actions.solver.room import GpuRoom
from navarch.scheduler.actions.solver.solver import JobSolver, Solution
from navarch.scheduler.actions.solver.victims import Units, VictimSearch, taken_whole
from navarch.scheduler.engine.vector_placer import VectorPlacer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from navarch.scheduler.framework.session import Search, Session
    from navarch.scheduler.framework.statement import Statement
    from navarch.scheduler.model.job import Job, Task

AT_ONCE_FROM: Final = 4
"""Fewer tasks are solved part by part."""


class BatchedSolver(JobSolver):
    """A solver that decides the same with fewer simulations."""

    def __init__(self, session: Session, search: Search) -> None:
        super().__init__(session, search)
        placer = session.placer
        assert isinstance(placer, VectorPlacer), "shortcuts need the vector placer"
        self._placer = placer
        self._units = Units(session, search.victim_queue)

    def _has_victims(self) -> bool:
        return next(iter(self._units), None) is not None

    def _solve_tasks(self, tasks: Sequence[Task]) -> Solution | None:
        return self._solve_at_once(tasks) or self._solve_by_parts(tasks)

    def _steps(self, search: VictimSearch) -> Iterator[list[Task]]:
        if taken_whole(self._session, search.recorded):
            return search.steps_of(self._units)
        return super()._steps(search)

    def _solve_at_once(self, tasks: Sequence[Task]) -> Solution | None:
        """Collect victims for all parts first, and simulate only the whole.

        This is right for many equal tasks if each part takes exactly the room that was made for it:
        then no victim found for one part is spared by another. If the whole cannot be placed, or
        some victim need not leave, `_solve_by_parts` decides.
        """
        if len(tasks) < AT_ONCE_FROM:
            return None
        recorded = self._collect(tasks)
        if recorded is None:
            return None
        solution = self._simulate(self._job.part_of(tasks), recorded)
        if solution is not None and solution.moved < len(recorded):
            solution.statement.discard()
            return None
        return solution

    def _collect(self, tasks: Sequence[Task]) -> list[Task] | None:
        """Return the victims that part after part would need, if that is certain."""
        if len({task.kind for task in tasks}) > 1 or not tasks[0].request.gpu.whole:
            return None
        room = GpuRoom(tasks[:1], self._session)
        search = VictimSearch(self._session, [])
        units = iter(self._units)
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

    def _simulate(self, part: Job, leaving: Sequence[Task]) -> Solution | None:
        if not self._spacious or not self._returns_at_once(part, leaving):
            return super()._simulate(part, leaving)
        if not self._session.budget.spend():
            return None
        statement = self._session.attempt(self._search.action)
        placed = self._place_part(statement, part, self._rows_for(leaving))
        if not placed or not self._accepts(part, leaving):
            statement.discard()
            return None
        return Solution(statement, [], 0)

    def _returns_at_once(self, part: Job, leaving: Sequence[Task]) -> bool:
        """Return whether the only victim would be served first, and return to its place."""
        return self._placer.no_op_moves.goes_straight_back(part, leaving)

    def _place_all(
        self, statement: Statement, part: Job, leaving: Sequence[Task], rows: set[int]
    ) -> bool:
        victim = leaving[0].job if len(leaving) == 1 else None
        first = None if victim is None or victim.size != 1 else self._first_of(part, victim)
        if first is None or victim is None:
            return super()._place_all(statement, part, leaving, rows)
        if first is victim:
            self._replace(statement, victim)
        if not self._place_part(statement, part, rows):
            return False
        if first is part:
            self._replace(statement, victim)
        return True

    def _first_of(self, part: Job, victim: Job) -> Job | None:
        """Return which of the two is served first, if that is certain."""
        return self._placer.serving_order.first(part, victim)
