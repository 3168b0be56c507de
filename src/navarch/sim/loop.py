"""Virtual time: an asyncio loop that never waits and never touches the world."""

import asyncio
import heapq
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from datetime import UTC, datetime, timedelta
from itertools import count
from math import ulp
from typing import Any, NoReturn, TypeVarTuple

Ts = TypeVarTuple("Ts")


EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""When every simulation begins."""

_make = asyncio.Handle.__new__
_make_timer = asyncio.TimerHandle.__new__

CANCELLED_MAX = 100
"""So many timers that were called off may lie about, or as many as there are others."""

RESOLUTION_S = 1e-9
"""What is due within so little of a moment is due at that moment."""

COARSE_FROM_S = 2.0**21
"""From here on, after 24 days, the last bit of a moment may be more than that."""


class StuckError(Exception):
    """Every task waits for something that nobody is going to do."""


class Nap(asyncio.TimerHandle):
    """A moment that a task waits for: a timer to the loop, and to the task a future.

    Nine of ten timers of a day are somebody's sleep. A task takes whatever bears the mark of
    a future for one, so that it need not wait for one that another timer is to fulfil.
    """

    __slots__ = ("_asyncio_future_blocking",)

    _repr = None
    _source_traceback = None
    _args: tuple[object, ...]
    _callback: Any
    _asyncio_future_blocking: bool | None

    def __init__(self, loop: "SimLoop", when: float) -> None:
        self._loop = loop
        self._when = when
        self._cancelled = False
        self._asyncio_future_blocking = None

    def __await__(self) -> Generator[Any, None, None]:
        """Hand this to the task, once: by the time it is asked for more, the moment has come."""
        # Says that whoever is handed this is to wait for it.
        self._asyncio_future_blocking = True
        return iter((self,))  # type: ignore[return-value]

    def add_done_callback(
        self, wake: Callable[[asyncio.Future[None]], object], *, context: Context
    ) -> None:
        """Have the task that has begun to wait woken in time, by word of a future that is done."""
        loop = self._loop
        self._callback = wake
        self._args = loop.awake
        self._context = context
        self._scheduled = True
        heapq.heappush(loop._timers, (self._when, next(loop._numbers), self))

    def cancel(self, msg: object = None) -> bool:  # type: ignore[override]
        """Wake the task at once, by word of a future that was cancelled."""
        if self._cancelled:
            return False
        self._cancelled = True
        if self._scheduled:
            self._loop._timer_handle_cancelled(self)
        cancelled = self._loop.create_future()
        cancelled.cancel(msg)
        self._loop.call_soon(self._callback, cancelled, context=self._context)
        # What went wrong in the task may lead back here: without this, nothing leads in a circle.
        self._callback = None
        return True


class SimLoop(asyncio.BaseEventLoop):
    """Runs ordinary asyncio code with a clock that jumps from timer to timer.

    asyncio asks its selector to wait until the next timer is due. This one does not
    wait: it moves the clock. Sockets, threads and subprocesses do not exist here, so code
    that reaches past its ports fails at once, in every test.

    A day of a fleet is millions of calls and timers, so that this does itself what asyncio does
    for every kind of loop, in the same order, with what only others need left out.
    """

    _debug: bool
    _ready: list[asyncio.Handle]
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(self, now: float = 0.0) -> None:
        super().__init__()
        self.now_s = now
        """Virtual seconds since the simulation began: `time`, for those who ask all the time."""
        self.now: datetime | None = None
        """The same moment on the calendar, while it runs: it is asked for far more often than it
        moves."""
        self._clock_resolution = RESOLUTION_S
        self._ready = []
        if not self._debug:
            # Every future and every task asks whether anybody debugs: nobody, says `bool()`.
            self.get_debug = bool  # type: ignore[method-assign]
        awake: asyncio.Future[None] = asyncio.Future(loop=self)
        awake.set_result(None)
        self.awake = (awake,)
        """What all who sleep are told when they wake."""
        self._numbers = count()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        """A heap. Of one moment those that were set first come first, whatever its shape."""

    def time(self) -> float:
        """Return virtual seconds since the simulation began."""
        return self.now_s

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Call after all that is to be called already."""
        # What its `__init__` does where nobody debugs, without the two calls: half of what is
        # called in a day is called from here.
        handle = _make(asyncio.Handle)
        handle._context = copy_context() if context is None else context  # type: ignore[attr-defined]
        handle._loop = self  # type: ignore[attr-defined]
        handle._callback = callback  # type: ignore[attr-defined]
        handle._args = args
        handle._cancelled = False
        handle._repr = handle._source_traceback = None  # type: ignore[attr-defined]
        self._ready.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call at that moment, after whatever was to be called then already."""
        timer = _make_timer(asyncio.TimerHandle)
        timer._context = copy_context() if context is None else context  # type: ignore[attr-defined]
        timer._loop = self  # type: ignore[attr-defined]
        timer._callback = callback  # type: ignore[attr-defined]
        timer._args = args
        timer._cancelled = False
        timer._repr = timer._source_traceback = None  # type: ignore[attr-defined]
        timer._when = when  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def _run_once(self) -> None:
        """Call everything that is ready, and let time pass whenever nothing is, until stopped."""
        timers = self._timers
        soon = self.now_s + self._clock_resolution
        while True:
            ready = self._ready
            if not ready and not self._stopping:
                if timers and timers[0][2]._cancelled:
                    self._drop_next_cancelled()
                self._pass_time(timers[0][0] if timers else None)
                soon = self.now_s + self._clock_resolution
            while timers and timers[0][0] < soon:
                timer = heapq.heappop(timers)[2]
                timer._scheduled = False  # type: ignore[attr-defined]
                ready.append(timer)
            # Those that are called now may have others called, but not in this round.
            self._ready = []
            left = iter(ready)
            try:
                for handle in left:
                    if not handle._cancelled:
                        handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
            except BaseException:
                # Nothing that goes wrong in a callback goes unnoticed, nor keeps others from being
                # called by whoever cleans up.
                self._ready[:0] = left
                raise
            if self._stopping:
                return

    def run_forever(self) -> None:
        """Run until stopped."""
        self._move_to(self.now_s)
        try:
            super().run_forever()
        finally:
            self.now = None

    def _pass_time(self, until: float | None) -> None:
        """Let virtual time pass until the next timer, if there is one, instead of waiting."""
        if until is None:
            raise StuckError(f"at t={self.now_s:.3f}s: {asyncio.all_tasks(self)}")
        if until > self.now_s:
            # To the very moment of the timer: a sum would depend on where we come from.
            self._move_to(until)
            if until >= COARSE_FROM_S:
                self._clock_resolution = max(RESOLUTION_S, 2 * ulp(until))

    def _move_to(self, moment_s: float) -> None:
        self.now_s = moment_s
        self.now = EPOCH + timedelta(seconds=moment_s)

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """Count a timer that was called off, and forget all such once they are many."""
        timers = self._timers
        self._timer_cancelled_count += 1
        if self._timer_cancelled_count > max(CANCELLED_MAX, len(timers) // 2):
            for _, _, timer in timers:
                timer._scheduled = not timer._cancelled  # type: ignore[attr-defined]
            timers[:] = [each for each in timers if not each[2]._cancelled]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0

    def _drop_next_cancelled(self) -> None:
        """Forget timers that were called off, as far as they are next in line."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)[2]._scheduled = False  # type: ignore[attr-defined]
            self._timer_cancelled_count -= 1

    def _write_to_self(self) -> None:
        """Nobody to wake: there are no other threads."""

    def close(self) -> None:
        """Let go of everything that was to be called."""
        self._timers.clear()
        super().close()

    def run_in_executor(self, *_args: object) -> NoReturn:
        """Refuse: threads would bring back real time."""
        raise RuntimeError("simulated code asked for a thread")
