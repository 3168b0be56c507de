"""The machine's clock, its randomness, and a thread for what blocks."""

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
    """Time as the operating system tells it."""

    def now(self) -> datetime:
        """Return wall time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since some start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class SystemEntropy:
    """Chance as the operating system gives it."""

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
    """One thread that takes blocking calls in order; or several, where order does not matter."""

    def __init__(self, name: str, *, at_once: int = 1) -> None:
        self._executor = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix=name)

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` on a thread that is free."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    def close(self) -> None:
        """Wait for what was begun, and end the threads."""
        self._executor.shutdown()
