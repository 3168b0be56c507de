"""Budgets: what a pool, a team or the whole fleet may spend in a month."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum


class BudgetOf(StrEnum):
    """Whose spending a budget holds."""

    FLEET = "fleet"
    TEAM = "team"
    POOL = "pool"


class OverBudget(StrEnum):
    """What happens when a budget is spent. What runs is never stopped by it."""

    WARN = "warn"
    """People are told; machines are bought as before."""
    DOWNGRADE = "downgrade"
    """Only spot machines are bought, or where a pool has none, the cheapest it lists."""
    REFUSE = "refuse"
    """Nothing is bought, except in place of a machine that broke and cost as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A limit for one calendar month, in UTC, in the currency of the prices."""

    of: BudgetOf
    name: str = ""
    """The pool or the team; nothing for the whole fleet."""
    limit_per_month: Decimal
    when_spent: OverBudget = OverBudget.WARN
    warn_at: float = 0.8
    """The share of the limit from which people are told."""

    def __post_init__(self) -> None:
        assert self.limit_per_month > 0, self
        assert 0 < self.warn_at <= 1, self

    def __str__(self) -> str:
        return str(self.of) if self.of is BudgetOf.FLEET else f"{self.of}/{self.name}"
