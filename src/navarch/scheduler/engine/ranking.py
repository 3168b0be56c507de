"""The scores of all nodes for one kind of task."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from navarch.scheduler.engine.columns import FEW, FIGURE_COLUMN, NONE, Columns, ColumnTable
from navarch.scheduler.framework.node_table import (
    GPU_COLUMN,
    Amounts,
    Column,
    Rows,
    fits,
    need_of,
    pick,
)
from navarch.scheduler.model.fit import Fit, Later

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    import numpy.typing as npt

    from navarch.scheduler.framework.hooks import Hook
    from navarch.scheduler.model.job import Job, Task
    from navarch.scheduler.model.node import Node

NO, LATER, NOW = map(int, Fit)
NEVER: Final = -math.inf
"""The score of a node that the task cannot go to."""


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


class Hooks(NamedTuple):
    """The hooks that concern one kind of task, and those that look at all nodes first."""

    predicates: Sequence[Hook]
    scores: Sequence[Hook]
    looks: Sequence[Hook]


class Ranking:
    """The score of every node for one kind of task, kept until the node changes."""

    def __init__(self, columns: Columns, task: Task, job: Job, hooks: Hooks) -> None:
        self.task = task
        self.need = need_of(task.request)
        self._columns = columns
        self._job = job
        self._hooks = hooks
        self._predicates = [hook for hook in hooks.predicates if hook.scope == "node"]
        self.predicates_foreseeable = all(hook.vector for hook in self._predicates)
        """Whether all predicates have a vector form."""
        self.foreseeable = self.predicates_foreseeable and all(
            hook.vector or hook.vectorised for hook in hooks.scores if hook.scope == "node"
        )
        """Whether the order of many such tasks can be computed at once."""
        measures = [hook.measure for hook in hooks.looks if hook.measure is not None]
        figures = [(measure.figure(task), measure.tell) for measure in measures]
        self._extremes = [(figure, tell) for figure, tell in figures if figure is not None]
        """The figures whose extremes matter to the task, and their receivers."""
        self.extents: list[tuple[int, int]] = []
        """The extremes that scores were found with."""
        self._seen = -1
        self._grown = -1
        static = [hook for hook in hooks.predicates if hook.scope == "static"]
        self._allowed = self._fits(static, columns.table())
        self.terms = self._score_terms()
        self._kept: dict[int, KeptScores] = {}
        count = len(columns.nodes)
        self.scores: Column = np.full(count, NEVER)
        self.later: npt.NDArray[np.bool_] = np.zeros(count, dtype=np.bool_)
        """Nodes where the task has to wait although there may be room."""
        self.waits = False
        """Whether there has been such a node."""
        self.room: npt.NDArray[np.int64] = np.zeros(count, dtype=np.int64)
        """How many such tasks each node could hold once those leaving have gone."""
        self.total_room = 0
        self._room_seen = -1
        self._fitting: Rows = np.empty(0, dtype=np.intp)
        """All nodes that fit, and perhaps others, as long as nothing has come free since."""
        self._fitting_grown = -1
        self._among: Ranking | None = None
        """The scores that nodes have if extremes are those of some of them."""

    def is_hopeless(self, count: int) -> bool:
        """Return whether `count` tasks certainly do not fit, without computing anything."""
        return self.total_room < count and self._grown == self._columns.log.grown

    def lacks_room(self, count: int) -> bool:
        """Return whether nodes cannot hold `count` tasks, as they are now."""
        self.refresh()
        return self.find_room() < count

    def refresh(self) -> None:
        """Bring the scores up to date."""
        self._catch_up_since(self._look(), self._measure())

    def _look(self) -> int:
        """Read the nodes as they are now; return how much of the log was read before."""
        known, self._seen = self._seen, len(self._columns.log.rows)
        self._columns.sync()
        return known

    def _catch_up_since(self, known: int, extents: list[tuple[int, int]]) -> None:
        """Score nodes again that may have another score now, with these extremes."""
        columns, now = self._columns, self._seen
        if known < 0 or extents != self.extents or (known != now and not columns.whole):
            self.extents = extents
            self._rescore_all()
        elif known != now:
            self._catch_up(set(columns.log.rows[known:]))

    def _catch_up(self, rows: set[int]) -> None:
        """Score nodes again that have changed."""
        changed = list(rows)
        need = self.need[GPU_COLUMN]
        if need:
            # Most nodes that received tasks are full: their scores need no hooks.
            free = self._columns.extent("gpu").values
            changed = [row for row in rows if free[row] >= need]
            if len(changed) < len(rows):
                self.scores[[row for row in rows if free[row] < need]] = NEVER
        if len(changed) <= FEW:
            for row in changed:
                self.scores[row], later = self._score_node(row, self._columns.nodes[row])
                self.later[row] = later
                self.waits = self.waits or later
        else:
            some = np.array(changed, dtype=np.intp)
            table = self._columns.table(some)
            fit = fits(table.free, self.need) * self._allowed.take(some)
            self._rescore_table(table, some, fit)

    def best(self) -> int | None:
        """Return the node with the highest score, the first by name of several, or `None`."""
        if not len(self.scores):
            return None
        row = int(self.scores.argmax())
        return None if self.scores[row] == NEVER else row

    def best_among(self, rows: Set[int]) -> int | None:
        """Return the best of some nodes, as if there were no others, or `None`."""
        if not rows:
            return None
        known = self._look()
        # Extremes are unchanged if nothing has changed; plugins receive those among `rows`.
        extents = self.extents if known == self._seen else self._measure()
        among = self._measure(rows)
        if among == extents:
            self._catch_up_since(known, extents)
            return self._best_in(rows)
        # The other nodes are ignored then, so scores are kept apart.
        self._seen = known
        if self._among is None:
            self._among = Ranking(self._columns, self.task, self._job, self._hooks)
        other = self._among
        other._catch_up_since(other._look(), among)  # noqa: SLF001 - its own
        return other._best_in(rows)  # noqa: SLF001 - its own

    def _best_in(self, rows: Set[int]) -> int | None:
        """Return the node with the highest score of some, the first of several, or `None`."""
        best = self.best()
        if best is None or best in rows:
            return best
        some = sorted(rows)
        scores = self.scores.take(some)
        row = int(scores.argmax())
        return None if scores[row] == NEVER else some[row]

    def score_for_a_moment(self, node: Node) -> float | None:
        """Return the score of a node as it is shown for a moment, unknown to the change log.

        All other nodes are as the last look found them. The result is `None` if their scores might
        change, or if a scorer needs the arrays.
        """
        columns = self._columns
        if not columns.whole or any(hook.vectorised and own is None for hook, own in self.terms):
            return None
        if not all(columns.keeps_extremes(figure, node) for figure, _ in self._extremes):
            return None
        return self._score_node(node.index, node)[0]

    def is_best_at(self, row: int, score: float) -> bool:
        """Return whether a node would be the best if it had another score."""
        known = float(self.scores[row])
        self.scores[row] = score
        best = self.best()
        self.scores[row] = known
        return best == row

    def moves_an_extreme(self) -> bool:
        """Return whether the next task alone moves an extreme that scores depend on."""
        row = int(self.scores.argmax()) if self._extremes and len(self.scores) else 0
        for figure, _ in self._extremes:
            extent = self._columns.extent(figure)
            amount = self.need[FIGURE_COLUMN[figure]]
            free = extent.values[row]
            if amount and free != NONE:
                if free - amount < extent.least:
                    return True
                if free == extent.most and extent.counts[free] == 1:
                    return True
        return False

    def can_start(self, nodes: Sequence[Node]) -> bool:
        """Return whether tasks on these nodes can start at once."""
        if not self._columns.log.waits and not self.waits:
            return True
        later = self.later
        row_of = self._columns.row_of
        previous: Node | None = None
        for node in nodes:
            if node is previous:
                continue
            previous = node
            coming = node.releasing
            if coming.gpu or coming.cpu or coming.memory or coming.pods or later[row_of(node)]:
                return False
        return True

    def must_wait(self, node: Node) -> bool:
        """Return whether the task has to wait on the node although there may be room."""
        return bool(self.later[self._columns.row_of(node)])

    def _measure(self, rows: Set[int] | None = None) -> list[tuple[int, int]]:
        """Pass the extremes among all nodes, or some, to the plugins, and return them."""
        found = []
        for figure, tell in self._extremes:
            if rows is None:
                extent = self._columns.extent(figure)
                extremes = (extent.least, extent.most)
            else:
                extremes = self._columns.extremes_among(figure, rows)
            tell(self.task, *extremes)
            found.append(extremes)
        return found

    def extents_used(self) -> list[str]:
        """Return the figures with extremes that the scores depend on."""
        return [figure for figure, _ in self._extremes]

    def score_table(self, table: ColumnTable, rows: Rows | None) -> Column:
        """Return the scores of a table's nodes; which of them fit is not looked at."""
        totals = np.zeros(len(table))
        for term in self.terms:
            totals = totals + self.ask(term, table, rows)
        return totals

    def ask(
        self, term: tuple[Hook, Column | None], table: ColumnTable, rows: Rows | None
    ) -> Column:
        """Return the results of one scorer for the nodes of a table."""
        hook, fixed = term
        if fixed is not None:
            return fixed if rows is None else fixed.take(rows)
        if hook.vector is not None:
            answer: Column = hook.vector(self.task, table)
            return answer
        if hook.vectorised:
            return np.asarray(hook.fn(self.task, table), dtype=np.float64)
        looking = {other.owner for other in self._hooks.looks}
        if not self._columns.whole or hook.scope != "node" or hook.owner in looking:
            return score_each(hook, self.task, table.nodes)
        kept = self._kept.get(id(hook))
        if kept is None:
            kept = self._kept[id(hook)] = KeptScores(self._columns, hook, self.task)
        return kept.of(rows)

    def allows(self, table: ColumnTable) -> npt.NDArray[np.bool_]:
        """Return for every node of a table whether all predicates accept it as it is shown."""
        return self._fits(self._predicates, table) > NO

    def _fits(self, predicates: Sequence[Hook], table: ColumnTable) -> npt.NDArray[np.int8]:
        """Return the least fit that some predicates give to each node of a table."""
        fit = np.full(len(table), Fit.NOW, dtype=np.int8)
        for hook in predicates:
            if hook.vector is not None:
                fit = np.minimum(fit, hook.vector(self.task, self._job, table))
                continue
            reasons = [hook.fn(self.task, self._job, node) for node in table.nodes]
            refused = [(LATER if isinstance(r, Later) else NO) if r else NOW for r in reasons]
            fit = np.minimum(fit, np.array(refused, dtype=np.int8))
        return fit

    def _rescore_all(self) -> None:
        columns = self._columns
        self.scores = np.full(len(columns.nodes), NEVER)
        self.later = np.zeros(len(columns.nodes), dtype=np.bool_)
        self._room_seen = -1
        # On a full cluster few nodes are left to score.
        rows = np.flatnonzero(fits(columns.free, self.need) & (self._allowed > NO))
        self._fitting, self._fitting_grown = rows, columns.log.grown
        if len(rows) == len(columns.nodes):
            self._rescore_table(columns.table(), None, self._allowed)
        else:
            self._rescore_table(columns.table(rows), rows, self._allowed.take(rows))

    def fitting(self) -> Rows:
        """Return the nodes that have a score, in order of their names."""
        if self._fitting_grown != self._columns.log.grown:
            self._fitting = np.flatnonzero(fits(self._columns.free, self.need))
            self._fitting_grown = self._columns.log.grown
        rows = self._fitting
        scored: Rows = rows[self.scores.take(rows) != NEVER]
        return scored

    def _rescore_table(
        self, table: ColumnTable, rows: Rows | None, fit: npt.NDArray[np.int8]
    ) -> None:
        fit = np.minimum(fit, self._fits(self._predicates, table))
        scores = self.score_table(table, rows)
        scores[(fit == NO) | np.isnan(scores)] = NEVER
        later = fit == LATER
        self.waits = self.waits or bool(later.any())
        if rows is None:
            self.scores, self.later = scores, later
        else:
            self.scores[rows] = scores
            self.later[rows] = later

    def find_room(self) -> int:
        """Return how many such tasks all nodes together could hold, up to date."""
        log = self._columns.log
        known = self._room_seen
        self._room_seen = len(log.rows)
        changed = log.rows[known:] if known >= 0 else []
        if known < 0 or not self._columns.whole or len(changed) > len(self.room) // 4:
            rows = self.fitting()
            room = _room(pick(self._columns.free, rows), self.need)
            self.room = np.zeros(len(self.scores), dtype=np.int64)
            self.room[rows] = room
            self.total_room = int(room.sum())
        elif changed:
            rows = np.array(list(set(changed)), dtype=np.intp)
            room = _room(pick(self._columns.free, rows), self.need)
            room[self.scores.take(rows) == NEVER] = 0
            self.total_room += int(room.sum() - self.room.take(rows).sum())
            self.room[rows] = room
        self._grown = log.grown
        return self.total_room

    def _score_node(self, row: int, node: Node) -> tuple[float, bool]:
        task = self.task
        if not self._allowed[row] or not node.fits_eventually(task.request):
            return NEVER, False
        later = False
        for hook in self._predicates:
            reason = hook.fn(task, self._job, node)
            if reason:
                if not isinstance(reason, Later):
                    return NEVER, False
                later = True
        total = 0.0
        for hook, fixed in self.terms:
            if fixed is not None:
                total += float(fixed[row])
            elif hook.vectorised:
                table = self._columns.table(np.array([row], dtype=np.intp))
                total += float(hook.fn(task, table)[0])
            else:
                answer = hook.fn(task, node)
                if answer is None:
                    return NEVER, later
                total += answer
        return (NEVER if math.isnan(total) else total), later

    def _score_terms(self) -> list[tuple[Hook, Column | None]]:
        """Return the scorers in order, with their results if those never change."""
        terms: list[tuple[Hook, Column | None]] = []
        table = self._columns.table()
        for hook in self._hooks.scores:
            if hook.scope != "static":
                terms.append((hook, None))
                continue
            if hook.vector is not None:
                fixed = hook.vector(self.task, table)
            elif hook.vectorised:
                fixed = np.asarray(hook.fn(self.task, table), dtype=np.float64)
            else:
                fixed = score_each(hook, self.task, table.nodes)
            # Adding 0 changes no sum, so such terms can be left out.
            if np.any(fixed != 0):
                terms.append((hook, fixed))
        return terms


def _room(free: Amounts, need: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return how often `need` fits into each row."""
    room: npt.NDArray[np.int64] | None = None
    for column, amount in enumerate(need):
        if amount:
            times = free[:, column] // amount
            room = times if room is None else np.minimum(room, times)
    return np.full(len(free), UNBOUNDED) if room is None else np.maximum(room, 0)


UNBOUNDED: Final = 10**9
"""How many tasks without any request a node can hold."""
