"""Readiness: whether the server can do its work, which includes writing its state."""

import asyncio
from collections.abc import Awaitable, Callable

from navarch.core.errors import StoreError
from navarch.ports.clock import Clock

EVERY_S = 2.0
"""The shortest interval between two writes. Probes need no token, so they must cost little."""
WITHIN_S = 5.0
"""The time limit of a write."""


class Readiness:
    """Answers readiness probes by writing to the disk; probes at one time share a write."""

    def __init__(
        self, clock: Clock, *, serving: Callable[[], bool], write: Callable[[], Awaitable[None]]
    ) -> None:
        """`write` writes something small to the state, or raises StoreError."""
        self._clock = clock
        self._serving = serving
        self._write = write
        self._turn = asyncio.Lock()
        self._problem: str | None = None
        self._written_at = -EVERY_S

    async def missing(self) -> str | None:
        """Return what is not ready, or None."""
        if not self._serving():
            return "the control loops are starting"
        try:
            async with asyncio.timeout(WITHIN_S), self._turn:
                if self._clock.monotonic() - self._written_at >= EVERY_S:
                    await self._try()
        except TimeoutError:
            return f"the state cannot be written: the disk took over {WITHIN_S:.0f} s"
        return self._problem

    async def _try(self) -> None:
        try:
            await self._write()
        except StoreError as error:
            self._problem = str(error)
        else:
            self._problem = None
        self._written_at = self._clock.monotonic()
