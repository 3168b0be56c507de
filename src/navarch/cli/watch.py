"""`--watch`: the same answer, again and again."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from navarch.cli.follow import follow
from navarch.cli.output import Output, render_line
from navarch.cli.render.canvas import Canvas
from navarch.cli.screen import screen
from navarch.cli.session import Session
from navarch.ports.api import FleetApi

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")


def watch_option(function: F) -> F:
    """Add `--watch`."""
    return click.option("-w", "--watch", is_flag=True, help="Keep showing it as it changes.")(
        function
    )


def answer(
    session: Session,
    ask: Callable[[FleetApi], Awaitable[T]],
    render: Callable[[T, Canvas], str],
    *,
    watch: bool,
) -> None:
    """Show what the server says, once or until interrupted."""
    if not watch:
        found = session.ask(ask)
        session.show(found, lambda canvas: render(found, canvas))
        return
    session.stay(lambda api: _keep_showing(session, api, ask, render))


async def _keep_showing(
    session: Session,
    api: FleetApi,
    ask: Callable[[FleetApi], Awaitable[T]],
    render: Callable[[T, Canvas], str],
) -> None:
    table = session.output is Output.TABLE
    if session.output is Output.YAML:
        raise click.UsageError("--watch writes a table or JSON lines; YAML has no lines")
    with screen(live=table and session.terminal.live) as draw:

        async def look() -> bool:
            found = await ask(api)
            draw(render(found, session.canvas()) if table else render_line(found))
            return False

        await follow(api, look)
