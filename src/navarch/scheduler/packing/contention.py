"""Machines that some pods depend on and others only happen to fit: what using them costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from navarch.scheduler.packing.stage import Flags, Numbers
from navarch.scheduler.packing.trace import Shape

PRICE: Final = 0.2
"""What a thousandth of a GPU costs on machines that pods with no other choice will want all of.
Enough to send others elsewhere while there is an elsewhere, not enough to waste much for it."""


class Contention:
    """Prices for kinds of machines, by the demand that can go nowhere else."""

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
        """Take note that so much was asked for by a pod of this shape."""
        if (group := self._group_of[shape]) is not None:
            self._confined += self._within[:, group] * amount

    def prices(self, free: Numbers, more: float) -> Numbers:
        """Return what a thousandth of a GPU costs on each kind of machine.

        `free` is what is left on each, `more` how many times what was counted is still expected.
        The price rises with the square of the part of a group that will be wanted, so that machines
        nobody depends on go first, and the most wanted last.
        """
        if not len(self._confined):
            return np.zeros(len(free))
        wanted = np.minimum(self._confined * more / np.maximum(self._members @ free, 1), 1)
        prices: Numbers = (self._members * (PRICE * wanted**2)[:, None]).max(axis=0)
        return prices
