"""What of a GPU will probably never be used, given what is left of it."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from navarch.scheduler.packing.stage import Numbers
from navarch.scheduler.packing.trace import WHOLE

OFFERS: Final = 50
"""How many pods a GPU is thought to be offered before the cluster is full. With few, a GPU that
only rare pods can fill looks as good as one that common pods fill; with no end of them, rare small
pods fill everything. From 20 to 80 it makes little difference."""


def expected_waste(asked: Mapping[int, float], offers: int = OFFERS) -> Numbers:
    """Return, for 0 to 1000 thousandths left, how many of them are expected to stay unused.

    `asked` says how often pods ask for so many thousandths of a GPU. Each offer is one of them,
    drawn at random; it is taken if it fits.
    """
    waste = np.arange(WHOLE + 1, dtype=np.float64)
    total = sum(asked.values())
    if not total:
        return waste
    for _ in range(offers):
        after = np.zeros(WHOLE + 1)
        for milli, count in asked.items():
            weighed = count * waste
            after[:milli] += weighed[:milli]
            after[milli:] += weighed[: WHOLE + 1 - milli]
        waste = after / total
    return waste
