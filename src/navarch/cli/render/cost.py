"""Costs and budgets, as tables."""

from decimal import Decimal

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.table import Cell, Column, render_table
from navarch.ports.api import BudgetView, CostLine, CostReport

BUDGET_COLUMNS = (
    Column(name="Budget"),
    Column(name="Spent", right=True),
    Column(name="Limit", right=True),
    Column(name="Forecast", rank=1, right=True),
    Column(name="When Spent", rank=2),
)

_COLORS = {"fine": "green", "near": "yellow", "spent": "red"}


def render_cost(report: CostReport, canvas: Canvas) -> str:
    """Return what `navarch cost` prints."""
    heading = f"{report.since:%Y-%m-%d} to {report.until:%Y-%m-%d %H:%M} UTC"
    if not report.lines:
        return f"{heading}: no machines launched"
    columns = (
        Column(name=str(report.by).capitalize()),
        Column(name="Machines", rank=3, right=True),
        Column(name="Running", rank=2, right=True),
        Column(name="Hours", rank=4, right=True),
        Column(name="Spent", right=True),
        Column(name="$/h", rank=1, right=True),
        Column(name="Forecast", rank=5, right=True),
    )
    rows = [_row(line) for line in report.lines]
    if len(rows) > 1:
        rows.append(_row(report.total))
    parts = [heading, render_table(columns, rows, canvas)]
    if report.budgets:
        parts += ["", render_table(BUDGET_COLUMNS, [_budget(b) for b in report.budgets], canvas)]
    return "\n".join(parts)


def _row(line: CostLine) -> list[Cell | str]:
    return [
        line.name or "-",
        str(line.machines),
        str(line.running),
        f"{line.machine_time.total_seconds() / 3600:,.1f}",
        _money(line.spent),
        _money(line.per_hour),
        _money(line.forecast),
    ]


def _budget(budget: BudgetView) -> list[Cell | str]:
    return [
        budget.name,
        Cell(_money(budget.spent), _COLORS.get(budget.level)),
        _money(budget.limit_per_month),
        _money(budget.forecast),
        str(budget.when_spent),
    ]


def _money(amount: Decimal) -> str:
    return f"{amount:,.2f}"
