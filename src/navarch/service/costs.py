"""What everything has cost, as operators want to see it."""

from collections.abc import Iterable
from datetime import datetime

from navarch.core.budget import Budget
from navarch.core.launch import Launch
from navarch.fleet.money.budgets import spendings
from navarch.fleet.money.forecast import forecast, month_start
from navarch.fleet.money.ledger import Account, accounts
from navarch.ports.api import BudgetView, CostBy, CostLine, CostReport


def cost_report(
    launches: Iterable[Launch],
    budgets: Iterable[Budget],
    *,
    by: CostBy,
    since: datetime | None,
    now: datetime,
) -> CostReport:
    """Return what each group has cost since `since`, the beginning of the month if None."""
    known = list(launches)
    begin = month_start(now) if since is None else since
    shown = accounts(known, lambda launch: _group(launch, by), since=begin, until=now)
    month = accounts(known, lambda launch: _group(launch, by), since=month_start(now), until=now)
    lines = tuple(
        _line(name, account, month.get(name, Account()), now) for name, account in shown.items()
    )
    total = sum(shown.values(), Account())
    return CostReport(
        by=by,
        since=begin,
        until=now,
        lines=lines,
        total=_line("total", total, sum(month.values(), Account()), now),
        budgets=tuple(
            BudgetView(
                name=str(each.budget),
                limit_per_month=each.budget.limit_per_month,
                spent=each.spent(now),
                forecast=each.forecast(now),
                when_spent=each.budget.when_spent,
                level=str(each.level(now)),
            )
            for each in spendings(budgets, known, now=now)
        ),
    )


def _group(launch: Launch, by: CostBy) -> str:
    match by:
        case CostBy.POOL:
            return launch.pool
        case CostBy.TEAM:
            return launch.team
        case CostBy.PROVIDER:
            return launch.offering.provider


def _line(name: str, account: Account, month: Account, now: datetime) -> CostLine:
    return CostLine(
        name=name,
        machines=account.machines,
        running=account.running,
        machine_time=account.machine_time,
        spent=account.spent,
        per_hour=account.per_hour,
        forecast=forecast(month.spent, month.per_hour, now),
    )
