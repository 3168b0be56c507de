"""Wear: for how many days a GPU's spare memory rows will last, if it goes on like this."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from navarch.core.health import CheckResult, Condition, Health
from navarch.health.checks.rows import Banks
from navarch.health.learning.rates import Z95

WEAR = "wear"
"""The check that the control plane makes of every GPU that uses up its spare rows."""

LOOK_BACK = timedelta(days=90)
"""How old a reading may be that a trend begins with: as far as the journal reaches."""

WARN_DAYS = 30.0
CLEAR_DAYS = 45.0
"""A GPU whose spares last less than a month is told of, until they last a month and a half."""

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
    banks: Banks
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


def evaluate_wear(
    gpu: str,
    label: str,
    readings: Sequence[WearReading],
    before: Condition | None,
    *,
    now: datetime,
) -> CheckResult | None:
    """Return what the control plane has to say about the spares of a GPU; None: nothing new.

    `label` is what people call the GPU, `before` what was said of it the last time.
    """
    left = days_left(recent(readings, now=now))
    limit = WARN_DAYS if before is None else CLEAR_DAYS
    if left is None or left.days > limit:
        healthy = CheckResult(check=f"{WEAR}/{gpu}", health=Health.HEALTHY, facts={"gpu": gpu})
        return None if before is None else healthy
    reason = f"{label}: spare memory rows for about {left.days:.0f} days, {left.low:.0f} at least"
    if readings[-1].exhausted:
        reason = f"{label} has a memory bank without any spare row left"
    if before is not None and before.reason.startswith(reason):
        return None
    return CheckResult(
        check=f"{WEAR}/{gpu}",
        health=Health.DEGRADED,
        reason=reason,
        facts={
            "gpu": gpu,
            "event_type": "memory",
            "days_left": f"{left.days:.1f}",
            "days_left_low": f"{left.low:.1f}",
        },
    )


def recent(readings: Sequence[WearReading], *, now: datetime) -> list[WearReading]:
    """Return the readings that a trend is made of: the lately ones, what they began from, and now.

    A GPU that has not worn since its last reading has lasted until now: that is part of its rate.
    """
    if not readings:
        return []
    old = [reading for reading in readings if reading.at <= now - LOOK_BACK]
    young = [reading for reading in readings if reading.at > now - LOOK_BACK]
    start = [WearReading(at=now - LOOK_BACK, banks=old[-1].banks)] if old else []
    return [*start, *young, WearReading(at=now, banks=readings[-1].banks)]


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
