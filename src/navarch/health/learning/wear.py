"""Wear: how many days a GPU's spare memory rows will last at their current rate."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt

from navarch.core.health import CheckResult, Condition, Health
from navarch.health.checks.memory import Banks
from navarch.health.learning.lemons import Z95

WEAR = "wear"
"""The check that the control plane runs on GPUs that use up their spare rows."""

LOOK_BACK = timedelta(days=90)
"""The age of the oldest reading in a trend: as far back as the journal reaches."""

WARN_DAYS = 30.0
CLEAR_DAYS = 45.0
"""A GPU is reported if its spare rows last less than a month, until they last six weeks."""

WEIGHTS = (0, 1, 2, 3, 4)
"""The spare rows that a bank has used, by its place in the histogram: full, high, partial, low,
none. The driver reports nothing finer."""

ADVANCES_MIN = 3
"""Fewer steps do not make a trend."""

SPAN_MIN = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WearReading:
    """The spare rows of a GPU's memory banks at one time."""

    at: datetime
    banks: Banks
    """Full, high, partial, low and none."""

    @property
    def used(self) -> int:
        """The steps that all banks together have used."""
        return sum(weight * banks for weight, banks in zip(WEIGHTS, self.banks, strict=True))

    @property
    def exhausted(self) -> bool:
        """Whether a bank has no spare row: its next bad row cannot be remapped."""
        return self.banks[-1] > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DaysLeft:
    """The time until the first bank has no spare row."""

    days: float
    low: float
    """The lower bound of the 95 % interval."""


def evaluate_wear(
    gpu: str,
    label: str,
    readings: Sequence[WearReading],
    before: Condition | None,
    *,
    now: datetime,
) -> CheckResult | None:
    """Return the result for a GPU's spare rows; None if it has not changed.

    `label` is the GPU's display name, `before` its current wear condition.
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
    """Return the readings for a trend: recent ones, the one before them, and now.

    The time since the last reading counts too: the GPU has not worn since.
    """
    if not readings:
        return []
    old = [reading for reading in readings if reading.at <= now - LOOK_BACK]
    young = [reading for reading in readings if reading.at > now - LOOK_BACK]
    start = [WearReading(at=now - LOOK_BACK, banks=old[-1].banks)] if old else []
    return [*start, *young, WearReading(at=now, banks=readings[-1].banks)]


def days_left(readings: Sequence[WearReading]) -> DaysLeft | None:
    """Return how long the spare rows last; None without wear, or with too few readings.

    Bad rows cluster, so the worst bank runs out first, not the average one. The estimate assumes
    that all further wear hits the worst bank: it warns too early rather than too late.
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
