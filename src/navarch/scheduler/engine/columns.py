"""Node state as arrays, one copy for all kinds of tasks, brought up to date when looked at."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import numpy as np

from navarch.core.errors import InvalidError
from navarch.scheduler.framework.node_table import (
    CPU_COLUMN,
    GPU_COLUMN,
    Amounts,
    NodeTable,
    Rows,
    need_of,
    pick,
)
from navarch.scheduler.model.nodes import NodeList
from navarch.scheduler.model.quantity import GPU

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set

    import numpy.typing as npt

    from navarch.scheduler.model.change_log import ChangeLog
    from navarch.scheduler.model.cluster import NodeSpec
    from navarch.scheduler.model.node import Node
    from navarch.scheduler.model.request import Request

T = TypeVar("T", bound=np.generic)

_index = attrgetter("index")

EXACT_BELOW: Final = 2**53
"""Amounts that arrays and plain numbers divide alike."""

FIGURE_COLUMN: Final = {"gpu": GPU_COLUMN, "cpu": CPU_COLUMN}
"""Figures with extremes over all nodes that scores may depend on."""
FIGURE_UNIT: Final = {"gpu": GPU, "cpu": 1}
"""The least useful amount of each."""

NONE: Final = -(2**62)
"""The free amount of a resource that the node does not have at all."""

FEW: Final = 24
"""Up to this number, updating nodes one by one is faster."""
MOST: Final = 4
"""If more than one node in four has changed, looking at all of them again is faster."""
VERY_FEW: Final = 6
"""Up to this number, writing all amounts of a node at once is faster."""


class Columns:
    """The session's nodes as arrays."""

    whole: ClassVar[bool] = True
    """Whether these are all nodes of the session, so that rows of the log are rows here."""

    def __init__(self, nodes: Sequence[Node], log: ChangeLog) -> None:
        self.nodes = nodes
        self.log = log
        self._synced = 0
        """How much of the log was read."""
        self._behind: list[int] = []
        """Rows that have changed since the arrays were last read."""
        self._extents: dict[str, Extent] = {}
        """Extents that were requested; they catch up when they are read again."""
        self.facts = NodeTable(nodes)
        """Labels and the like that no session changes."""
        if isinstance(nodes, NodeList):  # with arrays of the nodes as they were at first
            self._idle, self._free, self.total = nodes.idle, nodes.free, nodes.total

    def row_of(self, node: Node) -> int:
        """Return the row of a node."""
        return node.index

    @property
    def exact(self) -> bool:
        """Whether arrays hold all amounts and divide them as plain numbers are divided."""
        return not len(self.nodes) or bool(self.total.max() < EXACT_BELOW)

    @property
    def idle(self) -> Amounts:
        """What can be had now, as far as `sync` has looked."""
        if self._behind:
            self._catch_up()
        return self._idle

    @property
    def free(self) -> Amounts:
        """What is idle or will come free unpromised, as far as `sync` has looked."""
        if self._behind:
            self._catch_up()
        return self._free

    def at(self, rows: Sequence[int]) -> list[Node]:
        """Return the nodes of these rows."""
        nodes = self.nodes
        return nodes.at(rows) if isinstance(nodes, NodeList) else [nodes[row] for row in rows]

    def sync(self) -> None:
        """Read which rows have changed."""
        rows = self.log.rows
        if self._synced != len(rows):
            self._behind += rows[self._synced :]
            self._synced = len(rows)

    def up_to_date(self) -> Columns:
        """Return this, after a look at what has changed."""
        self.sync()
        return self

    def extent(self, figure: str) -> Extent:
        """Return the extremes of a figure over all nodes, as far as `sync` has looked."""
        known = self._extents.get(figure)
        changed = set(self.log.rows[known.seen : self._synced]) if known is not None else set()
        if known is None or len(changed) * MOST > len(self.nodes):
            known = self._extents[figure] = Extent(self.free, self.total, figure)
        elif changed:
            for node in self.at(list(changed)):
                known.update(node.index, free_of(node, figure))
        known.seen = self._synced
        return known

    def extremes_among(self, figure: str, rows: Set[int]) -> tuple[int, int]:
        """Return the least and the most of a figure that some nodes have, if they have any."""
        free = list(map(self.extent(figure).values.__getitem__, rows))
        least = min(free, default=NONE)
        if least == NONE:
            free = [value for value in free if value != NONE]
            least = min(free, default=0)
        return least, max(free, default=0)

    def keeps_extremes(self, figure: str, node: Node) -> bool:
        """Return whether a figure keeps its extremes with the node as it is shown for a moment."""
        return self.extent(figure).keeps_extremes(node.index, free_of(node, figure))

    def take(self, nodes: Sequence[Node], request: Request) -> None:
        """Record that an equal task has been put on what is idle on each of the nodes just now.

        A shortcut for many nodes, which may be repeated: `sync` would find out, one by one.
        """
        counts = Counter(map(_index, nodes))
        if len(counts) <= FEW or self._synced != len(self.log.rows) - len(counts):
            return
        self._synced = len(self.log.rows)
        idle, free, where = self.idle.T, self.free.T, np.array(list(counts), dtype=np.intp)
        taken = np.outer(need_of(request), list(counts.values()))
        idle[:, where] -= taken
        free[:, where] -= taken

    def _catch_up(self) -> None:
        """Write the rows that have changed; some may have changed again since."""
        rows = list(set(self._behind))
        self._behind = []
        if len(rows) <= VERY_FEW:
            idle_rows, free_rows = self._idle, self._free
            for row, node in zip(rows, self.at(rows), strict=True):
                now, later = node.idle, node.releasing
                cpu, memory, gpu, pods = now.cpu, now.memory, now.gpu, now.pods
                idle_rows[row] = (cpu, memory, gpu, pods)
                free_rows[row] = (
                    cpu + later.cpu,
                    memory + later.memory,
                    gpu + later.gpu,
                    pods + later.pods,
                )
            return
        pools = [(node.idle, node.releasing) for node in self.at(rows)]
        idle = np.array([(i.cpu, i.memory, i.gpu, i.pods) for i, _ in pools], dtype=np.int64)
        self._idle[rows] = idle
        coming = [(r.cpu, r.memory, r.gpu, r.pods) for _, r in pools]
        self._free[rows] = idle + np.array(coming, dtype=np.int64)

    def table(self, rows: Rows | None = None) -> ColumnTable:
        """Return all nodes, or some, as they are."""
        if rows is None:
            return ColumnTable(self, None, self.idle, self.free)
        return ColumnTable(self, rows, pick(self.idle, rows), pick(self.free, rows))


