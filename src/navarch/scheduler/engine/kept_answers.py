"""What a scorer that is asked about one node at a time has said, kept until the node changes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from navarch.scheduler.engine.columns import Columns
    from navarch.scheduler.framework.node_table import Column, Rows
    from navarch.scheduler.framework.points import Hook
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.task import Task


class KeptAnswers:
    """The answers of one scorer about all nodes for one kind of task.

    That an extreme over all nodes has moved is no reason to ask it again.
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
            self._answers[unknown] = ask_each(self._hook, self._task, nodes)
            self._known[unknown] = True
        return self._answers if rows is None else self._answers[rows]


def ask_each(hook: Hook, task: Task, nodes: Sequence[Node]) -> Column:
    """Return what a scorer says of each node; no number where it leaves a node out."""
    answers = [hook.fn(task, node) for node in nodes]
    return np.array([math.nan if a is None else a for a in answers], dtype=np.float64)
