"""GPUs that pods to come cannot use because the CPU beside them is gone."""

from typing import Final

import numpy as np

from navarch.scheduler.packing.stage import Numbers

NEEDS: Final = ((0.4, 0.2), (0.55, 0.2), (0.85, 0.3), (1.1, 0.3), (1.5, 0.1))
"""How much CPU per GPU the pods that end up on a node may need, as a part of what pods need on
average, and how much each of these cases counts. A node gets few pods, so their average is not the
average of all; a node with less CPU is not useless, and one with more not yet safe."""

_PARTS = np.array([part for part, _ in NEEDS])
_COUNTS = np.array([count for _, count in NEEDS])


class Shortage:
    """Counts thousandths of GPUs that lack CPU, when pods ask for so much CPU per GPU."""

    def __init__(self, cpu_per_gpu: float) -> None:
        self._needs = _PARTS * cpu_per_gpu
        self._column = self._needs[:, None]
        self._weights = _COUNTS / self._needs if cpu_per_gpu else np.zeros(len(NEEDS))

    def of_each(self, cpu: Numbers, gpu: Numbers) -> Numbers:
        """Return how much lacks CPU of each `gpu` thousandths beside `cpu` thousandths of cores."""
        lacking = self._column * gpu
        lacking -= cpu
        np.maximum(lacking, 0, out=lacking)
        each: Numbers = self._weights @ lacking
        return each
