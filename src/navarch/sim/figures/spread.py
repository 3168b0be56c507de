"""Spreads: how long something took, over many times."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Seconds: half of them within `p50_s`, nearly all within `p95_s`; None for none at all."""

    count: int = 0
    p50_s: float | None = None
    p95_s: float | None = None
    max_s: float | None = None


def spread_of(seconds: Iterable[float]) -> Spread:
    """Return how `seconds` are spread, by nearest rank."""
    known = sorted(seconds)
    if not known:
        return Spread()
    return Spread(
        count=len(known), p50_s=_rank(known, 0.5), p95_s=_rank(known, 0.95), max_s=known[-1]
    )


def _rank(known: list[float], share: float) -> float:
    return round(known[max(math.ceil(share * len(known)) - 1, 0)], 6)
