"""Wear: for how many days a GPU's spare memory rows will last, if it goes on like this."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from navarch.health.learning.rates import Z95

WEIGHTS = (0, 1, 2, 3, 4)
"""How many of a bank's spare rows are held to be used, by where it stands in the histogram:
full, high, partial, low, none. The driver tells no more than that."""

ADVANCES_MIN = 3
"""Wear of fewer steps says nothing about a trend."""

SPAN_MIN = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WearReading:
    """How many memory banks had how many spare rows left at one moment."""

    at: datetime
    banks: tuple[int, int, int, int, int]
    """Full, high, partial, low and none."""

    @property
    def used(self) -> int:
        """The steps that all banks together have come."""
        return sum(weight * banks for weight, banks in zip(WEIGHTS, self.banks, strict=True))

    @property
    def exhausted(self) -> bool:
        """Whether a bank is without a spare row: its next bad row cannot be replaced."""
        return self.banks[-1] > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DaysLeft:
    """When the first bank will have no spare row left, as far as can be told."""

    days: float
    low: float
    """It will hardly be sooner than this."""


def days_left(readings: Sequence[WearReading]) -> DaysLeft | None:
    """Return how long the spares last; None where nothing wears, or too little is known.

    Bad rows cluster: it is the worst bank that runs out, not the average one. So the steps that the
    worst bank has left are set against the rate at which all banks together advance, as if all
    further wear hit that one: a warning that comes too early rather than too late.
    """
    seen = sorted(readings, key=lambda reading: reading.at)
    if not seen:
        return None
    last = seen[-1]
    if last.exhausted:
        return DaysLeft(days=0.0, low=0.0)
    span = last.at - seen[0].at
    advances = last.used - seen[0].used
    if span < SPAN_MIN or advances < ADVANCES_MIN:
        return None
    worst = max(place for place, banks in enumerate(last.banks) if banks or place == 0)
    remaining = len(WEIGHTS) - 1 - worst
    days = span / timedelta(days=1)
    per_day = advances / days
    per_day_high = (sqrt(advances) + Z95 / 2) ** 2 / days
    return DaysLeft(days=remaining / per_day, low=remaining / per_day_high)
