"""Statistics of durations."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationStats:
    """The count and percentiles of durations in seconds; None if there are none."""

    count: int = 0
    p50_s: float | None = None
    p95_s: float | None = None
    max_s: float | None = None


def duration_stats(seconds: Iterable[float]) -> DurationStats:
    """Return the statistics of `seconds`, with percentiles by nearest rank."""
    known = sorted(seconds)
    if not known:
        return DurationStats()
    return DurationStats(
        count=len(known),
        p50_s=_percentile(known, 0.5),
        p95_s=_percentile(known, 0.95),
        max_s=known[-1],
    )


def _percentile(known: list[float], share: float) -> float:
    return round(known[max(math.ceil(share * len(known)) - 1, 0)], 6)
