"""`navarch cost`: what everything has cost, and what the month will."""

from datetime import UTC, datetime

import click

from navarch.cli.commands import Command
from navarch.cli.render.cost import render_cost
from navarch.cli.session import Session, with_session
from navarch.ports.api import CostBy


@click.command("cost", cls=Command)
@click.option(
    "--by",
    type=click.Choice([str(by) for by in CostBy]),
    default=str(CostBy.POOL),
    show_default=True,
    help="What to add up.",
)
@click.option(
    "--since",
    metavar="DATE",
    type=click.DateTime(["%Y-%m-%d"]),
    help="From this day on, in UTC, instead of this month's first.",
)
@with_session
def cost(session: Session, by: str, since: datetime | None) -> None:
    """Show what machines have cost, by the prices frozen when each was bought.

    The forecast is for this month, if what runs now runs to its end.
    """
    start = None if since is None else since.replace(tzinfo=UTC)
    report = session.ask(lambda api: api.cost(CostBy(by), since=start))
    session.show(report, lambda canvas: render_cost(report, canvas))