class SomeColumns(Columns):
    """Some of the session's nodes as arrays, rebuilt after every change."""

    whole: ClassVar[bool] = False

    def __init__(self, nodes: Sequence[Node], log: ChangeLog) -> None:
        super().__init__(nodes, log)
        self._rows = {node.index: row for row, node in enumerate(nodes)}
        self.total = _amounts(nodes, "allocatable")
        self._read()

    def row_of(self, node: Node) -> int:
        """Return the row of a node."""
        return self._rows[node.index]

    def sync(self) -> None:
        """Bring the arrays up to date."""
        if self._synced != len(self.log.rows):
            self._read()

    def _read(self) -> None:
        self._synced = len(self.log.rows)
        self._idle = _amounts(self.nodes, "idle")
        self._free = self._idle + _amounts(self.nodes, "releasing")
        self._extents.clear()


class ColumnTable(NodeTable):
    """A table over shared arrays; with other amounts, the same nodes as they might be."""

    def __init__(
        self,
        columns: Columns,
        rows: Rows | None,
        idle: Amounts,
        free: Amounts,
        *,
        real: bool = True,
    ) -> None:
        self._columns = columns
        self._rows = rows
        self._real = real
        # Not `cached_property` values any more: they are known.
        self.__dict__["idle"] = idle
        self.__dict__["free"] = free

    def __len__(self) -> int:
        return len(self.idle)

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes, where the table shows them as they are."""
        if not self._real:
            raise InvalidError("this table shows nodes as they might be: use its columns")
        if self._rows is None:
            return self._columns.nodes
        return self._columns.at(self._rows.tolist())

    def _own(self, values: npt.NDArray[T]) -> npt.NDArray[T]:
        """Return the values of the table's own nodes."""
        return values if self._rows is None else values[self._rows]

    @cached_property
    def total(self) -> Amounts:
        """What there is."""
        total = self._columns.total
        return total if self._rows is None else pick(total, self._rows)

    @cached_property
    def gpu_labels(self) -> npt.NDArray[np.int64]:
        """How many GPUs the node is labelled with."""
        return self._own(self._columns.facts.gpu_labels)

    @cached_property
    def gpu_memory(self) -> npt.NDArray[np.int64]:
        """How much memory each of the node's GPUs has, in MiB."""
        return self._own(self._columns.facts.gpu_memory)

    def label(self, key: str) -> npt.NDArray[np.object_]:
        """Return every node's value of a label, nothing where it has none."""
        return self._own(self._columns.facts.label(key))

    def labelled(self, key: str, value: str) -> npt.NDArray[np.bool_]:
        """Return for every node whether a label has a value."""
        return self._own(self._columns.facts.labelled(key, value))

    def rows_of(self, trait: Callable[[NodeSpec], bool]) -> list[int]:
        """Return the rows of nodes with a trait of their spec."""
        facts = self._columns.facts
        if self._rows is None:
            return facts.rows_of(trait)
        return [row for row, own in enumerate(self._rows) if trait(facts.specs[own])]

    def after(self, idle: Amounts, free: Amounts) -> ColumnTable:
        """Return the same nodes with other amounts."""
        return ColumnTable(self._columns, self._rows, idle, free, real=False)


