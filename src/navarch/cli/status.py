"""`navarch status`: show the fleet on one screen."""

import click

from navarch.cli.commands import Command
from navarch.cli.render.status import render_status
from navarch.cli.session import Session, with_session
from navarch.cli.watch import show_or_watch, watch_option


@click.command("status", cls=Command)
@watch_option
@with_session
def status(session: Session, watch: bool) -> None:
    """Show the fleet on one screen: pools, price and latest events."""
    show_or_watch(session, lambda api: api.status(), render_status, watch=watch)
