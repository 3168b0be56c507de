"""Failure rates that are met exactly."""

import math
from datetime import timedelta
from fractions import Fraction

from navarch.sim.kernel.chance import Chance, exact


def failures_within(duration: timedelta, *, rate: float, nodes: int) -> int:
    """Return how many of `nodes` fail in a period, at a rate per minute and 1000 nodes."""
    minutes = Fraction(round(duration.total_seconds() * 1_000_000), 60_000_000)
    return math.floor(exact(rate) * nodes * minutes / 1000)


def failure_moments(duration: timedelta, *, rate: float, nodes: int, chance: Chance) -> list[float]:
    """Return the times of failures in seconds: one at random in each of equal spans."""
    count = failures_within(duration, rate=rate, nodes=nodes)
    if not count:
        return []
    span = 60_000 / (rate * nodes)
    return [(number + chance.uniform(0, 1)) * span for number in range(count)]
