"""`navarch cost`: what everything has cost, and what the month will."""

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
    help="What to add up.",
)
@since_option("From when on, instead of this month's first: 7d, or 2026-03-01.")
@with_session
def cost(session: Session, by: str, since: When | None) -> None:
    """Show what machines have cost, by the prices frozen when each was bought.

    The forecast is for this month, if what runs now runs to its end.
    """
    start = None if since is None else resolve_when(since, session.clock.now())
    report = session.call(lambda api: api.cost(CostBy(by), since=start))
    session.show(report, lambda canvas: render_cost(report, canvas))
