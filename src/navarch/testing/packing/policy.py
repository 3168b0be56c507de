"""The placement policy protocol, and the table of scores that a run keeps current."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from navarch.scheduler.packing.shape import Numbers, Shape
from navarch.testing.packing.problem import FreeCapacity, PackingProblem

NOWHERE: Final = -np.inf
"""The score of a node that has no room for the pod."""


class Policy(Protocol):
    """Scores nodes for pods; the highest score wins, ties go to the node listed first."""

    def score(self, node: int) -> Numbers:
        """Return one number per shape: how good it would be to place such a pod on the node.

        The result may depend only on that node's free capacity; it is cached until that changes.
        """
        ...

    def device(self, shape: int, node: int) -> int:
        """Return the GPU of the node for a pod that shares one."""
        ...

    def arrived(self, shape: int) -> bool:
        """Record a pod before it is placed; return True if all scores have changed."""
        ...

    def adjust(self, shape: int, scores: Numbers) -> Numbers:
        """Return the scores of all nodes for this pod, with the parts that change per pod."""
        ...

    def placed(self, shape: int, node: int) -> None:
        """Record that a pod was placed on the node."""
        ...


class ScoringPolicy:
    """A base class with defaults for all methods except `score`."""

    def __init__(
        self, problem: PackingProblem, free: FreeCapacity, pods: list[int], seed: int
    ) -> None:
        self.problem = problem
        self.free = free
        self.pods = pods
        """The pod list that arrivals are drawn from, for policies that need a history."""
        self.seed = seed

    def device(self, shape: int, node: int) -> int:
        """Return the fullest GPU with room."""
        needed = self.problem.shapes[shape]
        return fullest_with_room(needed, self.free.gpus[node])

    def arrived(self, shape: int) -> bool:
        """Record nothing."""
        del shape
        return False

    def adjust(self, shape: int, scores: Numbers) -> Numbers:
        """Return the scores unchanged."""
        del shape
        return scores

    def placed(self, shape: int, node: int) -> None:
        """Record nothing."""


def fullest_with_room(shape: Shape, left: list[int]) -> int:
    """Return the GPU with the least left that still holds the shape; the first one wins ties."""
    fitting = [index for index, milli in enumerate(left) if milli >= shape.gpu_milli]
    return min(fitting, key=left.__getitem__)


class ScoreTable:
    """The scores of every node for every shape.

    A pod changes one node, so only its column is computed again; nodes in the same state share
    one computation.
    """

    def __init__(self, free: FreeCapacity, policy: Policy) -> None:
        self._free = free
        self._policy = policy
        self._scores = np.empty((len(free.problem.shapes), len(free.problem.machines)))
        self._full_for: set[int] = set()
        """Shapes that fit nowhere. Nothing is ever released, so they never fit again."""
        self.rebuild()

    def rebuild(self) -> None:
        """Compute the scores of all nodes."""
        known: dict[tuple[int, ...], int] = {}
        columns: list[Numbers] = []
        column_of: list[int] = []
        for node in range(len(self._free.problem.machines)):
            number = known.setdefault(self._free.state(node), len(columns))
            if number == len(columns):
                columns.append(self._column(node))
            column_of.append(number)
        self._scores[:] = np.array(columns).take(column_of, axis=0).T

    def refresh(self, node: int) -> None:
        """Compute the scores of one node."""
        self._scores[:, node] = self._column(node)

    def best(self, shape: int) -> int | None:
        """Return the node for a pod of this shape, or None if no node has room."""
        if shape in self._full_for:
            return None
        scores = self._policy.adjust(shape, self._scores[shape])
        node = int(scores.argmax())
        if scores[node] == NOWHERE:
            self._full_for.add(shape)
            return None
        return node

    def _column(self, node: int) -> Numbers:
        return np.where(self._free.fits(node), self._policy.score(node), NOWHERE)
