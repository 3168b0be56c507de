"""What the month will have cost when it ends."""

from datetime import datetime
from decimal import Decimal

from navarch.core.money import cost


def month_start(now: datetime) -> datetime:
    """Return when the calendar month of `now` began."""
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_end(now: datetime) -> datetime:
    """Return when the next calendar month begins."""
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return month_start(now).replace(year=year, month=month)


def forecast(spent: Decimal, per_hour: Decimal, now: datetime) -> Decimal:
    """Return what the month will cost if what runs now runs to its end, and nothing else does.

    A trend would guess better for pools that breathe, and worse after every change that an
    operator has just made; this one can be checked in the head.
    """
    return spent + cost(per_hour, now, month_end(now))
