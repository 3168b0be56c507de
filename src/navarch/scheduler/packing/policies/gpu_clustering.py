"""GPU clustering: pods that ask for the same number of GPUs go to the same nodes."""

import numpy as np

from navarch.scheduler.packing.books import Books
from navarch.scheduler.packing.policies.published import LARGEST_GPU
from navarch.scheduler.packing.policy import ScoringPolicy
from navarch.scheduler.packing.stage import Numbers, Stage


class GpuClustering(ScoringPolicy):
    """Prefers nodes with pods of the same kind alone, then among others, then empty nodes."""

    def __init__(self, stage: Stage, books: Books, pods: list[int], seed: int) -> None:
        super().__init__(stage, books, pods, seed)
        self._kind = [0 if shape.shares else shape.gpus or -1 for shape in stage.shapes]
        """How many GPUs a shape asks for, 0 for a part of one and -1 for none."""
        self._kinds = np.array(self._kind)
        self._on: list[set[int]] = [set() for _ in stage.machines]

    def placed(self, shape: int, node: int) -> None:
        """Remember which kinds the node has."""
        if self._kind[shape] >= 0:
            self._on[node].add(self._kind[shape])

    def score(self, node: int) -> Numbers:
        """Return a band of 25 for how alike the node's pods are, and in it how full it is."""
        there = self._on[node]
        full = 25 * (LARGEST_GPU - sum(self.books.gpus[node])) // LARGEST_GPU
        scores: Numbers = np.full(len(self._kinds), full + (0.0 if there else 25.0))
        for kind in there:
            scores[self._kinds == kind] = full + (75 if len(there) == 1 else 50)
        scores[self._kinds < 0] = 0
        return scores
