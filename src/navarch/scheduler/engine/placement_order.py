"""The order in which equal tasks would be placed one after another, computed at once.

For one kind of task let `s[n][j]` be the score of node n for the j-th such task put on it, and
`m[n][j]` the least of `s[n][0..j]`. Placing one task at a time on the best node, the first by name
of several, takes the entries in the order of `m`, highest first, by node and then by j: at each
level the first node with a head that high is taken, and taken again while its next scores are no
lower. So all these decisions are one sort, whether filling a node raises or lowers its score.

This holds while scores depend on nothing but their node. Scores that also depend on the extremes of
a figure over all nodes hold until the first placement that moves an extreme: there the order ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from navarch.scheduler.engine.columns import FIGURE_COLUMN
from navarch.scheduler.engine.ranking import NEVER

if TYPE_CHECKING:
    import numpy.typing as npt

    from navarch.scheduler.engine.columns import Columns
    from navarch.scheduler.engine.ranking import Ranking
    from navarch.scheduler.framework.hooks import Hook
    from navarch.scheduler.framework.node_table import Column, Rows


def best_rows(ranking: Ranking, count: int) -> Rows:
    """Return the nodes that the next `count` tasks could go to, in order of their names."""
    rows = ranking.fitting()
    if len(rows) <= count:
        return rows
    scores = ranking.scores.take(rows)
    bar = np.partition(scores, len(scores) - count)[len(scores) - count]
    above = scores > bar
    level = np.flatnonzero(scores == bar)[: count - int(above.sum())]
    above[level] = True
    chosen: Rows = rows[above]
    return chosen


def order_of(columns: Columns, ranking: Ranking, count: int, *, real: bool) -> npt.NDArray[np.intp]:
    """Return the nodes of the next tasks, at most `count`, in order.

    There may be fewer: because no more fit, or because another look is needed then.
    """
    ranking.find_room()
    rows = best_rows(ranking, count)
    if not len(rows):
        return rows
    room = np.minimum(ranking.room.take(rows), count)
    scores = _scores_by_depth(columns, ranking, rows, int(room.max()), real=real)
    return order_by(columns, ranking, rows, room, scores, count)


def order_by(
    columns: Columns,
    ranking: Ranking,
    rows: Rows,
    room: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float64],
    count: int,
) -> npt.NDArray[np.intp]:
    """Return the nodes of the next tasks in order, by the scores of each node at each depth."""
    deepest = scores.shape[1]
    if deepest > 1:
        lowest = np.minimum.accumulate(scores, axis=1)
        lowest[np.arange(deepest) >= room[:, None]] = NEVER
        flat = lowest.ravel()
    else:
        flat = np.where(room > 0, scores[:, 0], NEVER)
    possible = int(np.count_nonzero(flat != NEVER))
    order = np.argsort(-flat, kind="stable")[: min(count, possible)]
    chosen: Rows = rows.take(order // deepest)
    depth = order % deepest
    end = len(order)
    for figure in ranking.extents_used():
        end = min(end, _steady(columns, ranking, figure, chosen, depth))
    return chosen[:end]


def _scores_by_depth(
    columns: Columns,
    ranking: Ranking,
    rows: Rows,
    deepest: int,
    *,
    real: bool,
) -> npt.NDArray[np.float64]:
    """Return for each node its scores for the first task put there, the second, and so on."""
    scores = np.empty((len(rows), deepest))
    scores[:, 0] = ranking.scores[rows]
    if deepest == 1:
        return scores
    table = columns.table(rows)
    need = np.array(ranking.need, dtype=np.int64)
    now = np.where(ranking.later[rows], 0, _times(table.idle, need)) if real else None
    for depth in range(1, deepest):
        # A task that has to wait takes nothing that is idle, only what will be.
        taken = np.minimum(depth, now)[:, None] * need if now is not None else 0
        after = table.after(table.idle - taken, table.free - depth * need)
        scores[:, depth] = ranking.score_table(after, rows)
        scores[~ranking.allows(after), depth] = NEVER
    # What a plugin leaves out is out from there on, as what does not fit is.
    scores[np.isnan(scores)] = NEVER
    return scores


def scores_of_hook(
    columns: Columns,
    ranking: Ranking,
    rows: Rows,
    term: tuple[Hook, Column | None],
    deepest: int,
) -> npt.NDArray[np.float64]:
    """Return for each node the results of one scorer for the first task, the second, and so on.

    Only for nodes without leaving tasks.
    """
    scores = np.empty((len(rows), deepest))
    table = columns.table(rows)
    need = np.array(ranking.need, dtype=np.int64)
    for depth in range(deepest):
        left = table.idle - depth * need
        scores[:, depth] = ranking.ask(term, table.after(left, left), rows)
    return scores


def _times(idle: npt.NDArray[np.int64], need: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    needed = need > 0
    times = idle[:, needed] // need[needed]
    return np.maximum(times.min(axis=1), 0) if needed.any() else np.full(len(idle), 10**9)


def _steady(
    columns: Columns,
    ranking: Ranking,
    figure: str,
    chosen: npt.NDArray[np.intp],
    depth: npt.NDArray[np.intp],
) -> int:
    """Return after how many placements an extreme of the figure has moved; that one included."""
    column = FIGURE_COLUMN[figure]
    amount = ranking.need[column]
    extent = columns.extent(figure)
    if not amount or not len(chosen):
        return len(chosen)
    before = columns.free[:, column].take(chosen) - depth * amount
    has = extent.has.take(chosen)
    below = np.flatnonzero((before - amount < extent.least) & has)
    end = int(below[0]) + 1 if len(below) else len(chosen)
    # The most moves when the last node that has it is given its first task.
    leaving = np.flatnonzero((depth == 0) & (before == extent.most) & has)
    holders = extent.counts.get(extent.most, 0)
    if len(leaving) >= holders:
        end = min(end, int(leaving[holders - 1]) + 1)
    return end
