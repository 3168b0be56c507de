"""Deterministic time, randomness and threads."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import cached_property
from typing import TypeVar

from navarch.sim.kernel.loop import EPOCH, SimLoop, SleepFuture

T = TypeVar("T")

_NOWHERE = SimLoop()
"""A closed stand-in for the loop, until the running one is cached."""
_NOWHERE.close()


class SimClock:
    """Wall time derived from the loop's virtual time."""

    def __init__(self) -> None:
        self._running = _NOWHERE
        """The running loop, cached because looking it up is slow."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that runs."""
        if self._running.now is not None:
            return self._running
        loop = asyncio.get_running_loop()
        self._running = loop if isinstance(loop, SimLoop) else _NOWHERE
        return loop

    def now(self) -> datetime:
        """Return virtual wall time."""
        return self._running.now or EPOCH + timedelta(seconds=self.loop.time())

    def monotonic(self) -> float:
        """Return virtual seconds."""
        return self.loop.time()

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Let virtual time pass."""
        if seconds <= 0:
            return asyncio.sleep(0)
        loop = self.loop
        if isinstance(loop, SimLoop):
            return SleepFuture(loop, loop.now_s + seconds)
        return asyncio.sleep(seconds)


class SeededEntropy:
    """Randomness that repeats with its seed."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    @cached_property
    def _random(self) -> random.Random:
        # Seeding takes longer than many draws, and most machines never draw a number.
        return random.Random(self._seed)

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""
        return low + (high - low) * self._random.random()

    def new_id(self, kind: str) -> str:
        """Return `kind` and 48 random bits."""
        return f"{kind}-{self._random.getrandbits(48):012x}"

    def secret(self) -> bytes:
        """Return 32 bytes that depend on the seed only."""
        return self._random.randbytes(32)


class InlineOffload:
    """Runs blocking calls inline: they take no virtual time."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what `call` returns."""
        return call()
