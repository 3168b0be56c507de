"""Time that passes faster, for everything that waits on one loop."""

import asyncio
import selectors
import time
from datetime import datetime, timedelta


class PacedLoop(asyncio.SelectorEventLoop):
    """An ordinary loop on which a second takes 1/`speed` of a second.

    Every timer, pause and deadline of the agent is a timer of its loop, so that the agent need
    not know.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._born = time.monotonic()  # noqa: TID251 - this is what makes the clock
        super().__init__(_HastySelector(speed))

    def time(self) -> float:
        """Return seconds as this loop counts them."""
        return (time.monotonic() - self._born) * self._speed  # noqa: TID251


class _HastySelector(selectors.DefaultSelector):
    def __init__(self, speed: float) -> None:
        super().__init__()
        self._pace = speed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait a fraction of what is asked for."""
        return super().select(None if timeout is None else timeout / self._pace)


class LoopClock:
    """Wall time that began at `start` and passes as the running loop's does."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._began = asyncio.get_running_loop().time()

    def now(self) -> datetime:
        """Return the recorded wall time."""
        return self._start + timedelta(seconds=self.monotonic() - self._began)

    def monotonic(self) -> float:
        """Return the loop's seconds."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Let the loop's time pass."""
        await asyncio.sleep(seconds)  # noqa: TID251
