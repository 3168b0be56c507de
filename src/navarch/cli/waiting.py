"""Wait until a pool is ready or deleted, and show the progress."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import click

from navarch.cli.errors import UNREACHABLE, describe_error
from navarch.cli.output import Output
from navarch.cli.pagination import list_all
from navarch.cli.render.progress import render_changes, render_progress
from navarch.cli.session import Session
from navarch.cli.watch import live_display, poll_until
from navarch.core.errors import NavarchError, NotFoundError
from navarch.core.ids import NodeId, PoolName
from navarch.ports.api import FleetApi, NodeView, PoolView, Query

RETRY_S = 1.0

Show = Callable[[str, list[NodeView]], None]


async def wait_until_up(
    session: Session, api: FleetApi, pool: PoolName, *, within: timedelta
) -> PoolView | None:
    """Return the pool once all its nodes are ready; None on timeout."""
    found: list[PoolView] = []

    async def poll(show: Show) -> bool:
        view = await api.get_pool(pool)
        found[:] = [view]
        nodes = await list_all(api.list_nodes, Query(pool=pool))
        show(f"{pool}: {view.serving} of {view.size} nodes ready", nodes)
        return view.serving >= view.size

    return found[0] if await _wait(session, api, poll, within) else None


async def wait_until_gone(
    session: Session, api: FleetApi, pool: PoolName, *, within: timedelta
) -> bool:
    """Return True once the pool and all its billed machines are gone; False on timeout."""

    async def poll(show: Show) -> bool:
        nodes = await list_all(api.list_nodes, Query(pool=pool))
        left = "1 machine" if len(nodes) == 1 else f"{len(nodes)} machines"
        show(f"{pool}: {left} left", nodes)
        if nodes:
            return False
        try:
            await api.get_pool(pool)
        except NotFoundError:
            return True
        return False

    return await _wait(session, api, poll, within)


async def _wait(
    session: Session,
    api: FleetApi,
    poll: Callable[[Show], Awaitable[bool]],
    within: timedelta,
) -> bool:
    deadline = asyncio.timeout(within.total_seconds())
    live = session.terminal.live and session.output is Output.TABLE
    # Progress goes to standard error, so that the result can be piped.
    with live_display(live=live, err=True) as draw:

        def redraw(headline: str, nodes: list[NodeView]) -> None:
            draw(render_progress(headline, nodes, session.canvas()))

        show = redraw if live else _append()
        try:
            async with deadline:
                # A restart of the server ends the stream; reconnect and keep waiting.
                while not await _poll_until(api, lambda: poll(show)):
                    await session.clock.sleep(RETRY_S)
        except TimeoutError:
            if not deadline.expired():
                raise
            return False
    return True


async def _poll_until(api: FleetApi, poll: Callable[[], Awaitable[bool]]) -> bool:
    """Return whether the wait is over; treat an unreachable server as a restart."""
    try:
        return await poll_until(api, poll)
    except (NavarchError, OSError, ExceptionGroup) as error:
        if describe_error(error).code != UNREACHABLE:
            raise
        return False


def _append() -> Show:
    before: dict[NodeId, NodeView] = {}

    def show(_headline: str, nodes: list[NodeView]) -> None:
        for line in render_changes(before, nodes):
            click.echo(line, err=True)
        before.clear()
        before.update({node.id: node for node in nodes})

    return show
