"""Output that follows the fleet, and waiting until a pool is ready or deleted."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import click

from navarch.cli.errors import UNREACHABLE, describe_error
from navarch.cli.output import Output, list_all, render_line
from navarch.cli.printing import echo, visible
from navarch.cli.render.pools import render_changes, render_progress
from navarch.cli.render.table import Canvas, count
from navarch.cli.session import Session
from navarch.core.errors import NavarchError, NotFoundError
from navarch.core.ids import NodeId, PoolName
from navarch.ports.api import FleetApi, NodeView, PoolView, Query

T = TypeVar("T")

TICK_S = 2.0
"""Poll at least this often: ages grow and heartbeats arrive without a new revision."""

PAUSE_S = 0.2
"""Minimum pause between two polls, so that a busy fleet costs at most five requests a second."""


watch_option = click.option(
    "-w", "--watch", is_flag=True, help="Update the output on every change."
)


def show_or_watch(
    session: Session,
    fetch: Callable[[FleetApi], Awaitable[T]],
    render: Callable[[T, Canvas], str],
    *,
    watch: bool,
) -> None:
    """Print what `fetch` returns, once or on every change until interrupted."""
    if watch:
        session.call_without_timeout(lambda api: _watch(session, api, fetch, render))
    else:
        session.show_call(fetch, render)


async def _watch(
    session: Session,
    api: FleetApi,
    fetch: Callable[[FleetApi], Awaitable[T]],
    render: Callable[[T, Canvas], str],
) -> None:
    table = session.output is Output.TABLE
    if session.output in (Output.YAML, Output.NAME):
        raise click.UsageError("--watch writes a table or JSON lines")
    with live_display(live=table and session.terminal.live) as draw:

        async def refresh() -> bool:
            found = await fetch(api)
            draw(render(found, session.canvas()) if table else render_line(found))
            return False

        await poll_until(api, refresh)


async def poll_until(api: FleetApi, poll: Callable[[], Awaitable[bool]]) -> bool:
    """Call `poll` now, after every change of the fleet and on every tick, until it returns True.

    Returns False if the server ends the stream of changes before that.
    """
    changed = asyncio.Event()
    ended = asyncio.Event()

    async def watch() -> None:
        async for _ in api.watch():
            changed.set()
        ended.set()
        changed.set()

    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch())
        done = False
        while not done:
            last = ended.is_set()
            changed.clear()
            done = await poll()
            if last or done:
                break
            if await _happens(changed, within_s=TICK_S):
                # Changes come in bursts; one poll after the pause covers the burst.
                await _happens(asyncio.Event(), within_s=PAUSE_S)
        watching.cancel()
    return done


async def _happens(event: asyncio.Event, *, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            return await event.wait()
    except TimeoutError:
        return False


@contextmanager
def live_display(*, live: bool, err: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function that redraws its text in place if `live`, and appends it otherwise."""
    if not live:
        yield _append(err=err)
        return
    try:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text
    except ModuleNotFoundError:
        # rich is optional; appending works without it.
        yield _append(err=err)
        return
    console = Console(stderr=err, highlight=False, soft_wrap=True)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as picture:
        yield lambda text: picture.update(
            Text.from_ansi(visible(text), no_wrap=True, overflow="crop"), refresh=True
        )


def _append(*, err: bool) -> Callable[[str], None]:
    last: list[str] = []

    def show(text: str) -> None:
        if last != [text]:
            echo(text if not last else f"\n{text}", err=err)
            last[:] = [text]

    return show


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
        show(f"{pool}: {count(len(nodes), 'machine')} left", nodes)
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

        show = redraw if live else _append_line()
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


@contextmanager
def explain_interrupt(text: str) -> Iterator[None]:
    """Print `text` if Ctrl-C ends the block, because the server continues without the command."""
    try:
        yield
    except asyncio.CancelledError:
        # Click ends the line.
        echo(f"\n{text}", err=True, nl=False)
        raise


def _append_line() -> Show:
    before: dict[NodeId, NodeView] = {}

    def show(_headline: str, nodes: list[NodeView]) -> None:
        for line in render_changes(before, nodes):
            echo(line, err=True)
        before.clear()
        before.update({node.id: node for node in nodes})

    return show
