"""What wakes a loop before its time."""

import asyncio
import contextlib


class Bell:
    """Rung by others, waited for by one. A ring while nobody waits is not lost."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake the one who waits, or the next to wait."""
        self._rung.set()

    async def wait(self, seconds: float | None) -> None:
        """Return when rung, or after `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds is None else max(seconds, 0.0)):
                await self._rung.wait()
        self._rung.clear()


class Bells:
    """One for each loop of an agent, and the one that ends them all."""

    def __init__(self) -> None:
        self.beats = Bell()
        self.looks = Bell()
        self.deliveries = Bell()
        self.orders = Bell()
        self.tests = Bell()
        self.notices = Bell()
        self.lease = Bell()
        self.stopping = False

    def stop(self) -> None:
        """Ask every loop to finish what it is doing and end."""
        self.stopping = True
        for bell in (
            self.beats,
            self.looks,
            self.deliveries,
            self.orders,
            self.tests,
            self.notices,
            self.lease,
        ):
            bell.ring()
