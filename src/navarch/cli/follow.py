"""Looking again whenever something has changed."""

import asyncio
from collections.abc import Awaitable, Callable

from navarch.ports.api import FleetApi

TICK_S = 2.0
"""How long to wait for a change before looking anyway: ages grow and heartbeats arrive."""

PAUSE_S = 0.2
"""Between two looks, so that a fleet in turmoil costs its server five questions a second."""


async def follow(api: FleetApi, look: Callable[[], Awaitable[bool]]) -> bool:
    """Call `look` now, after every change and on every tick, until it returns True.

    Returns False if the server ended the stream of changes before that.
    """
    changed = asyncio.Event()
    over = asyncio.Event()

    async def listen() -> None:
        async for _ in api.watch():
            changed.set()
        over.set()
        changed.set()

    async with asyncio.TaskGroup() as tasks:
        listening = tasks.create_task(listen())
        done = False
        while not done:
            last = over.is_set()
            changed.clear()
            done = await look()
            if last or done:
                break
            await _either(changed)
        listening.cancel()
    return done


async def _either(changed: asyncio.Event) -> None:
    """Wait for a change and a moment more, or for the tick."""
    try:
        async with asyncio.timeout(TICK_S):
            await changed.wait()
    except TimeoutError:
        return
    # More changes than one come at a time; the look after the pause sees them all.
    await _pause(PAUSE_S)


async def _pause(seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()
    except TimeoutError:
        return
