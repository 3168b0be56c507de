"""The base class of placement policies, and the table of scores that a run keeps current."""

from __future__ import annotations

from typing import Final

import numpy as np

from bench.packing.problem import FreeCapacity, PackingProblem
from navarch.scheduler.packing.shape import Numbers

NOWHERE: Final = -np.inf
"""The score of a node that has no room for the pod."""


class Policy:
    """Scores nodes for pods; the highest score wins, ties go to the node listed first.

    A policy must define `score`; the other methods have defaults.
    """

    def __init__(
        self, problem: PackingProblem, free: FreeCapacity, pods: list[int], seed: int
    ) -> None:
        self.problem = problem
        self.free = free
        self.pods = pods
        """The pod list that arrivals are drawn from, for policies that need a history."""
        self.seed = seed

    def score(self, node: int) -> Numbers:
        """Return one number per shape: how good it would be to place such a pod on the node.

        The result may depend only on that node's free capacity; it is cached until that changes.
        """
        raise NotImplementedError

    def device(self, shape: int, node: int) -> int:
        """Return the GPU of the node for a pod that shares one: the fullest with room."""
        needed, left = self.problem.shapes[shape].gpu_milli, self.free.gpus[node]
        fitting = [index for index, milli in enumerate(left) if milli >= needed]
        return min(fitting, key=left.__getitem__)

    def arrived(self, shape: int) -> bool:
        """Record a pod before it is placed; return True if all scores have changed."""
        del shape
        return False

    def adjust(self, shape: int, scores: Numbers) -> Numbers:
        """Return the scores of all nodes for this pod, with the parts that change per pod."""
        del shape
        return scores

    def placed(self, shape: int, node: int) -> None:
        """Record that a pod was placed on the node."""


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
        known: dict[tuple[int, ...], Numbers] = {}
        for node in range(len(self._free.problem.machines)):
            state = self._free.state(node)
            if state not in known:
                known[state] = self._column(node)
            self._scores[:, node] = known[state]

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
