"""Virtual time: an asyncio loop that never waits and never touches the world."""

import asyncio
import heapq
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from datetime import UTC, datetime, timedelta
from itertools import count
from math import ulp
from operator import length_hint
from typing import Any, ClassVar, NoReturn

import msgspec

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""When every simulation begins."""

CANCELLED_MAX = 100
"""So many timers that were called off may lie about, or as many as there are others."""

RESOLUTION_S = 1e-9
"""What is due within so little of a moment is due at that moment."""

COARSE_FROM_S = 2.0**21
"""From here on, after 24 days, the last bit of a moment may be more than that."""


class StuckError(Exception):
    """Every task waits, and no timer is left to wake one."""


class _HaltError(BaseException):
    """The loop was stopped, and every callback due by then has run."""


class Call(msgspec.Struct, eq=False):
    """What is to be called, soon or at a moment: to those who ask, a handle of asyncio's.

    Asyncio's own are written in Python. This is made without a line of it, since a call is often
    all that there is to do about what is called.
    """

    _call: tuple[Any, ...]
    """The callback and its arguments."""
    _context: Context
    _loop: "SimLoop | None" = None
    """The loop, if this is a timer."""
    _when: float = 0.0
    _cancelled: bool = False

    _source_traceback: ClassVar[None] = None
    """Asyncio cuts this short wherever there is one."""

    def __repr__(self) -> str:
        return f"<Call {self._call} at {self._when}>"

    def cancel(self) -> None:
        """Cancel the call."""
        if self._loop is not None and not self._cancelled:
            self._loop._timer_handle_cancelled()
        self._cancelled = True
        self._call = ()

    def cancelled(self) -> bool:
        """Return whether the call was cancelled."""
        return self._cancelled

    def when(self) -> float:
        """Return the moment of a timer."""
        return self._when


class SleepFuture(msgspec.Struct, eq=False):
    """A moment that a task waits for: a timer to the loop, and to the task a future.

    Nine of ten timers of a day are somebody's sleep. A task takes whatever bears the mark of
    a future for one, so that it need not wait for one that another timer is to fulfil.
    """

    _loop: "SimLoop"
    _when: float
    _call: tuple[Any, ...] = ()
    _context: Context | None = None
    _cancelled: bool = False
    _asyncio_future_blocking: bool | None = None

    def __repr__(self) -> str:
        return f"<Nap until {self._when}>"

    def __await__(self) -> Generator[Any, None, None]:
        """Hand this to the task, once: by the time it is asked for more, the moment has come."""
        # Marks this as a future that the task waits for.
        self._asyncio_future_blocking = True
        return iter((self,))  # type: ignore[return-value]

    def add_done_callback(
        self, wake: Callable[[asyncio.Future[None]], object], *, context: Context
    ) -> None:
        """Have the task that has begun to wait woken in time, by word of a future that is done."""
        loop = self._loop
        self._call = wake, loop.awake
        self._context = context
        heapq.heappush(loop._timers, (self._when, next(loop._numbers), self))

    def cancel(self, msg: object = None) -> bool:
        """Wake the task at once, by word of a future that was cancelled."""
        if self._cancelled:
            return False
        self._cancelled = True
        self._loop._timer_handle_cancelled()
        cancelled = self._loop.create_future()
        cancelled.cancel(msg)
        self._loop.call_soon(self._call[0], cancelled, context=self._context)
        # What went wrong in the task may lead back here: without this, nothing leads in a circle.
        self._call = ()
        return True


class SimLoop(asyncio.BaseEventLoop):
    """Runs ordinary asyncio code with a clock that jumps from timer to timer.

    asyncio asks its selector to wait until the next timer is due. This one does not
    wait: it moves the clock. Sockets, threads and subprocesses do not exist here, so code
    that reaches past its ports fails at once, in every test.

    A day of a fleet is millions of calls and timers, so that this does itself what asyncio does
    for every kind of loop, with what only others need left out. It does so in the same order, but
    that what one call brings about is over before another timer of the same moment is looked for.
    """

    _debug: bool
    _ready: list[Call | SleepFuture]
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(self, now: float = 0.0) -> None:
        super().__init__()
        self.now_s = now
        """Virtual seconds since the simulation began, without the cost of a call to `time`."""
        self.now: datetime | None = None
        """The same moment on the calendar, while it runs: it is read far more often than it
        moves."""
        self._clock_resolution = RESOLUTION_S
        self._ready = []
        if not self._debug:
            # Every future and every task reads this; `bool()` is False and costs no Python frame.
            self.get_debug = bool  # type: ignore[method-assign]
        awake: asyncio.Future[None] = asyncio.Future(loop=self)
        awake.set_result(None)
        self.awake = awake
        """The completed future that is passed to every task that wakes."""
        self._numbers = count()
        self._timers: list[tuple[float, int, Call | SleepFuture]] = []
        """A heap. Of one moment those that were set first come first, whatever its shape."""

    def time(self) -> float:
        """Return virtual seconds since the simulation began."""
        return self.now_s

    def call_soon(self, *call: object, context: Context | None = None) -> asyncio.Handle:
        """Call after all that is to be called already."""
        soon = Call(call, copy_context() if context is None else context)
        self._ready.append(soon)
        return soon  # type: ignore[return-value]

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(
        self, when: float, *call: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call at that moment, after whatever was to be called then already."""
        timer = Call(call, copy_context() if context is None else context, self, when)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer  # type: ignore[return-value]

    def _run_once(self) -> None:
        """Call everything that is ready, and let time pass whenever nothing is, until stopped."""
        ready, timers = self._ready, self._timers
        while True:
            left = iter(ready)
            try:
                # Callbacks may append further callbacks, which run in the same pass.
                for call in left:
                    if not call._cancelled:
                        call._context.run(*call._call)  # type: ignore[union-attr]
            except BaseException as error:
                # Nothing that goes wrong in a callback goes unnoticed, nor keeps others from being
                # called by whoever cleans up.
                del ready[: len(ready) - length_hint(left)]
                if isinstance(error, _HaltError):
                    return
                raise
            ready.clear()
            if timers and timers[0][2]._cancelled:
                self._drop_next_cancelled()
            self._pass_time(timers[0][0] if timers else None)
            soon = self.now_s + self._clock_resolution
            while timers and timers[0][0] < soon:
                ready.append(heapq.heappop(timers)[2])

    def stop(self) -> None:
        """Stop as soon as all has been called that is to be called already."""
        super().stop()
        self.call_soon(self._halt)

    def _halt(self) -> None:
        # Unless something went wrong meanwhile, and the loop has stopped for that.
        if self._stopping:
            raise _HaltError

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

    def _timer_handle_cancelled(self, _handle: object = None) -> None:
        """Count a timer that was called off, and forget all such once they are many."""
        timers = self._timers
        self._timer_cancelled_count += 1
        if self._timer_cancelled_count > max(CANCELLED_MAX, len(timers) // 2):
            timers[:] = [each for each in timers if not each[2]._cancelled]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0

    def _drop_next_cancelled(self) -> None:
        """Forget timers that were called off, as far as they are next in line."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._timer_cancelled_count -= 1

    def _write_to_self(self) -> None:
        """Do nothing: there are no other threads to wake."""

    def close(self) -> None:
        """Let go of everything that was to be called."""
        self._timers.clear()
        super().close()

    def run_in_executor(self, *_args: object) -> NoReturn:
        """Refuse: threads would bring back real time."""
        raise RuntimeError("simulated code asked for a thread")
