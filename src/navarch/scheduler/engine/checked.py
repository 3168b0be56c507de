"""The placer and the solver that compare every shortcut with the reference.

They are slow, and exist to find a hook that declares a wrong scope or vector form, or an error in
the shortcuts themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from navarch.core.errors import InvariantError
from navarch.scheduler.engine.batched_solver import BatchedSolver
from navarch.scheduler.engine.incremental_index import IncrementalIndex
from navarch.scheduler.engine.ranked_queue import RankedQueue
from navarch.scheduler.engine.vector_placer import VectorPlacer
from navarch.scheduler.framework.placing import PlacementAttempt
from navarch.scheduler.framework.reference_placer import ReferencePlacer
from navarch.scheduler.model.lazy_tasks import materialise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from navarch.scheduler.actions.solver.solver import Solution
    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.framework.job_queue import Entry
    from navarch.scheduler.model.job import Job, Task
    from navarch.scheduler.model.node import Node


def check_same(what: str, quick: object, slow: object) -> None:
    """Raise if a shortcut and the reference disagree.

    Raises:
        InvariantError: They differ; a plugin depends on more than the scope it declares, or a
            shortcut is wrong.
    """
    if quick != slow:
        raise InvariantError(f"fast path: {what} {quick}, but the reference gives {slow}")


class CheckedPlacer(VectorPlacer):
    """A placer that runs the vector placer and the reference, and compares."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state)
        self._reference = ReferencePlacer(state)

    def place(
        self, attempt: PlacementAttempt, tasks: Sequence[Task], nodes: Sequence[Node]
    ) -> bool:
        """Put all tasks on nodes, twice; keep what the reference has placed.

        Raises:
            InvariantError: A task goes elsewhere; a plugin's vector form differs from its scalar
                form or depends on more than its scope, or a shortcut is wrong.
        """
        statement, job = attempt.statement, attempt.job
        checkpoint = statement.checkpoint()
        quick = super().place(attempt, tasks, nodes)
        looked_ahead = self.finder.ahead.is_current
        tasks = materialise(tasks)
        found = [task.placement for task in tasks] if quick else []
        statement.rollback(checkpoint)
        again = PlacementAttempt(
            self._state, self._reference, statement, job, real=attempt.real, record=False
        )
        slow = self._reference.place(again, tasks, nodes)
        if slow and not quick:
            raise InvariantError(
                f"fast path: {len(tasks)} tasks of job {job.name} do not fit, but the reference "
                "places them one after another"
            )
        for task, placement in zip(tasks, found, strict=False):
            if task.placement != placement:
                raise InvariantError(
                    f"fast path: task {task.uid} would go to {placement.node or 'no node'}, but "
                    f"calling the hooks for each node gives {task.node or 'no node'}; a plugin's "
                    f"vector form or scope may be wrong: {self._scopes()}"
                )
        if looked_ahead:
            self.finder.ahead.confirm()  # the reference has taken the same nodes
        return slow

    def _scopes(self) -> str:
        hooks = [*self._state.hooks("predicate"), *self._state.hooks("node_order")]
        return ", ".join(f"{hook.owner} {hook.scope}" for hook in hooks)

    def _new_index(
        self, holds: Callable[[Job], bool], among: Callable[[], Iterable[Job]]
    ) -> IncrementalIndex:
        return _CheckedIndex(self._state, holds, among)

    def _new_queue(
        self, *, victims: bool, key: Callable[[Job], object] | None = None
    ) -> RankedQueue:
        return _CheckedQueue(self._state, self._memory, victims=victims, key=key)

    def gpus_to_spare(self) -> int:
        """Return all unpromised GPUs, and check the sum."""
        spare = super().gpus_to_spare()
        check_same("hundredths of GPUs to spare are", spare, self._reference.gpus_to_spare())
        return spare

    def rows_with_gpus(self) -> set[int]:
        """Return the nodes with GPUs to spare, and check them."""
        rows = super().rows_with_gpus()
        check_same("nodes with GPUs to spare are", rows, self._reference.rows_with_gpus())
        return rows


class _CheckedIndex(IncrementalIndex):
    """An index that compares what it keeps with a new look at every job."""

    def leaves(self, key: Callable[[Job], Any]) -> Mapping[str, list[Entry]]:
        leaves = super().leaves(key)
        held = sorted([job for job in self._state.jobs.values() if self._holds(job)], key=key)
        for name in {*leaves, *(job.queue for job in held)}:
            kept = [job.name for _, _, job in leaves.get(name, ())]
            again = [job.name for job in held if job.queue == name]
            check_same(f"the jobs of queue {name} in order are", kept, again)
        return leaves


class _CheckedQueue(RankedQueue):
    """A queue that compares ranks with comparisons of two queues at a time."""

    def _next(self) -> Job | None:
        best = super()._next()
        check_same("the next job is", best, self._best_of_siblings(self._state.queues.roots))
        return best


class CheckedSolver(BatchedSolver):
    """A solver that compares every shortcut with the simulations it saves."""

    def _solve_tasks(self, tasks: Sequence[Task]) -> Solution | None:
        solution = self._solve_at_once(tasks)
        if solution is None:
            return self._solve_by_parts(tasks)
        quick = solution.statement.decisions()
        solution.statement.discard()
        slow = self._solve_by_parts(tasks)
        by_parts = slow.statement.decisions() if slow else []
        check_same(f"the decisions for job {self._job.name} found at once are", quick, by_parts)
        return slow

    def _returns_at_once(self, part: Job, leaving: Sequence[Task]) -> bool:
        if not super()._returns_at_once(part, leaving):
            return False
        task = leaving[0]
        before, victim = task.placement, task.job
        with self._session.attempt(self._search.action) as statement:
            statement.evict(task, "")
            served = self._queue_of(part, [victim]).pop_one_of([part, victim])
            check_same("the first job to be served is", victim, served)
            self._replace(statement, victim)
            check_same(f"task {task.uid} returns to", before, task.placement)
        return True

    def _first_of(self, part: Job, victim: Job) -> Job | None:
        first = super()._first_of(part, victim)
        if first is not None:
            served = self._queue_of(part, [victim]).pop_one_of([part, victim])
            check_same("the first job to be served is", first, served)
        return first
