"""Virtual time: an asyncio loop that never waits and never touches the world."""

import asyncio
import gc
import heapq
import select
import sys
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from datetime import UTC, datetime
from itertools import count
from math import ulp
from operator import length_hint
from typing import Any, ClassVar, NoReturn, TypeVar

import msgspec

from navarch.clock import SystemClock

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""When every simulation begins."""

CANCELLED_MAX = 100
"""Cancelled timers are dropped above this number, if they are also over half of all timers."""

RESOLUTION_S = 1e-9
"""Timers that are this close together are due at the same moment."""

COARSE_FROM_S = 2.0**21
"""From this time on (24 days) the precision of a float may be coarser than `RESOLUTION_S`."""


class StuckError(Exception):
    """Every task waits, and no timer is left to wake one."""


class _HaltError(BaseException):
    """The loop was stopped, and every callback due by then has run."""


class Call(msgspec.Struct, eq=False):
    """A callback to run soon or at a given time; it has the interface of `asyncio.Handle`.

    It is a struct because creating asyncio's own handles, which are Python objects, often costs
    more than the callback.
    """

    _call: tuple[Any, ...]
    """The callback and its arguments."""
    _context: Context
    _loop: "SimLoop | None" = None
    """The loop, if this is a timer."""
    _when: float = 0.0
    _cancelled: bool = False

    _source_traceback: ClassVar[None] = None
    """Read by asyncio, which shortens the traceback if there is one."""

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
        """Return the due time of a timer."""
        return self._when


class SleepFuture(msgspec.Struct, eq=False):
    """The sleep of a task: a timer for the loop and a future for the task.

    Nine of ten timers of a day are sleeps. A task accepts any object with the attributes of
    a future, so one object serves as both, without a separate future for the timer to complete.
    """

    _loop: "SimLoop"
    _when: float
    _call: tuple[Any, ...] = ()
    _context: Context | None = None
    _cancelled: bool = False
    _asyncio_future_blocking: bool | None = None

    def __repr__(self) -> str:
        return f"<SleepFuture until {self._when}>"

    def __await__(self) -> Generator[Any, None, None]:
        """Yield this object to the task once; the task resumes when the time has come."""
        # Marks this as a future that the task waits for.
        self._asyncio_future_blocking = True
        return iter((self,))  # type: ignore[return-value]

    def add_done_callback(
        self, wake: Callable[[asyncio.Future[None]], object], *, context: Context
    ) -> None:
        """Schedule the task's wake-up, with a future that is done as its argument."""
        loop = self._loop
        self._call = wake, loop.awake
        self._context = context
        heapq.heappush(loop._timers, (self._when, next(loop._numbers), self))

    def cancel(self, msg: object = None) -> bool:
        """Wake the task at once, with a cancelled future as its argument."""
        if self._cancelled:
            return False
        self._cancelled = True
        self._loop._timer_handle_cancelled()
        cancelled = self._loop.create_future()
        cancelled.cancel(msg)
        self._loop.call_soon(self._call[0], cancelled, context=self._context)
        # The task's error may refer to this object; dropping the callback avoids a cycle.
        self._call = ()
        return True


