"""What wakes a loop before its time."""

import asyncio
import contextlib


class Signal:
    """Rung by others, waited for by one. A ring while nobody waits is not lost."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake the one who waits, or the next to wait."""
        self._event.set()

    async def wait(self, seconds: float | None) -> None:
        """Return when rung, or after `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds is None else max(seconds, 0.0)):
                await self._event.wait()
        self._event.clear()


class Signals:
    """One for each loop of an agent, and the one that ends them all."""

    def __init__(self) -> None:
        self.heartbeat = Signal()
        self.checks = Signal()
        self.uploads = Signal()
        self.commands = Signal()
        self.diagnostics = Signal()
        self.notices = Signal()
        self.dead_man = Signal()
        self.stopping = False

    def stop(self) -> None:
        """Ask every loop to finish what it is doing and end."""
        self.stopping = True
        for signal in (
            self.heartbeat,
            self.checks,
            self.uploads,
            self.commands,
            self.diagnostics,
            self.notices,
            self.dead_man,
        ):
            signal.set()
