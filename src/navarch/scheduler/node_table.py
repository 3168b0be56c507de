"""Nodes as columns, for plugins that score all of them in one go."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from navarch.scheduler.state.node import Node

Column = npt.NDArray[np.float64]


class NodeTable:
    """One array per figure, row i about `nodes[i]`. Columns are made when first looked at."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def names(self) -> list[str]:
        """The nodes' names."""
        return [node.name for node in self.nodes]

    @cached_property
    def gpu_idle(self) -> Column:
        """GPUs that are free now."""
        return self._column([node.idle.gpu / 100 for node in self.nodes])

    @cached_property
    def gpu_releasing(self) -> Column:
        """GPUs that will come free and are not promised to anybody."""
        return self._column([node.releasing.gpu / 100 for node in self.nodes])

    @cached_property
    def gpu_total(self) -> Column:
        """GPUs the node has."""
        return self._column([node.allocatable.gpu / 100 for node in self.nodes])

    @cached_property
    def cpu_idle(self) -> Column:
        """Thousandths of cores that are free now."""
        return self._column([node.idle.cpu for node in self.nodes])

    @cached_property
    def cpu_releasing(self) -> Column:
        """Thousandths of cores that will come free and are not promised."""
        return self._column([node.releasing.cpu for node in self.nodes])

    @cached_property
    def cpu_total(self) -> Column:
        """Thousandths of cores the node has."""
        return self._column([node.allocatable.cpu for node in self.nodes])

    @cached_property
    def memory_idle(self) -> Column:
        """Bytes that are free now."""
        return self._column([node.idle.memory for node in self.nodes])

    def label(self, key: str) -> "npt.NDArray[np.object_]":
        """Return every node's value of a label, nothing where it has none."""
        return np.array([node.labels.get(key) for node in self.nodes], dtype=object)

    @staticmethod
    def _column(values: Sequence[Any]) -> Column:
        return np.array(values, dtype=np.float64)
