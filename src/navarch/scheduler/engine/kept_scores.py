"""The results of a scorer that takes one node at a time, kept until the node changes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.engine.columns import Columns
    from navarch.scheduler.framework.hooks import Hook
    from navarch.scheduler.framework.node_table import Column, Rows
    from navarch.scheduler.model.job import Task
    from navarch.scheduler.model.node import Node


class KeptScores:
    """The results of one scorer for all nodes and one kind of task.

    They stay valid when an extreme over all nodes moves.
    """

    def __init__(self, columns: Columns, hook: Hook, task: Task) -> None:
        self._columns = columns
        self._hook = hook
        self._task = task
        self._seen = 0
        count = len(columns.nodes)
        self._answers = np.zeros(count)
        self._known = np.zeros(count, dtype=np.bool_)

    def of(self, rows: Rows | None) -> Column:
        """Return the answers about nodes as they are."""
        log = self._columns.log.rows
        self._known[log[self._seen :]] = False
        self._seen = len(log)
        unknown = np.flatnonzero(~self._known) if rows is None else rows[~self._known[rows]]
        if len(unknown):
            nodes = self._columns.at(unknown.tolist())
            self._answers[unknown] = score_each(self._hook, self._task, nodes)
            self._known[unknown] = True
        return self._answers if rows is None else self._answers[rows]


def score_each(hook: Hook, task: Task, nodes: Sequence[Node]) -> Column:
    """Return the result of a scorer for each node, NaN if it drops the node."""
    answers = [hook.fn(task, node) for node in nodes]
    return np.array([math.nan if a is None else a for a in answers], dtype=np.float64)
