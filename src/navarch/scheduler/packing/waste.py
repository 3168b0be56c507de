"""What of a GPU will probably never be used, given what is left of it."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from navarch.scheduler.packing.cutting import worth_of_rest
from navarch.scheduler.packing.stage import Numbers
from navarch.scheduler.packing.trace import WHOLE

OFFERS: Final = 50
"""How many pods a GPU is thought to be offered before the cluster is full. With few, a GPU that
only rare pods can fill looks as good as one that common pods fill; with no end of them, rare small
pods fill everything. From 20 to 80 it makes little difference."""

UNTOUCHED: Final = 5.0
"""How much less waste is expected of a GPU that nobody uses, so that what is as well off on another
does not open it: else GPUs that wait for a match are so many that unused ones run out early."""


def expected_waste(asked: Mapping[int, float], offers: int = OFFERS) -> Numbers:
    """Return, for 0 to 1000 thousandths left, how many of them are expected to stay unused.

    `asked` says how often pods ask for so many thousandths of a GPU. Pods can be chosen for what is
    left, but not waited for without end: the truth is taken to lie half-way between what the best
    plan wastes and what is wasted by chance.
    """
    if not sum(asked.values()):
        return np.arange(WHOLE + 1, dtype=np.float64)
    planned = np.arange(WHOLE + 1) - WHOLE * worth_of_rest(asked)
    waste: Numbers = (planned + waste_by_chance(asked, offers)) / 2
    waste[WHOLE] -= UNTOUCHED
    return waste


def waste_by_chance(asked: Mapping[int, float], offers: int) -> Numbers:
    """Return what stays unused if pods are offered in any order, and each is taken if it fits."""
    # All sizes are multiples of a unit, so that what is left beyond a multiple of it is no use.
    unit = math.gcd(WHOLE, *asked)
    units = np.arange(WHOLE // unit + 1)
    sizes = np.array(list(asked), dtype=np.int64)[:, None] // unit
    chances = np.array(list(asked.values()), dtype=np.float64) / sum(asked.values())
    # [size, units left]: how many are left after a pod of the size was offered.
    after = np.where(sizes <= units, units - sizes, units)
    waste = (units * unit).astype(np.float64)
    for _ in range(offers):
        waste = chances @ waste.take(after)
    left = np.arange(WHOLE + 1)
    each: Numbers = waste[left // unit] + left % unit
    return each
