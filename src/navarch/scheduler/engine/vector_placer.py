"""The placer that works with arrays: equal tasks are placed together, and results are kept."""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from navarch.scheduler.engine.columns import FEW, Columns, SomeColumns
from navarch.scheduler.engine.incremental_index import IncrementalIndex
from navarch.scheduler.engine.lazy_loading import LazyLoader
from navarch.scheduler.engine.no_op_moves import NoOpMoveCheck
from navarch.scheduler.engine.place_finder import PlaceFinder
from navarch.scheduler.engine.ranked_queue import RankedQueue, RankMemory
from navarch.scheduler.engine.ranking import Ranking
from navarch.scheduler.engine.serving_order import ServingOrder
from navarch.scheduler.framework.node_table import GPU_COLUMN
from navarch.scheduler.model.lazy_tasks import LazyTasks, materialise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from navarch.scheduler.framework.cluster_state import ClusterState
    from navarch.scheduler.framework.job_queue import JobIndex
    from navarch.scheduler.framework.node_table import NodeTable
    from navarch.scheduler.framework.placing import PlacementAttempt
    from navarch.scheduler.model.cluster import NodeSpec
    from navarch.scheduler.model.job import Job, Task
    from navarch.scheduler.model.node import Node

WORTH_A_TABLE: Final = 4
"""For fewer tasks, building arrays of some of the nodes costs more than it saves."""

Run = tuple[int, "Sequence[Task]"]
"""Equal tasks that follow each other, with their kind."""


