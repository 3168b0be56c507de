"""Questions to drivers, which may not answer."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from navarch.ports.gpu import GpuError
from navarch.ports.offload import Offload

T = TypeVar("T")


class HungError(GpuError):
    """The driver has been asked and does not answer."""


class Probe:
    """Asks one blocking question at a time, and does not wait for ever for the answer.

    A call that hangs cannot be ended from here; it keeps its thread. Until it returns,
    everybody else is told at once, so that nothing piles up behind it.
    """

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self._lock = asyncio.Lock()
        self._running = False

    @property
    def hung(self) -> bool:
        """Whether a question that was given up is still unanswered."""
        return self._running and not self._lock.locked()

    async def call(self, function: Callable[[], T], *, within_s: float) -> T:
        """Return the answer, or raise HungError."""
        try:
            async with asyncio.timeout(within_s), self._lock:
                if self._running:
                    raise HungError("an earlier question to the driver is still unanswered")
                self._running = True
                return await self._offload.run(lambda: self._run(function))
        except TimeoutError as error:
            raise HungError(f"no answer within {within_s:g} s") from error

    def _run(self, function: Callable[[], T]) -> T:
        try:
            return function()
        finally:
            self._running = False
