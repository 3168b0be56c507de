"""Schedules: hours of the week with their own bounds."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from enum import StrEnum
from functools import cache
from typing import TypeVar
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
