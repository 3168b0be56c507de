"""Real time, real chance and real threads: the only module that may use them."""

import asyncio
import random
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")


class SystemClock:
    """The clock of the operating system."""

    def now(self) -> datetime:
        """Return wall time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`."""
        await asyncio.sleep(seconds)


class SystemEntropy:
    """The randomness of the operating system."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""
        return self._random.uniform(low, high)

    def new_id(self, kind: str) -> str:
        """Return `kind` and 64 random bits."""
        return f"{kind}-{secrets.token_hex(8)}"

    def secret(self) -> bytes:
        """Return 32 random bytes."""
        return secrets.token_bytes(32)


class ThreadOffload:
    """Runs blocking calls in order on one thread, or on several without an order."""

    def __init__(self, name: str, *, at_once: int = 1) -> None:
        self._executor = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix=name)

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` on a free thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def close(self) -> None:
        """Wait for the running calls, then end the threads."""
        self._executor.shutdown()
