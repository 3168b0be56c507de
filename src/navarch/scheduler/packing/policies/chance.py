"""Chance: any node that can take the pod, any GPU that has room."""

import numpy as np

from navarch.scheduler.packing.books import Books
from navarch.scheduler.packing.policy import ScoringPolicy
from navarch.scheduler.packing.stage import Numbers, Stage


class Chance(ScoringPolicy):
    """Draws from its own source, so that arrivals are those of every other policy."""

    def __init__(self, stage: Stage, books: Books, pods: list[int], seed: int) -> None:
        super().__init__(stage, books, pods, seed)
        self._chance = np.random.default_rng([seed, len(pods), len(stage.machines)])

    def score(self, node: int) -> Numbers:
        """Return the same for every node."""
        del node
        return np.zeros(len(self.stage.shapes))

    def weigh(self, shape: int, scores: Numbers) -> Numbers:
        """Return a draw for every node; those that cannot take the pod stay out."""
        del shape
        return scores + self._chance.random(len(scores))

    def device(self, shape: int, node: int) -> int:
        """Return any GPU with room."""
        needed = self.stage.shapes[shape].gpu_milli
        fitting = [index for index, left in enumerate(self.books.gpus[node]) if left >= needed]
        return fitting[int(self._chance.integers(len(fitting)))]
