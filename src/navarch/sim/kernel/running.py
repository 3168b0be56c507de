"""Running a simulation from its first moment to its last."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from navarch.sim.kernel.loop import SimLoop

T = TypeVar("T")

COLLECT_AFTER = (1_000_000, 10, 5)
"""A world keeps nearly all that it makes, so that looking for garbage among it as often as Python
usually does takes a third of the time: a million objects, some 100 MB, are worth a look.
Worlds that are over are collected after a dozen, by the rules that hold between them."""


def run_simulated(
    main: Coroutine[Any, Any, T], loop: Callable[[], asyncio.AbstractEventLoop] = SimLoop
) -> T:
    """Return what `main` returns, under virtual time."""
    found: list[T] = []

    async def keep() -> None:
        # Not as the task's result: a runner has that spelled out when it takes its signal handler
        # down, and what comes of a long story is a long text.
        found.append(await main)

    before = gc.get_threshold()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(keep())
    finally:
        gc.set_threshold(*before)
    return found[0]
