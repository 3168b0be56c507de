"""GPU packing: shared GPUs first, then free GPUs of used nodes, then free nodes."""

import numpy as np

from navarch.scheduler.packing.policy import ScoringPolicy
from navarch.scheduler.packing.stage import Numbers
from navarch.scheduler.packing.trace import WHOLE

LEAST = {"shared": 50, "used node": 33}
"""Each way of placing a pod has a band of scores to itself, above those that open more."""


class GpuPacking(ScoringPolicy):
    """Opens as little as possible."""

    def score(self, node: int) -> Numbers:
        """Return a score of the band that fits what the pod would open."""
        left = self.books.gpus[node]
        whole = left.count(WHOLE)
        if whole == len(left):
            opened: Numbers = np.full(len(self.stage.shapes), float(max(33 - whole, whole)))
        else:
            opened = np.maximum(LEAST["used node"], 50.0 - self.stage.gpus)
            for milli in sorted({milli for milli in left if 0 < milli < WHOLE}, reverse=True):
                shared = max(LEAST["shared"], 100 - milli * 100 // WHOLE // 10)
                opened[(self.stage.milli <= milli) & (self.stage.gpus == 1)] = shared
        opened[self.stage.gpus == 0] = 0
        return opened
