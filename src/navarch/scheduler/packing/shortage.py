"""GPUs that future pods cannot use because the CPU beside them is used up."""

from typing import Final

import numpy as np

from navarch.scheduler.packing.shape import Numbers

NEEDS: Final = ((0.4, 0.2), (0.55, 0.2), (0.85, 0.3), (1.1, 0.3), (1.5, 0.1))
"""Cases of how much CPU per GPU the pods on one node need, relative to the average of all pods, and
the weight of each case. A node receives few pods, so their average differs from the overall one: a
node with less CPU is not useless, and one with more is not safe."""

_PARTS = np.array([part for part, _ in NEEDS])
_COUNTS = np.array([count for _, count in NEEDS])


class Shortage:
    """The GPUs without enough CPU beside them, given the CPU per GPU that pods request."""

    def __init__(self, cpu_per_gpu: float) -> None:
        self._needs = _PARTS * cpu_per_gpu
        self._column = self._needs[:, None]
        self._weights = _COUNTS / self._needs if cpu_per_gpu else np.zeros(len(NEEDS))

    def of_each(self, cpu: Numbers, gpu: Numbers) -> Numbers:
        """Return how many of `gpu` thousandths of GPUs lack CPU beside `cpu` milli-cores."""
        missing = self._column * gpu
        missing -= cpu
        np.maximum(missing, 0, out=missing)
        each: Numbers = self._weights @ missing
        return each
