"""Money: the exact cost of a machine, and monthly budgets, in the currency of the prices."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

_MICROSECONDS_PER_HOUR = Decimal(3_600_000_000)


def cost(price_per_hour: Decimal, start: datetime, end: datetime) -> Decimal:
    """Return the price of a machine from `start` to `end`, charged by the microsecond."""
    if end <= start:
        return Decimal(0)
    microseconds = (end - start) // timedelta(microseconds=1)
    return price_per_hour * microseconds / _MICROSECONDS_PER_HOUR


def month_start(now: datetime) -> datetime:
    """Return when the calendar month of `now` began."""
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


class BudgetOf(StrEnum):
    """The scope of a budget."""

    FLEET = "fleet"
    TEAM = "team"
    POOL = "pool"


class OverBudget(StrEnum):
    """The effect of a spent budget. It never stops a running machine."""

    WARN = "warn"
    """Operators are notified; machines are bought as before."""
    DOWNGRADE = "downgrade"
    """Only spot machines are bought, or the cheapest offering of a pool without spot offerings."""
    REFUSE = "refuse"
    """Nothing is bought, except to replace a broken machine at the same price or less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit for one calendar month, in UTC, in the currency of the prices."""

    of: BudgetOf
    name: str = ""
    """The pool or the team; empty for the whole fleet."""
    limit_per_month: Decimal
    when_spent: OverBudget = OverBudget.WARN
    warn_at: float = 0.8
    """The share of the limit at which operators are notified."""

    def __post_init__(self) -> None:
        assert self.limit_per_month > 0, self
        assert 0 < self.warn_at <= 1, self

    def __str__(self) -> str:
        return str(self.of) if self.of is BudgetOf.FLEET else f"{self.of}/{self.name}"
