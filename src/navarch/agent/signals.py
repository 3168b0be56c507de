"""Signals that wake a loop before its timer fires."""

import asyncio
import contextlib


class Signal(asyncio.Event):
    """An event with one waiter. A signal set before the wait begins is not lost."""

    async def sleep(self, seconds: float | None) -> None:
        """Return when the signal is set, or after `seconds`; then reset it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds is None else max(seconds, 0.0)):
                await self.wait()
        self.clear()


class Signals:
    """One signal for each loop of an agent, and the flag that stops them all."""

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
        """Make every loop return after its current step."""
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
