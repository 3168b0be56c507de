"""Deterministic time, randomness and threads."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping, MutableSequence, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

from navarch.ports.clock import Entropy
from navarch.sim.kernel.loop import EPOCH, SimLoop, SleepFuture

T = TypeVar("T")


class SimClock:
    """Wall time derived from the loop's virtual time."""

    def now(self) -> datetime:
        """Return virtual wall time."""
        return EPOCH + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return virtual seconds."""
        return asyncio.get_running_loop().time()

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Let virtual time pass."""
        loop = asyncio.get_running_loop()
        if seconds <= 0 or not isinstance(loop, SimLoop):
            return asyncio.sleep(max(seconds, 0.0))
        return SleepFuture(loop, loop.now_s + seconds)


class SeededEntropy:
    """Randomness that repeats with its seed."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    @cached_property
    def _random(self) -> random.Random:
        # Seeding takes longer than many draws, and most machines never draw a number.
        return random.Random(self._seed)

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""
        return low + (high - low) * self._random.random()

    def new_id(self, kind: str) -> str:
        """Return `kind` and 48 random bits."""
        return f"{kind}-{self._random.getrandbits(48):012x}"

    def secret(self) -> bytes:
        """Return 32 bytes that depend on the seed only."""
        return self._random.randbytes(32)


class InlineOffload:
    """Runs blocking calls inline: they take no virtual time."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what `call` returns."""
        return call()


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
