"""`navarch cost`: the cost so far, and the forecast for the month."""

import click

from navarch.cli.commands import Command
from navarch.cli.options import When, resolve_when, since_option
from navarch.cli.render.cost import render_cost
from navarch.cli.session import Session, with_session
from navarch.ports.api import CostBy


@click.command("cost", cls=Command)
@click.option(
    "--by",
    type=click.Choice([str(by) for by in CostBy]),
    default=str(CostBy.POOL),
    show_default=True,
    help="Group by this.",
)
@since_option("Start: 7d, or 2026-03-01.  [default: the first of this month]")
@with_session
def cost(session: Session, by: str, since: When | None) -> None:
    """Show the cost of machines, at the price of each when it was launched.

    The forecast assumes that the machines running now run until the end of the month.
    """
    start = None if since is None else resolve_when(since, session.clock.now())
    session.show_call(lambda api: api.cost(CostBy(by), since=start), render_cost)
