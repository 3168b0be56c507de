"""Stragglers: GPUs that are slower than their peers in the same job for several windows."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

STRAGGLER = "straggler"
"""The check that the control plane runs on GPUs of the same job."""

PEERS_MIN = 4
"""Fewer peers do not show which one is the outlier."""

DEVIATIONS_MIN = 4.0
SHORTFALL_MIN = 0.05
"""A straggler is this many deviations below the median, and 5 % below it: where all peers are
nearly equal, any difference is many deviations."""

ODD_SHARE_MAX = 0.2
"""If more than this share of the peers is slow, they do different work, such as the first stage of
a pipeline. A single outlier always counts."""

CONFIRMATIONS = 4
MISSES_MAX = 1
"""A straggler is slow in this many windows, with at most this many misses in a row."""

MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A GPU that slows its peers down."""

    name: str
    value: float
    typical: float
    windows: int

    @property
    def shortfall(self) -> float:
        """The share of the typical value that is missing."""
        return 1 - self.value / self.typical if self.typical else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStreak:
    """The number of recent windows in which a GPU was slow."""

    windows: int = 0
    misses: int = 0


def find_slow(values: Mapping[str, float]) -> dict[str, float]:
    """Return the peers that are slow in one window, each with the typical value.

    Median and median deviation are used, since a straggler drags the mean down.
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
    """Return the streaks after one more window, and the stragglers found."""
    slow = find_slow(values)
    after: dict[str, SlowStreak] = {}
    found: list[Straggler] = []
    for name in {**before, **slow}:
        if name not in values:
            continue  # It left the job.
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