class Extent:
    """The least and the most that nodes have free of one resource, among those that have any."""

    def __init__(self, free: Amounts, total: Amounts, figure: str) -> None:
        column, self._unit = FIGURE_COLUMN[figure], FIGURE_UNIT[figure]
        self.has = total[:, column] > 0
        self.values: list[int] = free[:, column].tolist()
        """What each node has free, where it has any."""
        for row in np.flatnonzero(~self.has).tolist():
            self.values[row] = NONE
        values, counts = np.unique(free[self.has, column], return_counts=True)
        self.counts: dict[int, int] = dict(zip(values.tolist(), counts.tolist(), strict=True))
        self.least = min(self.counts, default=0)
        self.most = max(self.counts, default=0)
        self.sum = int(free[self.has, column].sum())
        """What all of them together have free."""
        self.overdrawn = bool(free[~self.has, column].any())
        """Whether a node holds tasks but has lost all its resources: the sum lacks those."""
        self._rows: set[int] | None = None
        self.seen = 0
        """How much of the log of changes it takes into account."""

    @property
    def rows(self) -> set[int]:
        """The nodes that have at least a unit free; only searches for victims read them."""
        if self._rows is None:
            unit = self._unit
            self._rows = {row for row, value in enumerate(self.values) if value >= unit}
        return self._rows

    def update(self, row: int, value: int) -> None:
        """Take into account that a node has another amount free."""
        before = self.values[row]
        if before in (NONE, value):
            return
        self.values[row] = value
        self.sum += value - before
        if self._rows is not None:
            (self._rows.add if value >= self._unit else self._rows.discard)(row)
        counts = self.counts
        counts[value] = counts.get(value, 0) + 1
        left = counts[before] - 1
        if left:
            counts[before] = left
        else:
            del counts[before]
        if value < self.least or (not left and before == self.least):
            self.least = min(counts)
        if value > self.most or (not left and before == self.most):
            self.most = max(counts)

    def keeps_extremes(self, row: int, value: int) -> bool:
        """Return whether the extremes would stay if a node had another amount free."""
        before = self.values[row]
        if before in (NONE, value):
            return True
        if not self.least <= value <= self.most:
            return False
        return before not in (self.least, self.most) or self.counts[before] > 1


def free_of(node: Node, figure: str) -> int:
    """Return how much of a figure is idle on a node, or will come free unpromised."""
    free: int = getattr(node.idle, figure) + getattr(node.releasing, figure)
    return free


def _amounts(nodes: Sequence[Node], pool: str) -> Amounts:
    """Return what nodes have in one of their pools, a row each."""
    table = np.empty((len(nodes), 4), dtype=np.int64, order="F")
    for column, figure in enumerate(("cpu", "memory", "gpu", "pods")):
        amount = attrgetter(f"{pool}.{figure}")
        table[:, column] = np.fromiter(map(amount, nodes), np.int64, len(nodes))
    return table
