"""Disruption: the reasons, limits and hours for replacing sound nodes."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from enum import StrEnum

from navarch.core.schedule import time_zone


class Cause(StrEnum):
    """The reason for replacing a node while its pool keeps its size."""

    UNHEALTHY = "unhealthy"
    SPOT_NOTICE = "spot_notice"
    MAINTENANCE = "maintenance"
    EXPIRED = "expired"
    DRIFTED = "drifted"
    COSTLY = "costly"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """The number of nodes of a pool that may be out of use or leaving at once, and its hours.

    The strictest of all budgets that apply counts. Nodes that broke by themselves use a budget
    up like all others, but only a budget that names `unhealthy` defers their replacement.
    """

    nodes_max: int = 1
    share_max: float = 0.1
    """A share of the pool's size; the larger of the two limits counts. Zero and zero: no node."""
    causes: tuple[Cause, ...] = ()
    """Empty: all causes but unhealthy nodes and spot notices, which are never deferred."""
    days: tuple[int, ...] = ()
    """Days of the week on which it applies, Monday is 0; empty: every day."""
    hours: str = ""
    """The hours in which it applies, as `09:00-17:30`; past midnight is allowed, and belongs to
    the day on which it begins. Empty: all day."""
    time_zone: str = "UTC"
    """The time zone of the hours and days."""

    def holds(self, cause: Cause) -> bool:
        """Return whether this budget limits disruptions for `cause`."""
        if self.causes:
            return cause in self.causes
        return cause not in (Cause.UNHEALTHY, Cause.SPOT_NOTICE)

    def applies(self, now: datetime) -> bool:
        """Return whether this budget applies at `now`."""
        local = now.astimezone(time_zone(self.time_zone))
        if not self.hours:
            return self._on(local)
        begin, end = window(self.hours)
        clock = local.time()
        if begin < end:
            return begin <= clock < end and self._on(local)
        if clock >= begin:
            return self._on(local)
        return clock < end and self._on(local - timedelta(days=1))

    def allows(self, size: int) -> int:
        """Return how many nodes of a pool of `size` may be out at once."""
        return max(self.nodes_max, int(size * self.share_max))

    def _on(self, day: datetime) -> bool:
        return not self.days or day.weekday() in self.days


def window(hours: str) -> tuple[time, time]:
    """Return the two ends of hours like `22:00-06:00`; ValueError for anything else."""
    begin, dash, end = hours.partition("-")
    if not dash:
        raise ValueError(f"{hours!r} is not like 09:00-17:30")
    return time.fromisoformat(begin.strip()), time.fromisoformat(end.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Disruption:
    """The reasons for replacing sound nodes of a pool, and the limits."""

    budgets: tuple[DisruptionBudget, ...] = ()
    """Empty: one node or a tenth of the pool at once, whichever is more, at any time."""
    lifetime_max: timedelta | None = None
    """Nodes older than this are replaced."""
    replace_drifted: bool = False
    """Whether to replace nodes of a kind or place that the pool no longer lists, and nodes that
    booted with other user data than the pool has now."""
    savings_min: float | None = None
    """Nodes are replaced when the same GPUs cost this share less elsewhere; None: only nodes that
    a pool bought on demand because the spot machines at the top of its list were sold out."""
    empty_after: timedelta | None = None
    """Nodes that were idle for so long are terminated, down to the pool's minimum, in pools
    without an autoscaler; None: never."""
