"""Schedules: hours of the week with their own bounds."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
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
        if self.start < self.end:
            return self.start <= local.hour < self.end and self._begins_on(local)
        if local.hour >= self.start:
            return self._begins_on(local)
        return local.hour < self.end and self._begins_on(local - timedelta(days=1))

    def _begins_on(self, local: datetime) -> bool:
        return not self.days or DAYS[local.weekday()] in self.days

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
