"""Autoscaling: its settings, and hours of the week with bounds of their own."""

from dataclasses import dataclass, fields
from datetime import datetime, time, timedelta
from enum import StrEnum
from functools import cache
from typing import TypeAlias, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


class Day(StrEnum):
    """A day of the week."""

    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"


DAYS = tuple(Day)
T = TypeVar("T", int, time)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Hours of some days, in local time, and the bounds in them."""

    days: tuple[Day, ...] = ()
    """The days on which it begins; empty: every day."""
    start: int = 0
    """The hour at which it begins."""
    end: int = 24
    """The hour at which it ends; at or below `start`, on the next day."""
    nodes_min: int | None = None
    nodes_max: int | None = None

    def holds(self, local: datetime) -> bool:
        """Return whether `local` is within the window."""
        day = window_day(local, local.hour, self.start, self.end)
        return day is not None and (not self.days or DAYS[day.weekday()] in self.days)

    def __str__(self) -> str:
        days = ", ".join(day.value for day in self.days) or "every day"
        return f"{days} {self.start}:00 to {self.end}:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Windows of one time zone."""

    windows: tuple[Window, ...]
    time_zone: str = "UTC"

    def window_at(self, now: datetime) -> Window | None:
        """Return the first window that holds at `now`."""
        local = now.astimezone(time_zone(self.time_zone))
        return next((window for window in self.windows if window.holds(local)), None)


def window_day(local: datetime, clock: T, begin: T, end: T) -> datetime | None:
    """Return the day on which daily hours that contain `local` began; None if none contain it.

    Hours whose end is at or before their begin reach into the next day.
    """
    if begin < end:
        return local if begin <= clock < end else None
    if clock >= begin:
        return local
    return local - timedelta(days=1) if clock < end else None


def is_time_zone(name: str) -> bool:
    """Return whether a time zone of that name exists."""
    try:
        time_zone(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


@cache
def time_zone(name: str) -> ZoneInfo:
    """Return the time zone called `name`, such as `Europe/Berlin`."""
    return ZoneInfo(name)


class Mode(StrEnum):
    """The way in which several recommendations become one."""

    MAX = "max"
    MIN = "min"
    AVG = "avg"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactiveSettings:
    """Settings of the strategy that follows GPU utilisation, one node at a time."""

    scale_up_at: float = 80.0
    """In percent; the pool grows above it."""
    scale_down_at: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Settings of the strategy that follows the number of waiting and running jobs."""

    jobs_per_node: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledSettings:
    """Settings of the strategy that bounds a pool by hours; `fallback` decides within them."""

    windows: tuple[Window, ...]
    time_zone: str = "UTC"
    fallback: "Autoscaling | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictiveSettings:
    """Settings of the strategy that follows the trend and the load at this hour on earlier days."""

    lookback_window: int = 10
    """The number of samples that make a trend."""
    growth_factor: float = 1.2
    """How far to follow the trend, in lookback windows."""
    fallback: "Autoscaling | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeSettings:
    """Settings of the strategy that combines the recommendations of several others."""

    members: "tuple[Autoscaling, ...]"
    mode: Mode = Mode.MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAwareSettings:
    """Settings of the strategy that follows utilisation in peak hours and is small outside them."""

    peak_start: int = 9
    peak_end: int = 18
    """An hour at or below `peak_start` is on the next day."""
    scale_up_at: float = 80.0
    off_peak_nodes: int = 0
    time_zone: str = "UTC"


Settings: TypeAlias = (
    ReactiveSettings
    | QueueSettings
    | ScheduledSettings
    | PredictiveSettings
    | CompositeSettings
    | CostAwareSettings
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaling:
    """One strategy and its settings: exactly one of the fields is given.

    Each strategy has a field, rather than a place in a union, as in JSON and protobuf.
    """

    reactive: ReactiveSettings | None = None
    queue: QueueSettings | None = None
    scheduled: ScheduledSettings | None = None
    predictive: PredictiveSettings | None = None
    composite: CompositeSettings | None = None
    cost_aware: CostAwareSettings | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the strategies that are given."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) is not None)

    @property
    def settings(self) -> Settings:
        """The settings of the strategy."""
        given = self.given
        assert len(given) == 1, f"one strategy, not {given}"
        found: Settings = getattr(self, given[0])
        return found
