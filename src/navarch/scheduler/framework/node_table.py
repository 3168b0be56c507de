"""Nodes as columns, for plugins that answer about all of them in one go."""

from __future__ import annotations

from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from navarch.scheduler.model.nodes import NodeList

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from navarch.scheduler.model.cluster import NodeSpec
    from navarch.scheduler.model.node import Node, Resources
    from navarch.scheduler.model.request import Request

Column = npt.NDArray[np.float64]
Amounts = npt.NDArray[np.int64]
"""One row per node; columns are cpu, memory, gpu, pods, in the scheduler's whole units."""
Fits = npt.NDArray[np.int8]
"""One `Fit` per node."""
Rows = npt.NDArray[np.intp]

CPU_COLUMN: Final = 0
MEMORY_COLUMN: Final = 1
GPU_COLUMN: Final = 2
PODS_COLUMN: Final = 3


_gpu_count, _gpu_memory = attrgetter("gpu_count"), attrgetter("gpu_memory_mib")


class NodeTable:
    """One array per figure; row i describes `nodes[i]`. Columns are computed on first use."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._labels: dict[str, npt.NDArray[np.object_]] = {}
        self._labelled: dict[tuple[str, str], npt.NDArray[np.bool_]] = {}
        self._traits: dict[Callable[[NodeSpec], bool], list[int]] = {}

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes, as they are now."""
        return self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    @cached_property
    def specs(self) -> Sequence[NodeSpec]:
        """The nodes as the snapshot found them."""
        nodes = self.nodes
        return nodes.specs if isinstance(nodes, NodeList) else [node.spec for node in nodes]

    @cached_property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [node.name for node in self.nodes]

    @cached_property
    def idle(self) -> Amounts:
        """What can be had now."""
        return _table([amounts_of(node.idle) for node in self.nodes])

    @cached_property
    def free(self) -> Amounts:
        """What is idle, or coming free and not promised."""
        return self.idle + _table([amounts_of(node.releasing) for node in self.nodes])

    @cached_property
    def total(self) -> Amounts:
        """What there is."""
        return _table([amounts_of(node.allocatable) for node in self.nodes])

    @cached_property
    def gpu_labels(self) -> npt.NDArray[np.int64]:
        """How many GPUs the node is labelled with."""
        return np.fromiter(map(_gpu_count, self.specs), np.int64, len(self))

    @cached_property
    def gpu_memory(self) -> npt.NDArray[np.int64]:
        """How much memory each of the node's GPUs has, in MiB."""
        return np.fromiter(map(_gpu_memory, self.specs), np.int64, len(self))

    @property
    def gpu_idle(self) -> Column:
        """GPUs that are free now."""
        return self.idle[:, GPU_COLUMN] / 100

    @property
    def gpu_releasing(self) -> Column:
        """GPUs that are coming free and not promised."""
        return (self.free[:, GPU_COLUMN] - self.idle[:, GPU_COLUMN]) / 100

    @property
    def gpu_total(self) -> Column:
        """GPUs the node has."""
        return self.total[:, GPU_COLUMN] / 100

    @property
    def cpu_idle(self) -> Column:
        """Thousandths of cores that are free now."""
        return self.idle[:, CPU_COLUMN].astype(np.float64)

    @property
    def cpu_releasing(self) -> Column:
        """Thousandths of cores that will come free and are not promised."""
        return (self.free[:, CPU_COLUMN] - self.idle[:, CPU_COLUMN]).astype(np.float64)

    @property
    def cpu_total(self) -> Column:
        """Thousandths of cores the node has."""
        return self.total[:, CPU_COLUMN].astype(np.float64)

    @property
    def memory_idle(self) -> Column:
        """Bytes that are free now."""
        return self.idle[:, MEMORY_COLUMN].astype(np.float64)

    def fits_now(self, request: Request) -> npt.NDArray[np.bool_]:
        """Return for every node whether a request for whole GPUs, or none, fits on what is idle."""
        return fits(self.idle, need_of(request))

    def label(self, key: str) -> npt.NDArray[np.object_]:
        """Return every node's value of a label, nothing where it has none."""
        known = self._labels.get(key)
        if known is None:
            known = np.array([spec.labels.get(key) for spec in self.specs], dtype=object)
            self._labels[key] = known
        return known

    def labelled(self, key: str, value: str) -> npt.NDArray[np.bool_]:
        """Return for every node whether a label has a value."""
        known = self._labelled.get((key, value))
        if known is None:
            known = self._labelled[key, value] = self.label(key) == value
        return known

    def rows_of(self, trait: Callable[[NodeSpec], bool]) -> list[int]:
        """Return the rows of nodes with a trait of their spec."""
        known = self._traits.get(trait)
        if known is None:
            known = [row for row, has in enumerate(map(trait, self.specs)) if has]
            self._traits[trait] = known
        return known


def need_of(request: Request) -> tuple[int, int, int, int]:
    """Return what a request for whole GPUs, or none, takes, in the order of the columns."""
    return (request.cpu_milli, request.memory_bytes, request.gpu.whole, request.pods)


def pick(amounts: Amounts, rows: Rows) -> Amounts:
    """Return some rows of a table that is laid out column by column, as the result is."""
    picked: Amounts = amounts.T.take(rows, axis=1).T  # eight times as fast as amounts[rows]
    return picked


def fits(have: Amounts, need: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return for every row whether it has enough of everything."""
    result: npt.NDArray[np.bool_] = have[:, PODS_COLUMN] >= need[PODS_COLUMN]
    result &= have[:, GPU_COLUMN] >= need[GPU_COLUMN]
    result &= have[:, CPU_COLUMN] >= need[CPU_COLUMN]
    result &= have[:, MEMORY_COLUMN] >= need[MEMORY_COLUMN]
    return result


def amounts_of(pool: Resources) -> tuple[int, int, int, int]:
    """Return a node's amounts in the order of the columns."""
    return (pool.cpu, pool.memory, pool.gpu, pool.pods)


def _table(rows: Sequence[Any]) -> Amounts:
    return np.array(rows, dtype=np.int64).reshape(len(rows), 4)
