"""Signals that wake a loop before its timer fires."""

import asyncio
import contextlib
from dataclasses import dataclass, field


class Signal(asyncio.Event):
    """An event with one waiter. A signal set before the wait begins is not lost."""

    async def sleep(self, seconds: float | None) -> None:
        """Return when the signal is set, or after `seconds`; then reset it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if seconds is None else max(seconds, 0.0)):
                await self.wait()
        self.clear()


@dataclass(slots=True)
class Signals:
    """One signal for each loop of an agent, and the flag that stops them all."""

    heartbeat: Signal = field(default_factory=Signal)
    checks: Signal = field(default_factory=Signal)
    uploads: Signal = field(default_factory=Signal)
    commands: Signal = field(default_factory=Signal)
    diagnostics: Signal = field(default_factory=Signal)
    notices: Signal = field(default_factory=Signal)
    dead_man: Signal = field(default_factory=Signal)
    stopping: bool = False

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
