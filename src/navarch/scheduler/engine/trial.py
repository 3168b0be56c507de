"""The order in which equal tasks are placed if a scorer must see each node as it fills up.

A scorer that takes one node at a time sees it as it is, not as it might be. So the tasks are put on
nodes for a moment, one after another, and removed again: each step calls that scorer for the one
node that has changed. The results of other scorers at each depth follow from their vector forms.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Final

import numpy as np

from navarch.scheduler.engine.columns import FIGURE_COLUMN
from navarch.scheduler.engine.placement_order import best_rows, order_by, scores_of_hook
from navarch.scheduler.engine.ranking import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from navarch.scheduler.engine.columns import Columns
    from navarch.scheduler.engine.ranking import Ranking
    from navarch.scheduler.framework.node_table import Rows
    from navarch.scheduler.model.job import Task
    from navarch.scheduler.model.node import Node

FEW_IN_VAIN: Final = 2
"""If nodes hold at most this many times the tasks, all of them are filled to compare."""

Term = list[list[float]] | None
"""The results of a scorer per row and depth, or `None` if it has to be called."""


def can_try(columns: Columns, ranking: Ranking) -> bool:
    """Return whether only scorers have to be called, and no task is leaving."""
    return ranking.predicates_foreseeable and np.array_equal(columns.free, columns.idle)


def try_task(columns: Columns, ranking: Ranking, tasks: Sequence[Task]) -> list[Node]:
    """Return the nodes of the tasks in order, as many as hold before an extreme moves."""
    ranking.find_room()
    rows = best_rows(ranking, len(tasks))
    room = np.minimum(ranking.room[rows], len(tasks))
    if len(rows) and int(room.sum()) <= FEW_IN_VAIN * len(tasks):
        return _fill_up(columns, ranking, rows, room, tasks)
    return _Trial(columns, ranking, rows, tasks).run()


def _fill_up(
    columns: Columns,
    ranking: Ranking,
    rows: Rows,
    room: npt.NDArray[np.int64],
    tasks: Sequence[Task],
) -> list[Node]:
    """Do the same as a trial if most nodes will be filled: fill one after another.

    Scores that depend on their node only can be computed node by node, and sorted afterwards.
    """
    nodes = columns.at(rows.tolist())
    rooms: list[int] = room.tolist()
    deepest = max(rooms)
    totals = np.zeros((len(nodes), deepest))
    for hook, fixed in ranking.terms:
        if fixed is None and hook.vector is None and not hook.vectorised:
            totals = totals + _ask_filling(hook.fn, ranking.need, nodes, rooms, tasks)
        else:
            totals = totals + scores_of_hook(columns, ranking, rows, (hook, fixed), deepest)
    totals[:, 0] = ranking.scores[rows]
    totals[np.isnan(totals)] = NEVER
    order = order_by(columns, ranking, rows, room, totals, len(tasks))
    return columns.at(order.tolist())


def _ask_filling(
    ask: Callable[[Task, Node], float | None],
    need: tuple[int, int, int, int],
    nodes: Sequence[Node],
    rooms: Sequence[int],
    tasks: Sequence[Task],
) -> npt.NDArray[np.float64]:
    """Return the results of one scorer for each node empty, with one more task on it, and so on."""
    deepest = max(rooms)
    rows: list[list[float | None]] = []
    for node, room in zip(nodes, rooms, strict=True):
        answers = node.try_tasks(need, tasks[: room - 1], ask)
        # The score of the node as it is, is known; scores beyond its room are not needed.
        rows.append([0.0, *answers, *[0.0] * (deepest - room)])
    return np.array(rows, dtype=np.float64)


class _Trial:
    def __init__(
        self, columns: Columns, ranking: Ranking, rows: Rows, tasks: Sequence[Task]
    ) -> None:
        self._ranking = ranking
        self._tasks = tasks
        self._extents = Moves(columns, ranking, rows)
        self._nodes = columns.at(rows.tolist())
        self._room = np.minimum(ranking.room[rows], len(tasks)).tolist()
        deepest = max(self._room, default=0)
        self._terms: list[tuple[Callable[[Task, Node], float | None], Term]] = []
        total: Term = None
        for hook, fixed in ranking.terms:
            if fixed is None and hook.vector is None and not hook.vectorised:
                self._terms.append((hook.fn, None))
                continue
            known = scores_of_hook(columns, ranking, rows, (hook, fixed), deepest)
            if not self._terms:
                # Before the first scorer that has to be called, sums can be added up at once.
                total = known.tolist() if total is None else (np.array(total) + known).tolist()
            else:
                self._terms.append((hook.fn, known.tolist()))
        self._base: list[list[float]] = total or [[0.0] * deepest for _ in self._nodes]

    def run(self) -> list[Node]:
        need = self._ranking.need
        nodes, room, tasks = self._nodes, self._room, self._tasks
        scores = self._ranking.scores
        heap = [(-float(scores[node.index]), row) for row, node in enumerate(nodes)]
        heapq.heapify(heap)
        depths = [0] * len(nodes)
        order: list[Node] = []
        moved = self._extents.moved
        try:
            for task in tasks:
                if not heap:
                    break
                row = heap[0][1]
                node = nodes[row]
                node.try_task(need, task)
                order.append(node)
                depth = depths[row] = depths[row] + 1
                score = self._score(row, depth, node, task) if depth < room[row] else NEVER
                if score == NEVER:
                    heapq.heappop(heap)
                else:
                    heapq.heapreplace(heap, (-score, row))
                if moved(row, depth):
                    break
        finally:
            here: dict[int, list[Task]] = {}
            for task, node in zip(tasks, order, strict=False):
                here.setdefault(node.index, []).append(task)
            for node in nodes:
                if node.index in here:
                    node.end_trial(need, here[node.index])
        return order

    def _score(self, row: int, depth: int, node: Node, task: Task) -> float:
        total = self._base[row][depth]
        for fn, known in self._terms:
            if known:
                total += known[row][depth]
                continue
            answer = fn(task, node)
            if answer is None:
                return NEVER
            total += answer
        return NEVER if math.isnan(total) else total


class Moves:
    """Whether a placement has moved an extreme that scores depend on."""

    def __init__(self, columns: Columns, ranking: Ranking, rows: Rows) -> None:
        self._watched: list[tuple[list[int], list[bool], int, int, int]] = []
        self._left: list[int] = []
        for figure in ranking.extents_used():
            column = FIGURE_COLUMN[figure]
            extent = columns.extent(figure)
            if ranking.need[column]:
                free, has = columns.free[rows, column].tolist(), extent.has[rows].tolist()
                self._watched.append((free, has, ranking.need[column], extent.least, extent.most))
                self._left.append(extent.counts.get(extent.most, 0))

    def moved(self, row: int, depth: int) -> bool:
        """Return whether the `depth`-th task on the node has moved an extreme."""
        for index, (frees, has, amount, least, most) in enumerate(self._watched):
            if not has[row]:
                continue
            free = frees[row]
            if depth == 1 and free == most:
                self._left[index] -= 1
                if not self._left[index]:
                    return True
            if free - depth * amount < least:
                return True
        return False
