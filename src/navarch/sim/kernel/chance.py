"""Random draws in the shapes that scenarios need."""

import math
from collections.abc import Mapping, MutableSequence, Sequence
from fractions import Fraction
from typing import TypeVar

from navarch.ports.clock import Entropy

T = TypeVar("T")


class Chance:
    """Draws from one source, so that a seed repeats every draw."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""
        return self._entropy.uniform(low, high)

    def strikes(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self._entropy.uniform(0, 1) < probability

    def below(self, bound: int) -> int:
        """Return a whole number from 0 up to, but not including, `bound`."""
        return min(int(self._entropy.uniform(0, bound)), bound - 1)

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[self.below(len(items))]

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Shuffle the items in place."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """Return a sample of the items, without repetition."""
        left = list(items)
        self.shuffle(left)
        return left[:count]

    def normal(self, mean: float, deviation: float) -> float:
        """Return a draw from a normal distribution."""
        radius = math.sqrt(-2 * math.log(1 - self._entropy.uniform(0, 1)))
        return mean + deviation * radius * math.cos(math.tau * self._entropy.uniform(0, 1))

    def deck(self, count: int, weights: Mapping[T, float]) -> list[T]:
        """Return `count` draws in any order, in which the weights hold exactly."""
        cards = [name for name, many in proportions(count, weights).items() for _ in range(many)]
        self.shuffle(cards)
        return cards


def exact(number: float) -> Fraction:
    """Return the decimal value of a number as written, without binary rounding."""
    return Fraction(repr(number))


def proportions(count: int, weights: Mapping[T, float]) -> dict[T, int]:
    """Return the share of `count` for each name, by largest remainder.

    Each share is within one of its exact value, and the shares add up to `count`.
    """
    total = sum((exact(weight) for weight in weights.values()), Fraction(0))
    assert total > 0, weights
    shares = {name: exact(weight) * count / total for name, weight in weights.items()}
    found = {name: math.floor(share) for name, share in shares.items()}
    order = {name: place for place, name in enumerate(weights)}
    by_remainder = sorted(shares, key=lambda name: (found[name] - shares[name], order[name]))
    for name in by_remainder[: count - sum(found.values())]:
        found[name] += 1
    return found
