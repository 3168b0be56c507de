"""The part of a GPU that is expected to stay unused, given what is left of it."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from navarch.scheduler.packing.cutting import worth_of_rest
from navarch.scheduler.packing.shape import WHOLE, Numbers

OFFERS: Final = 50
"""How many pods a GPU is assumed to be offered before the cluster is full. With few offers, a GPU
that only rare pods can fill scores as well as one that common pods fill; with many, rare small pods
fill everything. Values from 20 to 80 make little difference."""

UNTOUCHED: Final = 5.0
"""A bonus for unused GPUs, so that a pod opens one only if it gains by that. Without it, many GPUs
wait for a matching pod and unused ones run out early."""


def expected_waste(requested: Mapping[int, float], offers: int = OFFERS) -> Numbers:
    """Return, for 0 to 1000 thousandths left, how many of them are expected to stay unused.

    `requested` maps thousandths of a GPU to the number of pods that request them. A scheduler can
    match pods to what is left, but cannot wait for the perfect match: the estimate is the mean of
    the waste of the best plan and the waste of random arrivals.
    """
    if not sum(requested.values()):
        return np.arange(WHOLE + 1, dtype=np.float64)
    planned = np.arange(WHOLE + 1) - WHOLE * worth_of_rest(requested)
    waste: Numbers = (planned + waste_by_chance(requested, offers)) / 2
    waste[WHOLE] -= UNTOUCHED
    return waste


def waste_by_chance(requested: Mapping[int, float], offers: int) -> Numbers:
    """Return what stays unused if pods arrive in random order and each is placed if it fits."""
    # All sizes are multiples of a unit, so the remainder of a division by it is unusable.
    unit = math.gcd(WHOLE, *requested)
    units = np.arange(WHOLE // unit + 1)
    sizes = np.array(list(requested), dtype=np.int64)[:, None] // unit
    chances = np.array(list(requested.values()), dtype=np.float64) / sum(requested.values())
    # [size, units left]: how many units are left after an offer of this size.
    after = np.where(sizes <= units, units - sizes, units)
    waste = (units * unit).astype(np.float64)
    for _ in range(offers):
        waste = chances @ waste.take(after)
    left = np.arange(WHOLE + 1)
    each: Numbers = waste[left // unit] + left % unit
    return each
