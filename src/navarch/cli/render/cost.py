"""Costs and budgets, as tables."""

from datetime import timedelta
from decimal import Decimal

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.table import Cell, Column, render_table
from navarch.ports.api import BudgetView, CostLine, CostReport

_COLORS = {"fine": "green", "near": "yellow", "spent": "red"}


def render_cost(report: CostReport, canvas: Canvas) -> str:
    """Return what `navarch cost` prints."""
    heading = f"{report.since:%Y-%m-%d} to {report.until:%Y-%m-%d %H:%M} UTC"
    if not report.lines:
        return f"{heading}: no machines launched"
    columns: list[Column[CostLine]] = [
        Column(str(report.by).capitalize(), lambda line: line.name or "-"),
        Column("Machines", lambda line: str(line.machines), rank=3, right=True),
        Column("Running", lambda line: str(line.running), rank=2, right=True),
        Column("Hours", lambda line: _hours(line.machine_time), rank=4, right=True),
        Column("Spent", lambda line: _money(line.spent), right=True),
        Column("$/h", lambda line: _money(line.per_hour), rank=1, right=True),
        Column("Forecast", lambda line: _money(line.forecast), rank=5, right=True),
    ]
    lines = [*report.lines, report.total] if len(report.lines) > 1 else report.lines
    parts = [heading, render_table(columns, lines, canvas)]
    if report.budgets:
        parts += ["", render_table(BUDGETS, report.budgets, canvas)]
    return "\n".join(parts)


BUDGETS: list[Column[BudgetView]] = [
    Column("Budget", lambda budget: budget.name),
    Column(
        "Spent", lambda budget: Cell(_money(budget.spent), _COLORS.get(budget.level)), right=True
    ),
    Column("Limit", lambda budget: _money(budget.limit_per_month), right=True),
    Column("Forecast", lambda budget: _money(budget.forecast), rank=1, right=True),
    Column("When Spent", lambda budget: str(budget.when_spent), rank=2),
]


def _hours(span: timedelta) -> str:
    return f"{span.total_seconds() / 3600:,.1f}"


def _money(amount: Decimal) -> str:
    return f"{amount:,.2f}"
