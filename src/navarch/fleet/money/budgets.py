"""Budgets and spending: levels to alert on, and purchases that are not allowed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from navarch.core.budget import Budget, BudgetOf, OverBudget, cost
from navarch.core.launch import Launch, Offering
from navarch.core.pool import Pool
from navarch.fleet.money.books import Account, forecast
from navarch.fleet.selection import ProposedLaunch


class Level(StrEnum):
    """How far a budget is used up."""

    FINE = "fine"
    NEAR = "near"
    """Past the share from which alerts are sent, or forecast to exceed the limit."""
    SPENT = "spent"
    """Without room for an hour of another machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """One budget, and its spending in the month of `at`."""

    budget: Budget
    at: datetime
    account: Account
    asked_per_hour: Decimal = Decimal(0)
    """The hourly price of requested machines that may or may not come."""

    def spent(self, now: datetime) -> Decimal:
        """Return the spending by `now`, if everything ran on since `at`."""
        return self.account.spent + cost(self.account.per_hour, self.at, now)

    def forecast(self, now: datetime) -> Decimal:
        """Return the spending at the end of the month."""
        return forecast(self.spent(now), self.account.per_hour, now)

    def has_room_for(self, price_per_hour: Decimal, now: datetime) -> bool:
        """Return whether another machine fits for an hour, next to all running ones."""
        next_hour = self.account.per_hour + self.asked_per_hour + price_per_hour
        return self.spent(now) + next_hour <= self.budget.limit_per_month

    def level(self, now: datetime) -> Level:
        """Return how far the budget is used up."""
        limit = self.budget.limit_per_month
        if not self.has_room_for(Decimal(0), now):
            return Level.SPENT
        near = self.spent(now) >= limit * Decimal(str(self.budget.warn_at))
        return Level.NEAR if near or self.forecast(now) > limit else Level.FINE

    def explain_no_room(self, price_per_hour: Decimal, now: datetime) -> str:
        """Return why another machine at that price does not fit, in a sentence."""
        rate = self.account.per_hour + self.asked_per_hour + price_per_hour
        return (
            f"the budget of {self.budget} has no room for an hour of it: {money(self.spent(now))} "
            f"of {money(self.budget.limit_per_month)} spent this month, and with it everything "
            f"would cost {money(rate)} an hour"
        )

    def explain(self, now: datetime) -> str:
        """Return the state of the budget, in a sentence."""
        return (
            f"{money(self.spent(now))} of {money(self.budget.limit_per_month)} spent this month, "
            f"{money(self.forecast(now))} by its end if nothing changes"
        )


def spendings(
    budgets: Iterable[Budget],
    by_pool: Mapping[str, Account],
    by_team: Mapping[str, Account],
    asked: Iterable[Launch],
    *,
    now: datetime,
) -> tuple[Spending, ...]:
    """Return each budget with its spending this month.

    `by_pool` and `by_team` are the accounts of this month, `asked` the launches without an answer.
    """
    open_launches = list(asked)
    found = []
    for budget in budgets:
        if budget.of is BudgetOf.FLEET:
            account = sum(by_pool.values(), Account())
        else:
            accounts = by_pool if budget.of is BudgetOf.POOL else by_team
            account = accounts.get(budget.name, Account())
        paid = [x.price_per_hour for x in open_launches if _pays(budget, x.pool, x.team)]
        asked_per_hour = sum(paid, Decimal(0))
        found.append(
            Spending(budget=budget, at=now, account=account, asked_per_hour=asked_per_hour)
        )
    return tuple(found)


def veto(
    proposal: ProposedLaunch,
    spending: Iterable[Spending],
    *,
    taken: Iterable[tuple[Pool, Offering]] = (),
    now: datetime,
) -> str | None:
    """Return why `proposal` is not allowed, on top of what is `taken`; or None.

    A machine that replaces a broken one and costs no more is no further spending: a spent budget
    keeps a pool from growing, not from repairing itself.
    """
    also = list(taken)
    pool, offering = proposal.pool, proposal.offering
    replaces = proposal.instead_of is not None and offering.price_per_hour <= proposal.instead_of
    for known in spending:
        budget = known.budget
        if budget.when_spent is OverBudget.WARN or not concerns(budget, pool):
            continue
        if budget.when_spent is OverBudget.REFUSE and replaces:
            continue
        extra = [each.price_per_hour for other, each in also if concerns(budget, other)]
        each = replace(known, asked_per_hour=sum(extra, known.asked_per_hour))
        if each.has_room_for(offering.price_per_hour, now):
            continue
        if budget.when_spent is OverBudget.DOWNGRADE and offering in _modest(pool):
            continue
        return each.explain_no_room(offering.price_per_hour, now)
    return None


def levels_reached(
    spending: Iterable[Spending], told: Mapping[str, Level], *, now: datetime
) -> list[tuple[Spending, Level]]:
    """Return the budgets above the level that was last alerted this month."""
    order = list(Level)
    return [
        (each, level)
        for each in spending
        if order.index(level := each.level(now))
        > order.index(told.get(str(each.budget), Level.FINE))
    ]


def money(amount: Decimal) -> str:
    """Return an amount with two decimals."""
    return f"{amount:,.2f}"


def _modest(pool: Pool) -> tuple[Offering, ...]:
    # A reservation is paid for whether it is used or not.
    spot = tuple(offering for offering in pool.offerings if offering.spot or offering.reservation)
    if spot:
        return spot
    known = [x for x in pool.offerings if x.price_per_hour > 0] or list(pool.offerings)
    cheapest = min(x.price_per_hour / max(x.gpus, 1) for x in known)
    return tuple(x for x in known if x.price_per_hour / max(x.gpus, 1) == cheapest)


def concerns(budget: Budget, pool: Pool) -> bool:
    """Return whether `budget` pays for the purchases of `pool`."""
    return _pays(budget, pool.name, pool.team)


def _pays(budget: Budget, pool: str, team: str) -> bool:
    match budget.of:
        case BudgetOf.POOL:
            return pool == budget.name
        case BudgetOf.TEAM:
            return team == budget.name
        case BudgetOf.FLEET:
            return True
