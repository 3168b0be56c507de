"""The `budgets` block: limits on the monthly spending of the fleet, a team or a pool."""

from collections.abc import Iterator
from decimal import Decimal

from navarch.config.kinds import MONEY, TEXT, Choice, Real
from navarch.config.schema import Fault, block, key
from navarch.core.budget import Budget, BudgetOf, OverBudget


def _name_unless_fleet(of: BudgetOf, name: str | None) -> Iterator[Fault]:
    if of is BudgetOf.FLEET and name:
        yield Fault(
            at=("name",),
            message="the budget of the fleet has no name",
            remedy="leave name out, or write of: team or of: pool",
        )
    if of is not BudgetOf.FLEET and not name:
        yield Fault(
            message=f"name is required for the budget of a {of.value}",
            remedy=f"add name: with the name of the {of.value}",
        )


def _limit_above_zero(limit_per_month: Decimal) -> Iterator[Fault]:
    if limit_per_month <= 0:
        yield Fault(
            at=("limit_per_month",),
            message="limit_per_month must be above zero",
            remedy="write the most to spend in a calendar month, such as 5000",
        )


@block(rules=(_name_unless_fleet, _limit_above_zero))
class BudgetConfig:
    """A limit on the spending of one calendar month, in UTC and in the currency of the prices."""

    of: BudgetOf = key(Choice(options=BudgetOf), doc="the scope of the limit")
    name: str | None = key(
        TEXT, default=None, doc="the name of the pool, or of the team in the pools' label `team`"
    )
    limit_per_month: Decimal = key(MONEY, doc="the most to spend in a calendar month")
    when_spent: OverBudget = key(
        Choice(options=OverBudget),
        default=OverBudget.WARN,
        doc="once the limit is reached: only warn, buy only spot or the cheapest, or buy nothing",
    )
    warn_at: float = key(
        Real(least=0.01, most=1, example="0.8"),
        default=0.8,
        doc="the share of the limit at which to warn",
    )


def to_budget(config: BudgetConfig) -> Budget:
    """Return a budget as the control plane stores it."""
    return Budget(
        of=config.of,
        name=config.name or "",
        limit_per_month=config.limit_per_month,
        when_spent=config.when_spent,
        warn_at=config.warn_at,
    )
