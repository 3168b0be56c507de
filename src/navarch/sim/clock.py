"""Time, chance and threads that repeat themselves."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Generator
from datetime import UTC, datetime, timedelta
from functools import cached_property
from types import coroutine
from typing import Any, TypeVar

from navarch.sim.loop import Nap, SimLoop

T = TypeVar("T")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class SimClock:
    """Wall time derived from the loop's virtual time."""

    def __init__(self) -> None:
        self._running: SimLoop | None = None
        self._read_at_s = 0.0
        self._read = EPOCH

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that runs, which to ask for takes longer than to remember."""
        known = self._running
        if known is not None and known.runs:
            return known
        loop = asyncio.get_running_loop()
        self._running = loop if isinstance(loop, SimLoop) else None
        return loop

    def now(self) -> datetime:
        """Return virtual wall time."""
        known = self._running
        now_s = known.now_s if known is not None and known.runs else self.loop.time()
        # It is asked for far more often than it moves.
        if now_s != self._read_at_s:
            self._read_at_s, self._read = now_s, EPOCH + timedelta(seconds=now_s)
        return self._read

    def monotonic(self) -> float:
        """Return virtual seconds."""
        known = self._running
        return known.now_s if known is not None and known.runs else self.loop.time()

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Let virtual time pass."""
        if seconds <= 0:
            return asyncio.sleep(0)
        known = self._running
        now_s = known.now_s if known is not None and known.runs else self.loop.time()
        return self.sleep_until(now_s + seconds)

    @coroutine
    def sleep_until(self, moment_s: float) -> Generator[Any, None, None]:
        """Let virtual time pass until exactly then, whatever it is now."""
        known = self._running
        loop = known if known is not None and known.runs else self.loop
        if isinstance(loop, SimLoop):
            yield Nap(loop, moment_s)
        else:
            yield from asyncio.sleep(moment_s - loop.time()).__await__()


class SeededEntropy:
    """Chance that repeats itself."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    @cached_property
    def _random(self) -> random.Random:
        # To prepare it takes longer than many draws, and most machines never leave anything to it.
        return random.Random(self._seed)

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""
        return low + (high - low) * self._random.random()

    def new_id(self, kind: str) -> str:
        """Return `kind` and 48 random bits."""
        return f"{kind}-{self._random.getrandbits(48):012x}"

    def secret(self) -> bytes:
        """Return 32 bytes that nobody would guess, but for the seed."""
        return self._random.randbytes(32)


class InlineOffload:
    """Runs blocking calls where they stand: in virtual time nobody waits for them."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what `call` returns."""
        return call()
