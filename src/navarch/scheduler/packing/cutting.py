"""The value of the rest of a GPU under the best possible matching of pods.

Cutting pods of known sizes from as few GPUs as possible is the cutting stock problem. Its solution
includes a price for each size: the part of a GPU that one more such pod uses, with the waste beside
it. A pod of 810 with nothing smaller than 230 costs a whole GPU; a pod of 470, two of which share
a GPU, costs half of one. The rest of a GPU is worth the most valuable combination that fits in it.

The prices are computed by column generation (Gilmore and Gomory, 1961): start with GPUs that hold
one size each, and add the combination with the highest value at the current prices, until none is
worth more than the GPU it uses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from navarch.scheduler.packing.shape import WHOLE, Ids, Numbers

SIZES_MAX: Final = 40
"""The number of sizes with a price, those with the highest demand first. The computation grows with
the third power of this number."""

STEPS_MAX: Final = 200
"""A bound on the number of combinations, above what practice needs. Any number gives usable
prices."""

TOLERANCE: Final = 1e-7
"""Smaller differences are rounding errors."""


def worth_of_rest(requested: Mapping[int, float]) -> Numbers:
    """Return, for 0 to 1000 thousandths left, the part of a GPU that future pods can use of them.

    `requested` maps thousandths of a GPU to the number of pods that request them.
    """
    shared = {milli: count for milli, count in requested.items() if milli < WHOLE}
    if not shared:
        only_whole: Numbers = np.floor(np.arange(WHOLE + 1) / WHOLE)
        return only_whole
    most = sorted(shared, key=lambda milli: (-milli * shared[milli], milli))[:SIZES_MAX]
    # All sizes are multiples of a unit, usually ten thousandths.
    unit = math.gcd(WHOLE, *most)
    sizes = np.array(sorted(most), dtype=np.int64)
    counts = np.array([shared[milli] for milli in sizes.tolist()], dtype=np.float64)
    worth = _worth(sizes // unit, counts, WHOLE // unit)
    each: Numbers = (worth / worth[-1])[np.arange(WHOLE + 1) // unit]
    return each


def _worth(sizes: Ids, counts: Numbers, whole: int) -> Numbers:
    """Return the value of each number of units at the prices of the best plan."""
    combinations = np.diag((whole // sizes).astype(np.float64))
    worth = np.zeros(whole + 1)
    for _ in range(STEPS_MAX):
        inverse = np.linalg.inv(combinations)
        prices = inverse.sum(axis=0)
        prices[prices < TOLERANCE] = 0
        worth = _best(sizes, prices, whole)
        if worth[-1] <= 1 + TOLERANCE:
            break
        better = _combination(sizes, prices, worth)
        # It replaces the combination that is used up first as more is cut this way.
        used, replaced = np.maximum(inverse @ counts, 0), inverse @ better
        lasts = np.divide(
            used, replaced, out=np.full(len(sizes), np.inf), where=replaced > TOLERANCE
        )
        combinations[:, lasts.argmin()] = better
    return worth


def _best(sizes: Ids, prices: Numbers, whole: int) -> Numbers:
    """Return the value of the best combination that fits into each number of units."""
    worth = np.zeros(whole + 1)
    for size, price in zip(sizes.tolist(), prices.tolist(), strict=True):
        # Add one, then two, then four: as many as fit, in a few steps.
        more = 1
        while price and (taken := more * size) <= whole:
            np.maximum(worth[taken:], worth[:-taken] + more * price, out=worth[taken:])
            more *= 2
    return worth


def _combination(sizes: Ids, prices: Numbers, worth: Numbers) -> Numbers:
    """Return how many of each size make up the best combination on a whole GPU."""
    held, left = np.zeros(len(sizes)), len(worth) - 1
    while worth[left] > TOLERANCE:
        # A size with a price of 0 adds nothing to a combination.
        fits = (sizes <= left) & (prices > 0)
        then = np.where(fits, worth[left - sizes] + prices, 0)
        size = int(then.argmax())
        held[size] += 1
        left -= int(sizes[size])
    return held