class VectorPlacer:
    """Decides what `ReferencePlacer` does, in a fraction of the time.

    Scores and orders are kept until something they depend on changes; the scopes that hooks
    declare state what that is.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._memory = RankMemory()
        jobs = state.jobs
        self.waiting = self._new_index(attrgetter("has_pending"), jobs.made)
        self.interruptible = self._new_index(state.is_interruptible, jobs.values)

    def _new_index(
        self, holds: Callable[[Job], bool], among: Callable[[], Iterable[Job]]
    ) -> IncrementalIndex:
        return IncrementalIndex(self._state, holds, among)

    @cached_property
    def columns(self) -> Columns:
        """The resources of all nodes, as arrays."""
        return Columns(self._state.node_list, self._state.changes)

    @cached_property
    def finder(self) -> PlaceFinder:
        """The rankings of all nodes, by kind of task."""
        return PlaceFinder(self._state, self.columns)

    @cached_property
    def serving_order(self) -> ServingOrder:
        """The order of two jobs among all waiting ones."""
        return ServingOrder(self._state, self.waiting)

    @cached_property
    def no_op_moves(self) -> NoOpMoveCheck:
        """The victims that would return to their places at once."""
        return NoOpMoveCheck(self._state, self.finder, self.serving_order)

    def load(self) -> None:
        """Book every task where the snapshot found it, plain gangs without their tasks."""
        LazyLoader(self._state).load()

    def prepare(self) -> None:
        """Read the nodes, and the extremes that most scores depend on."""
        self.columns.sync()
        if any(hook.measure is not None for hook in self._state.hooks("node_pre_order")):
            self.columns.extent("gpu")

    def reset(self) -> None:
        """Drop everything that was derived from hooks: one of them has changed."""
        self.__dict__.pop("finder", None)
        self.__dict__.pop("no_op_moves", None)

    def place(
        self, attempt: PlacementAttempt, tasks: Sequence[Task], nodes: Sequence[Node]
    ) -> bool:
        """Put all tasks on some of `nodes`, runs of equal ones together."""
        if nodes is self._state.node_list:
            finder = self.finder
        elif len(tasks) < WORTH_A_TABLE or not nodes:
            return all(self._place_among(attempt, task, nodes) for task in materialise(tasks))
        else:
            finder = PlaceFinder(self._state, SomeColumns(nodes, self._state.changes))
        if isinstance(tasks, LazyTasks):
            if (kind := tasks.pod_set.kind) is not None:
                return self._place_run(finder, attempt, (kind, tasks), nodes)
            # If one of the kinds finds no room, no task is even materialised.
            parts = [(shape.kind, tasks.part(shape)) for shape in tasks.shapes]
            if self._lacks_room(finder, attempt, parts):
                return False
            runs = _runs(finder, tasks.materialise())
        else:
            runs = _runs(finder, tasks)
            if len(runs) > 1 and self._lacks_room(finder, attempt, runs):
                return False
        return all(self._place_run(finder, attempt, run, nodes) for run in runs)

    def _place_run(
        self, finder: PlaceFinder, attempt: PlacementAttempt, run: Run, nodes: Sequence[Node]
    ) -> bool:
        """Place equal tasks together, on the nodes they would get one after another."""
        kind, tasks = run
        job, real = attempt.job, attempt.real
        ranking = finder.ranking(kind, tasks, job)
        if ranking is None:
            return all(attempt.place_task(task, nodes) for task in materialise(tasks))
        refusal = finder.refusal(kind, tasks, job)
        if refusal is not None:
            if attempt.record:
                self._state.note_task_reason(refusal)
            return False
        left = tasks
        while places := finder.next_nodes(ranking, left, real=real):
            left = materialise(left)
            here, left = left[: len(places)], left[len(places) :]
            if real and ranking.can_start(places):
                attempt.statement.allocate_all(here, places)
                if len(places) > FEW:
                    self.columns.take(places, here[0].request)
            else:
                for task, node in zip(here, places, strict=True):
                    now = real and not ranking.must_wait(node) and node.fits_now(task.request)
                    attempt.put(task, node, now=now)
            finder.ahead.confirm()
            if not left:
                return True
        if attempt.record:
            self._state.unplaced[job.name] = (tasks, job)
        return False

    def _lacks_room(
        self, finder: PlaceFinder, attempt: PlacementAttempt, parts: Sequence[Run]
    ) -> bool:
        """Return whether some part certainly does not fit, before others are placed in vain."""
        if not attempt.real:
            return False
        job = attempt.job
        rankings: list[Ranking] = []
        for kind, tasks in parts:
            ranking = finder.ranking(kind, tasks, job)
            if ranking is None or finder.refusal(kind, tasks, job) is not None:
                return False
            rankings.append(ranking)
        # First the answers that need no computation.
        for lacks_room in (Ranking.is_hopeless, Ranking.lacks_room):
            for (_, tasks), ranking in zip(parts, rankings, strict=True):
                if lacks_room(ranking, len(tasks)):
                    if attempt.record:
                        self._state.unplaced[job.name] = (tasks, job)
                    return True
        return False

    def _place_among(self, attempt: PlacementAttempt, task: Task, nodes: Sequence[Node]) -> bool:
        """Place one task on some of the nodes, with the ranking of all of them."""
        finder, job = self.finder, attempt.job
        kind = finder.kind(task)
        ranking = None if attempt.real else finder.ranking(kind, [task], job)
        if ranking is None:
            return attempt.place_task(task, nodes)
        if finder.refusal(kind, [task], job) is not None:
            return False
        node = finder.best_among(ranking, nodes)
        return node is not None and attempt.put(task, node, now=False)

    def queue(
        self, jobs: Iterable[Job], *, victims: bool = False, depth: int | None = None
    ) -> RankedQueue:
        """Return a queue of `jobs`, at most `depth` of the best per leaf."""
        queue = self._new_queue(victims=victims)
        queue.fill(jobs, depth)
        return queue

    def queue_from(
        self, index: JobIndex, wanted: Callable[[Job], bool], *, victims: bool = False
    ) -> RankedQueue:
        """Return a queue of the wanted jobs of an index.

        If the order of jobs can be kept, the cost depends only on the jobs that are handed out.
        """
        _, key, is_kept = self._state.job_order()
        costs = victims and bool(self._state.hooks("victim_cost"))
        if key is None or not is_kept or costs or not isinstance(index, IncrementalIndex):
            return self.queue(filter(wanted, index.jobs), victims=victims)
        return self._new_queue(victims=victims, key=key).read(index.leaves(key), wanted)

    def _new_queue(
        self, *, victims: bool, key: Callable[[Job], object] | None = None
    ) -> RankedQueue:
        return RankedQueue(self._state, self._memory, victims=victims, key=key)

    def node_table(self) -> NodeTable:
        """Return all nodes as arrays."""
        return self.columns.up_to_date().table()

    def free_gpus(self) -> list[int]:
        """Return what each node has, idle or coming free, in hundredths of whole GPUs."""
        free: list[int] = self.columns.up_to_date().free[:, GPU_COLUMN].tolist()
        return free

    def free_gpu_counts(self) -> Mapping[int, int]:
        """Return how many nodes with GPUs have each amount of `free_gpus`."""
        return self.columns.up_to_date().extent("gpu").counts

    def gpus_to_spare(self) -> int:
        """Return all unpromised GPUs, whole, shared or sliced, in hundredths."""
        if self._state.changes.shares:
            return sum(node.gpu_to_spare() for node in self._state.nodes.values())
        columns = self.columns.up_to_date()
        gpus = columns.extent("gpu")
        spare = int(columns.free[:, GPU_COLUMN].sum()) if gpus.overdrawn else gpus.sum
        sliced = columns.at(columns.facts.rows_of(_has_more_than_whole_gpus))
        return spare + sum(n.gpu_to_spare() - n.idle.gpu - n.releasing.gpu for n in sliced)

    def rows_with_gpus(self) -> set[int]:
        """Return the nodes on which a GPU, whole, shared or sliced, is idle or coming free."""
        if self._state.changes.shares:
            return {n.index for n in self._state.nodes.values() if n.has_available_gpus()}
        columns = self.columns.up_to_date()
        # No GPU is shared, so idle and coming amounts are whole numbers of GPUs.
        rows = columns.extent("gpu").rows.copy()
        sliced = columns.at(columns.facts.rows_of(_has_more_than_whole_gpus))
        rows.update(n.index for n in sliced if n.has_available_gpus())
        return rows


def _runs(finder: PlaceFinder, tasks: Sequence[Task]) -> list[Run]:
    """Return the tasks in order, equal ones that follow each other together."""
    runs: list[Run] = []
    start = 0
    for kind, equal in groupby(map(finder.kind, tasks)):
        end = start + len(list(equal))
        runs.append((kind, tasks[start:end]))
        start = end
    return runs


def _has_more_than_whole_gpus(spec: NodeSpec) -> bool:
    return bool(spec.mig or spec.dra_gpus)
