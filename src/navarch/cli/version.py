"""`navarch version`: show the version of this program."""

import platform
import sys

import click

from navarch.cli.commands import Command
from navarch.cli.session import Session, with_session
from navarch.core.version import VERSION


@click.command("version", cls=Command)
@with_session
def version(session: Session) -> None:
    """Show the version of this program, without contacting the server."""
    facts = {
        "version": VERSION,
        "python": ".".join(map(str, sys.version_info[:3])),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    lines = [f"navarch version {VERSION}"]
    lines += [f"  {name}: {facts[name]}" for name in ("python", "platform")]
    session.show(facts, lambda _: "\n".join(lines))
