"""What the rest of a GPU is worth if pods are matched as well as they can be.

To cut pods of known sizes from as few GPUs as possible is the cutting stock problem, and its answer
comes with a price for each size: the part of a GPU that one more such pod takes up in the end, what
is wasted beside it included. Of 810 and nothing smaller than 230 that is a whole GPU; of 470, when
two of them share one, a half. What is left of a GPU is then worth the best that fits in it.

The prices are found by generating combinations (Gilmore and Gomory, 1961): begin with GPUs that
hold one size each, and let in the combination that is worth most by the prices so far, until none
is worth more than the GPU it takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from navarch.scheduler.packing.arrivals import Ids
from navarch.scheduler.packing.stage import Numbers
from navarch.scheduler.packing.trace import WHOLE

MOST_SIZES: Final = 40
"""Only so many sizes have a price, those that most is asked for in: what it takes to find them
grows with the third power."""

MOST_STEPS: Final = 200
"""More combinations than are ever needed in practice. Prices are of use after any number."""

NEARLY: Final = 1e-7
"""Differences this small come from rounding."""


def worth_of_rest(asked: Mapping[int, float]) -> Numbers:
    """Return, for 0 to 1000 thousandths left, what part of a GPU pods to come can make of them.

    `asked` says how often pods ask for so many thousandths of a GPU.
    """
    shared = {milli: count for milli, count in asked.items() if milli < WHOLE}
    if not shared:
        only_whole: Numbers = np.floor(np.arange(WHOLE + 1) / WHOLE)
        return only_whole
    most = sorted(shared, key=lambda milli: (-milli * shared[milli], milli))[:MOST_SIZES]
    # All sizes are multiples of a unit, ten thousandths as a rule: rests are counted in it.
    unit = math.gcd(WHOLE, *most)
    sizes = np.array(sorted(most), dtype=np.int64)
    counts = np.array([shared[milli] for milli in sizes.tolist()], dtype=np.float64)
    worth = _worth(sizes // unit, counts, WHOLE // unit)
    each: Numbers = (worth / worth[-1])[np.arange(WHOLE + 1) // unit]
    return each


def _worth(sizes: Ids, counts: Numbers, whole: int) -> Numbers:
    """Return what each number of units is worth by the prices that serve all with fewest GPUs."""
    combinations = np.diag((whole // sizes).astype(np.float64))
    worth = np.zeros(whole + 1)
    for _ in range(MOST_STEPS):
        inverse = np.linalg.inv(combinations)
        prices = inverse.sum(axis=0)
        prices[prices < NEARLY] = 0
        worth = _best(sizes, prices, whole)
        if worth[-1] <= 1 + NEARLY:
            break
        better = _combination(sizes, prices, worth)
        # It takes the place of the one that is first no longer needed as more is cut this way.
        used, replaced = np.maximum(inverse @ counts, 0), inverse @ better
        lasts = np.divide(used, replaced, out=np.full(len(sizes), np.inf), where=replaced > NEARLY)
        combinations[:, lasts.argmin()] = better
    return worth


def _best(sizes: Ids, prices: Numbers, whole: int) -> Numbers:
    """Return the worth of the best combination that fits into each number of units."""
    worth = np.zeros(whole + 1)
    for size, price in zip(sizes.tolist(), prices.tolist(), strict=True):
        # One more, then two more, then four: as many as fit, in a few steps.
        more = 1
        while price and (taken := more * size) <= whole:
            np.maximum(worth[taken:], worth[:-taken] + more * price, out=worth[taken:])
            more *= 2
    return worth


def _combination(sizes: Ids, prices: Numbers, worth: Numbers) -> Numbers:
    """Return how many of each size make up the best combination on a whole GPU."""
    held, left = np.zeros(len(sizes)), len(worth) - 1
    while worth[left] > NEARLY:
        # A size that is worth nothing would only be used up where another has room for it.
        fits = (sizes <= left) & (prices > 0)
        then = np.where(fits, worth[left - sizes] + prices, 0)
        size = int(then.argmax())
        held[size] += 1
        left -= int(sizes[size])
    return held
