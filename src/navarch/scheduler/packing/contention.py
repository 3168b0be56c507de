"""The price of machines that some pods depend on and others merely fit on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from navarch.scheduler.packing.shape import Flags, Numbers, Shape

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
