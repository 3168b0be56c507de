"""The part of a GPU that is expected to stay unused, given what is left of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from navarch.scheduler.packing.cutting import worth_of_rest
from navarch.scheduler.packing.shape import WHOLE, Flags, Numbers, Shape

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


PRICE: Final = 0.2
"""The price of a thousandth of a GPU on machines that pods without an alternative are expected to
fill. It sends other pods elsewhere while there is room elsewhere, without wasting much for it."""


class Contention:
    """Prices for kinds of machines, from the demand that no other machine can serve."""

    def __init__(self, shapes: Sequence[Shape], could_use: Flags) -> None:
        groups: dict[frozenset[int], int] = {}
        self._group_of: list[int | None] = []
        for index, shape in enumerate(shapes):
            machines = frozenset(np.flatnonzero(could_use[:, index]).tolist())
            if not shape.gpus or not machines or len(machines) == len(could_use):
                self._group_of.append(None)
            else:
                self._group_of.append(groups.setdefault(machines, len(groups)))
        self._confined = np.zeros(len(groups))
        """Demand of shapes that can use no machine outside each group."""
        self._members = np.array(
            [[machine in group for machine in range(len(could_use))] for group in groups],
            dtype=np.float64,
        ).reshape(len(groups), len(could_use))
        self._within = np.array(
            [[inner <= outer for inner in groups] for outer in groups], dtype=np.float64
        ).reshape(len(groups), len(groups))

    def count(self, shape: int, amount: float) -> None:
        """Add `amount` to the demand of this shape."""
        if (group := self._group_of[shape]) is not None:
            self._confined += self._within[:, group] * amount

    def prices(self, free: Numbers, more: float) -> Numbers:
        """Return the price of a thousandth of a GPU on each kind of machine.

        `free` is the free capacity of each kind; the expected demand is `more` times the demand
        counted so far. The price rises with the square of the expected use of a group, so machines
        that no pod depends on are used first and the scarcest last.
        """
        if not len(self._confined):
            return np.zeros(len(free))
        wanted = np.minimum(self._confined * more / np.maximum(self._members @ free, 1), 1)
        prices: Numbers = (self._members * (PRICE * wanted**2)[:, None]).max(axis=0)
        return prices
