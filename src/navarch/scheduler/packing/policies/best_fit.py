"""Best fit: the node on which least is left afterwards."""

import numpy as np

from navarch.scheduler.packing.policies.published import LARGEST_CPU, LARGEST_GPU
from navarch.scheduler.packing.policy import ScoringPolicy
from navarch.scheduler.packing.stage import Numbers


class BestFit(ScoringPolicy):
    """Counts CPU and GPUs that would be left, each as a part of the largest machine's."""

    def score(self, node: int) -> Numbers:
        """Return 100 for a node that would be full, less for what would be left."""
        cpu = (self.books.cpu[node] - self.stage.cpu) / LARGEST_CPU
        gpu = (sum(self.books.gpus[node]) - self.stage.demand) / LARGEST_GPU
        return np.floor(100 * (1 - (cpu * 0.5 + gpu * 0.5)))
