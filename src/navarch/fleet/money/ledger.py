"""The ledger: cost of the machines of each pool, team or provider, and the forecast."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from navarch.core.budget import cost
from navarch.core.launch import Launch

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The cost of one group of machines in a window of time."""

    machines: int = 0
    """How many ran at some time in the window."""
    running: int = 0
    """How many still run."""
    machine_time: timedelta = timedelta(0)
    spent: Decimal = ZERO
    per_hour: Decimal = ZERO
    """The hourly price of those that run."""

    def __add__(self, other: "Account") -> "Account":
        return Account(
            machines=self.machines + other.machines,
            running=self.running + other.running,
            machine_time=self.machine_time + other.machine_time,
            spent=self.spent + other.spent,
            per_hour=self.per_hour + other.per_hour,
        )


def account(launch: Launch, *, since: datetime | None, until: datetime) -> Account | None:
    """Return the cost of one machine in a window; None if it did not run in it."""
    if launch.launched_at is None:
        return None
    start = launch.launched_at if since is None else max(launch.launched_at, since)
    end = until if launch.ended_at is None else min(launch.ended_at, until)
    if end < start:
        return None
    running = launch.ended_at is None
    return Account(
        machines=1,
        running=int(running),
        machine_time=end - start,
        spent=cost(launch.price_per_hour, start, end),
        per_hour=launch.price_per_hour if running else ZERO,
    )


def month_start(now: datetime) -> datetime:
    """Return when the calendar month of `now` began."""
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_end(now: datetime) -> datetime:
    """Return when the next calendar month begins."""
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return month_start(now).replace(year=year, month=month)


def forecast(spent: Decimal, per_hour: Decimal, now: datetime) -> Decimal:
    """Return the cost of the month if exactly what runs now runs to its end.

    A trend would be better for pools that vary, and worse after every change by an operator; this
    forecast can be checked by hand.
    """
    return spent + cost(per_hour, now, month_end(now))
