"""Dot product: the node whose free resources are least like what the pod asks for."""

import numpy as np

from navarch.scheduler.packing.policies.published import LARGEST_CPU, LARGEST_GPU
from navarch.scheduler.packing.policy import ScoringPolicy
from navarch.scheduler.packing.stage import Numbers


class DotProduct(ScoringPolicy):
    """Prefers a small product of what is free and what is asked for, CPU and GPUs alike."""

    def score(self, node: int) -> Numbers:
        """Return 100 for a product of nothing, less for more."""
        cpu = self.books.cpu[node] / LARGEST_CPU * self.stage.cpu / LARGEST_CPU
        gpu = sum(self.books.gpus[node]) / LARGEST_GPU * self.stage.demand / LARGEST_GPU
        return np.floor(100 * (1 - (cpu + gpu) / 2))
