"""Stragglers: nodes that do less than their peers of the same job, window after window."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

STRAGGLER = "straggler"
"""The check that the control plane makes of GPUs that work together."""

PEERS_MIN = 4
"""Of fewer nobody can say who is the odd one."""

DEVIATIONS_MIN = 4.0
SHORTFALL_MIN = 0.05
"""A straggler is far from its peers by their own measure, and by a twentieth of what they do: where
all are alike to the last digit, any difference is many deviations."""

ODD_SHARE_MAX = 0.2
"""If more than this share of the peers fall behind, they do something else: the first stage of a
pipeline, say. One may always be the odd one."""

CONFIRMATIONS = 4
MISSES_MAX = 1
"""So many windows must agree, with at most so many in between that do not."""

MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """Somebody who holds the others up."""

    name: str
    value: float
    typical: float
    windows: int

    @property
    def shortfall(self) -> float:
        """By which share of what is typical it falls short."""
        return 1 - self.value / self.typical if self.typical else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStreak:
    """How often somebody has fallen behind lately."""

    windows: int = 0
    misses: int = 0


def find_slow(values: Mapping[str, float]) -> dict[str, float]:
    """Return who falls behind in one window, with what is typical of the others.

    Median and median deviation: a straggler must not hide by dragging the average down.
    """
    if len(values) < PEERS_MIN:
        return {}
    typical = median(values.values())
    spread = MAD_TO_SIGMA * median(abs(value - typical) for value in values.values())
    allowed = max(DEVIATIONS_MIN * spread, SHORTFALL_MIN * typical)
    slow = {name: typical for name, value in values.items() if typical - value > allowed}
    return slow if len(slow) <= max(1.0, ODD_SHARE_MAX * len(values)) else {}


def update_streaks(
    before: Mapping[str, SlowStreak], values: Mapping[str, float]
) -> tuple[dict[str, SlowStreak], list[Straggler]]:
    """Return what is suspected after one more window, and who is found to be a straggler."""
    slow = find_slow(values)
    after: dict[str, SlowStreak] = {}
    found: list[Straggler] = []
    for name in {**before, **slow}:
        if name not in values:
            continue  # It is no longer a part of this.
        known = before.get(name, SlowStreak())
        if name in slow:
            known = SlowStreak(windows=known.windows + 1)
        elif known.misses < MISSES_MAX:
            known = SlowStreak(windows=known.windows, misses=known.misses + 1)
        else:
            continue
        after[name] = known
        if known.windows >= CONFIRMATIONS:
            typical = slow.get(name) or median(values.values())
            found.append(
                Straggler(name=name, value=values[name], typical=typical, windows=known.windows)
            )
    return after, found
