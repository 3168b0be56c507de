"""The `budgets` block: limits on the monthly spending of the fleet, a team or a pool."""

from collections.abc import Iterator
from decimal import Decimal

from navarch.config.kinds import MONEY, TEXT, Choice, Real
from navarch.config.schema import Fault, block, copied, key
from navarch.core.budget import Budget, BudgetOf, OverBudget


def _name_unless_fleet(of: BudgetOf, name: str | None) -> Iterator[Fault]:
    if of is BudgetOf.FLEET and name:
        yield Fault(
            "the budget of the fleet has no name",
            "leave name out, or write of: team or of: pool",
            at=("name",),
        )
    if of is not BudgetOf.FLEET and not name:
        yield Fault(
            f"name is required for the budget of a {of.value}",
            f"add name: with the name of the {of.value}",
        )


def _limit_above_zero(limit_per_month: Decimal) -> Iterator[Fault]:
    if limit_per_month <= 0:
        yield Fault(
            "limit_per_month must be above zero",
            "write the most to spend in a calendar month, such as 5000",
            at=("limit_per_month",),
        )


@block(rules=(_name_unless_fleet, _limit_above_zero))
class BudgetConfig:
    """A limit on the spending of one calendar month, in UTC and in the currency of the prices."""

    of: BudgetOf = key(Choice(options=BudgetOf), "the scope of the limit")
    name: str | None = key(
        TEXT, "the name of the pool, or of the team in the pools' label `team`", default=None
    )
    limit_per_month: Decimal = key(MONEY, "the most to spend in a calendar month")
    when_spent: OverBudget = key(
        Choice(options=OverBudget),
        "once the limit is reached: only warn, buy only spot or the cheapest, or buy nothing",
        default=OverBudget.WARN,
    )
    warn_at: float = key(
        Real(least=0.01, most=1, example="0.8"),
        "the share of the limit at which to warn",
        default=0.8,
    )


def to_budget(config: BudgetConfig) -> Budget:
    """Return a budget as the control plane stores it."""
    return copied(Budget, config, name=config.name or "")
