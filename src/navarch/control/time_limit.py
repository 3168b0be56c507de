"""A limit on how long calls may take, kept by one timer for all of them."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Call:
    """One that is under way, and the task that waits for it."""

    __slots__ = ("cancelling", "ends_at", "overdue", "task")

    def __init__(self, task: asyncio.Task[object], ends_at: float) -> None:
        self.task = task
        self.cancelling = task.cancelling()
        """How many others had asked that task to stop when it began."""
        self.ends_at = ends_at
        self.overdue = False


class TimeLimit:
    """Has calls take no longer than so long, each of them as `asyncio.timeout` would.

    They all have the same time, so that they run out of it in the order in which they began, and
    nearly none ever does. A timer for each, called off with its answer, would cost more than the
    rest of what is done about a call. This one timer rings when the first that was under way when
    it was set has run out of time, and is set anew for the first that is left.
    """

    def __init__(self, limit: timedelta) -> None:
        self._limit_s = limit.total_seconds()
        self._under_way: dict[_Call, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where the timer is set; None: nowhere."""

    async def keep(self, call: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a call returns, or raise TimeoutError where it does not do so in time."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        begun = _Call(task, loop.time() + self._limit_s)
        self._under_way[begun] = None
        if self._loop is not loop:
            # A loop that came before has been closed, and its timer with it.
            self._set_timer(loop, begun.ends_at)
        try:
            return await call(*args, **kwargs)
        except asyncio.CancelledError:
            if begun.overdue and task.cancelling() <= begun.cancelling + 1:
                raise TimeoutError from None
            raise
        finally:
            del self._under_way[begun]
            if begun.overdue:
                task.uncancel()

    def _set_timer(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        self._loop = loop
        loop.call_at(at, self._ring, loop, at)

    def _ring(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        self._loop = None
        for call in self._under_way:
            if call.ends_at > at:
                self._set_timer(loop, call.ends_at)
                return
            if not call.overdue:
                call.overdue = True
                call.task.cancel()