class SimLoop(asyncio.BaseEventLoop):
    """Runs ordinary asyncio code with a clock that jumps from timer to timer.

    Where asyncio waits in its selector until the next timer is due, this loop moves the
    clock. Sockets, threads and subprocesses do not exist here, so code that bypasses its
    ports fails at once, in every test.

    A simulated day is millions of calls and timers, so this class replaces asyncio's generic
    code with the part that a simulation needs. The order of calls is the same, except that all
    callbacks that follow from a call run before another timer of the same moment.
    """

    _ready: list[Call | SleepFuture]
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(self, now: float = 0.0) -> None:
        super().__init__()
        self.now_s = now
        """Virtual seconds since the simulation began."""
        self._clock_resolution = RESOLUTION_S
        self._ready = []
        awake: asyncio.Future[None] = asyncio.Future(loop=self)
        awake.set_result(None)
        self.awake = awake
        """The completed future that is passed to every task that wakes."""
        self._numbers = count()
        self._timers: list[tuple[float, int, Call | SleepFuture]] = []
        """A heap by due time, then by the order in which timers were set."""

    def time(self) -> float:
        """Return virtual seconds since the simulation began."""
        return self.now_s

    def call_soon(self, *call: object, context: Context | None = None) -> asyncio.Handle:
        """Call after all callbacks that are already queued."""
        soon = Call(call, copy_context() if context is None else context)
        self._ready.append(soon)
        return soon  # type: ignore[return-value]

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(
        self, when: float, *call: object, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call at that time, after earlier timers of the same time."""
        timer = Call(call, copy_context() if context is None else context, self, when)
        heapq.heappush(self._timers, (when, next(self._numbers), timer))
        return timer  # type: ignore[return-value]

    def _run_once(self) -> None:
        """Run all ready callbacks, then advance the clock to the next timer, until stopped."""
        ready, timers = self._ready, self._timers
        while True:
            left = iter(ready)
            try:
                # Callbacks may append further callbacks, which run in the same pass.
                for call in left:
                    if not call._cancelled:
                        call._context.run(*call._call)  # type: ignore[union-attr]
            except BaseException as error:
                # Keep the callbacks that have not run, so that cleanup can still run them.
                del ready[: len(ready) - length_hint(left)]
                if isinstance(error, _HaltError):
                    return
                raise
            ready.clear()
            while timers and timers[0][2]._cancelled:
                heapq.heappop(timers)
                self._timer_cancelled_count -= 1
            self._pass_time(timers[0][0] if timers else None)
            soon = self.now_s + self._clock_resolution
            while timers and timers[0][0] < soon:
                ready.append(heapq.heappop(timers)[2])

    def stop(self) -> None:
        """Stop once all callbacks that are already queued have run."""
        super().stop()
        self.call_soon(self._halt)

    def _halt(self) -> None:
        # An error in between has already stopped the loop, which then must not stop again.
        if self._stopping:
            raise _HaltError

    def _pass_time(self, until: float | None) -> None:
        """Advance the clock to the next timer; raise StuckError if there is none."""
        if until is None:
            raise StuckError(f"at t={self.now_s:.3f}s: {asyncio.all_tasks(self)}")
        if until > self.now_s:
            # Set to the timer's exact time: a sum would depend on the time before.
            self.now_s = until
            if until >= COARSE_FROM_S:
                self._clock_resolution = max(RESOLUTION_S, 2 * ulp(until))

    def _timer_handle_cancelled(self, _handle: object = None) -> None:
        """Count a cancelled timer, and drop all cancelled ones once they are many."""
        timers = self._timers
        self._timer_cancelled_count += 1
        if self._timer_cancelled_count > max(CANCELLED_MAX, len(timers) // 2):
            timers[:] = [each for each in timers if not each[2]._cancelled]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0

    def _write_to_self(self) -> None:
        """Do nothing: there are no other threads to wake."""

    def close(self) -> None:
        """Drop all timers and close the loop."""
        self._timers.clear()
        super().close()

    def run_in_executor(self, *_args: object) -> NoReturn:
        """Refuse: threads would bring back real time."""
        raise RuntimeError("simulated code asked for a thread")


TICK_S = 0.2
"""The longest wait before the loop reads the keyboard and updates the picture."""


class PacedLoop(SimLoop):
    """A virtual clock slowed to a chosen speed, and a keyboard that is read meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.speed = 1.0
        self.paused = False
        self.hurry_until = 0.0
        """Until this virtual time the clock runs without waiting."""
        self.on_line: Callable[[str], None] = lambda _: None
        self.on_tick: Callable[[], None] = lambda: None
        self._real = SystemClock()
        self._ended = False

    def _pass_time(self, until: float | None) -> None:
        """Wait in real time, and advance virtual time by that times the speed."""
        left_s = None if until is None else max(until - self.now_s, 0.0)
        if left_s == 0 or (self.now_s < self.hurry_until and left_s is not None):
            super()._pass_time(until)
            return
        longest_s = TICK_S if left_s is None or self.paused else min(left_s / self.speed, TICK_S)
        before = self._real.monotonic()
        line = self._listen(longest_s)
        passed_s = (self._real.monotonic() - before) * self.speed
        if not self.paused and left_s is not None:
            self.now_s += min(passed_s, left_s)
        if line is not None:
            self.on_line(line)
        self.on_tick()

    def _listen(self, seconds: float) -> str | None:
        """Return a line that was typed within a while; an end of input is returned once."""
        source = [] if self._ended else [sys.stdin]
        readable, _, _ = select.select(source, [], [], max(seconds, 0.0))
        if not readable:
            return None
        line = sys.stdin.readline()
        self._ended = not line
        return line.strip() if line else "quit"


T = TypeVar("T")

COLLECT_AFTER = (1_000_000, 10, 5)
"""A world keeps nearly all that it makes, so that looking for garbage among it as often as Python
usually does takes a third of the time: a million objects, some 100 MB, are worth a look.
Worlds that are over are collected after a dozen, by the rules that hold between them."""


def run_simulated(
    main: Coroutine[Any, Any, T], loop: Callable[[], asyncio.AbstractEventLoop] = SimLoop
) -> T:
    """Return what `main` returns, under virtual time."""
    found: list[T] = []

    async def keep() -> None:
        # Not as the task's result: a runner has that spelled out when it takes its signal handler
        # down, and what comes of a long story is a long text.
        found.append(await main)

    before = gc.get_threshold()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(keep())
    finally:
        gc.set_threshold(*before)
    return found[0]
