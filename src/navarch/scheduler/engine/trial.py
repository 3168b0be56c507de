"""The order in which equal tasks are placed if a scorer must see each node as it fills up.

A scorer that takes one node at a time sees it as it is, not as it might be. So the tasks are put on
each node for a moment, one after another, and removed again. Scores that depend on their node only
can be found node by node and sorted afterwards; those of other scorers at each depth follow from
their vector forms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from navarch.scheduler.engine.placement_order import best_rows, order_by, scores_of_hook
from navarch.scheduler.engine.ranking import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.engine.columns import Columns
    from navarch.scheduler.engine.ranking import Ranking
    from navarch.scheduler.model.job import Task
    from navarch.scheduler.model.node import Node

WORTH_IT_UP_TO: Final = 8
"""If nodes hold more than this many times the tasks, placing them one by one is faster."""


def nodes_by_trial(columns: Columns, ranking: Ranking, tasks: Sequence[Task]) -> list[Node]:
    """Return the nodes of the tasks in order, as many as hold before an extreme moves.

    The list is empty if more than scorers has to be called, if a task is leaving, or if it is not
    worth it.
    """
    if not ranking.predicates_foreseeable or not np.array_equal(columns.free, columns.idle):
        return []
    ranking.find_room()
    rows = best_rows(ranking, len(tasks))
    room = np.minimum(ranking.room[rows], len(tasks))
    if not len(rows) or int(room.sum()) > WORTH_IT_UP_TO * len(tasks):
        return []
    nodes, rooms = columns.at(rows.tolist()), room.tolist()
    deepest = max(rooms)
    totals = np.zeros((len(nodes), deepest))
    for hook, fixed in ranking.terms:
        if fixed is not None or hook.vector is not None or hook.vectorised:
            totals = totals + scores_of_hook(columns, ranking, rows, (hook, fixed), deepest)
            continue
        scores: list[list[float | None]] = []
        for node, count in zip(nodes, rooms, strict=True):
            answers = node.try_tasks(ranking.need, tasks[: count - 1], hook.fn)
            # The score of the node as it is, is known; scores beyond its room are not needed.
            scores.append([0.0, *answers, *[0.0] * (deepest - count)])
        totals = totals + np.array(scores, dtype=np.float64)
    totals[:, 0] = ranking.scores[rows]
    totals[np.isnan(totals)] = NEVER
    return columns.at(order_by(columns, ranking, rows, room, totals, len(tasks)).tolist())
