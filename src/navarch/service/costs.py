"""The cost report."""

from collections.abc import Iterable
from datetime import datetime

from navarch.control.pools.ledger import Ledger
from navarch.core.budget import Budget
from navarch.fleet.money.ledger import Account, forecast, month_start
from navarch.ports.api import BudgetView, CostBy, CostLine, CostReport


async def cost_report(
    ledger: Ledger,
    budgets: Iterable[Budget],
    *,
    by: CostBy,
    since: datetime | None,
    now: datetime,
) -> CostReport:
    """Return the cost of each group since `since`, by default since the month began."""
    month_began = month_start(now)
    begin = month_began if since is None else since
    shown = await ledger.accounts(by, since=begin, until=now)
    month = await ledger.accounts(by, since=month_began, until=now)
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
            for each in await ledger.spendings(budgets, now=now)
        ),
    )


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
