"""Virtual time: an asyncio loop that never waits and never touches the world."""

import asyncio
import heapq
from collections.abc import Callable
from contextvars import Context
from itertools import count
from math import ulp
from typing import Any, NoReturn, TypeVarTuple

Ts = TypeVarTuple("Ts")


class StuckError(Exception):
    """Every task waits for something that nobody is going to do."""


class _Timer(asyncio.TimerHandle):
    """A timer that comes before those of the same moment that were set after it.

    Otherwise the shape of the heap decides, and with it every other timer there is.
    """

    __slots__ = ("number",)

    number: int
    _scheduled: bool

    def __lt__(self, other: object) -> bool:
        if isinstance(other, _Timer):
            mine, its = self.when(), other.when()
            return mine < its or (mine == its and self.number < other.number)
        return NotImplemented


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
        self._numbers = count()

    def time(self) -> float:
        """Return virtual seconds since the simulation began."""
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call at that moment, after whatever was to be called then already."""
        timer = _Timer(when, callback, args, self, context)
        timer.number = next(self._numbers)
        timer._scheduled = True  # noqa: SLF001 - what asyncio itself does here
        heapq.heappush(self._scheduled, timer)
        return timer

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
