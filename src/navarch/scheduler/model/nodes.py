"""All nodes of a session: what they have as arrays, and each as an object once it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set, ValuesView
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Final, overload

import numpy as np

from navarch.scheduler.model.node import Node
from navarch.scheduler.model.quantity import GPU

if TYPE_CHECKING:
    from navarch.scheduler.model.change_log import ChangeLog
    from navarch.scheduler.model.cluster import NodeSpec

_FIGURES: Final = tuple(map(attrgetter, ("cpu_milli", "memory_bytes", "gpus", "pods")))
_GPUS: Final = 2


class NodeList(Sequence[Node]):
    """The nodes by name, materialised when they are read; until then the arrays describe them.

    Most nodes of a large cluster are full and stay as they are for a whole cycle.
    """

    def __init__(self, specs: Sequence[NodeSpec], log: ChangeLog) -> None:
        self.specs = specs
        self._log = log
        # Column by column in memory: rules look at one resource of all nodes.
        self.total = np.empty((len(specs), 4), dtype=np.int64, order="F")
        """CPU, memory, GPUs and pods that there are, a row per node."""
        for column, figure in enumerate(_FIGURES):
            self.total[:, column] = np.fromiter(map(figure, specs), np.int64, len(specs))
        self.total[:, _GPUS] *= GPU
        self.idle = self.total.copy(order="K")
        self.free = self.total.copy(order="K")
        """What is idle or will come free unpromised."""
        self._made: list[Node | None] = [None] * len(specs)

    def book(
        self, rows: Sequence[int], needs: Sequence[tuple[int, int, int, int]], counts: Sequence[int]
    ) -> None:
        """Book tasks on nodes that are not materialised yet.

        The first `counts[0]` of `rows` each lose `needs[0]`, and so on.
        """
        where = np.array(rows, dtype=np.intp)
        for column, amounts in enumerate(np.array(needs, dtype=np.int64).T):
            np.subtract.at(self.idle[:, column], where, np.repeat(amounts, counts))
        self.free = self.idle.copy(order="K")

    def make_roomy(self) -> None:
        """Materialise the nodes with free resources: they are needed next."""
        roomy = (self.idle[:, _GPUS] > 0) | ((self.total[:, _GPUS] == 0) & (self.idle[:, 0] > 0))
        self.at(np.flatnonzero(roomy).tolist())

    @overload
    def __getitem__(self, index: int) -> Node: ...

    @overload
    def __getitem__(self, index: slice) -> list[Node]: ...

    def __getitem__(self, index: int | slice) -> Node | list[Node]:
        node = self._made[index]
        if node.__class__ is Node:
            return node
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        return self._make(index)

    def at(self, rows: Sequence[int]) -> list[Node]:
        """Return the nodes of these rows."""
        made = self._made
        return [made[row] or self._make(row) for row in rows]

    def _make(self, row: int) -> Node:
        row %= len(self._made)
        node = self._made[row] = Node(self.specs[row], row, self._log)
        idle = node.idle
        idle.cpu, idle.memory, idle.gpu, idle.pods = self.idle[row].tolist()
        return node

    def __len__(self) -> int:
        return len(self._made)

    def __iter__(self) -> Iterator[Node]:
        for row, node in enumerate(self._made):
            yield self._make(row) if node is None else node


class SomeNodes(Sequence[Node]):
    """Some of the nodes, by name: their rows, and the nodes themselves when they are read."""

    def __init__(self, nodes: NodeList, rows: Set[int]) -> None:
        self.rows = rows
        self._nodes = nodes

    @cached_property
    def _made(self) -> list[Node]:
        return self._nodes.at(sorted(self.rows))

    @overload
    def __getitem__(self, index: int) -> Node: ...

    @overload
    def __getitem__(self, index: slice) -> list[Node]: ...

    def __getitem__(self, index: int | slice) -> Node | list[Node]:
        return self._made[index]

    def __len__(self) -> int:
        return len(self.rows)


class NodesByName(Mapping[str, Node]):
    """The same nodes, by name."""

    def __init__(self, nodes: NodeList) -> None:
        self.in_order = nodes
        self.rows: dict[str, int] = {spec.name: row for row, spec in enumerate(nodes.specs)}

    def __getitem__(self, name: str) -> Node:
        return self.in_order[self.rows[name]]

    def __contains__(self, name: object) -> bool:
        return name in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def values(self) -> ValuesView[Node]:
        """Return the nodes by name, without a look-up for each."""
        return _InOrder(self)


class _InOrder(ValuesView[Node]):
    _mapping: NodesByName

    def __iter__(self) -> Iterator[Node]:
        nodes = self._mapping.in_order
        return iter(nodes.at(range(len(nodes))))
