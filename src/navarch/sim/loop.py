"""Virtual time: an asyncio loop that never waits and never touches the world."""

import asyncio
from math import ulp
from typing import Any, NoReturn


class StuckError(Exception):
    """Every task waits for something that nobody is going to do."""


class SimLoop(asyncio.BaseEventLoop):
    """Runs ordinary asyncio code with a clock that jumps from timer to timer.

    asyncio asks its selector to wait until the next timer is due. This one does not
    wait: it moves the clock. Sockets, threads and subprocesses do not exist here, so code
    that reaches past its ports fails at once, in every test.
    """

    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, now: float = 0.0) -> None:
        super().__init__()
        self._now = now
        self._clock_resolution = 1e-9
        self._selector = self

    def time(self) -> float:
        """Return virtual seconds since the simulation began."""
        return self._now

    def select(self, timeout: float | None) -> list[NoReturn]:
        """Let virtual time pass instead of waiting for I/O."""
        if timeout is None:
            raise StuckError(f"at t={self._now:.3f}s: {asyncio.all_tasks(self)}")
        if timeout > 0:
            # To the very moment of the timer: a sum would depend on where we come from.
            self._now = max(self._now, self._scheduled[0].when())
            self._clock_resolution = max(1e-9, 2 * ulp(self._now))
        return []

    def _process_events(self, event_list: list[NoReturn]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Nobody to wake: there are no other threads."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Let nothing that goes wrong in a callback go unnoticed."""
        if "handle" in context:
            raise context["exception"]
        super().call_exception_handler(context)

    def run_in_executor(self, *_args: object) -> NoReturn:
        """Refuse: threads would bring back real time."""
        raise RuntimeError("simulated code asked for a thread")
