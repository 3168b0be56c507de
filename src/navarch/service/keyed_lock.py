"""Taking turns: one after the other at one place, and nobody waits for those at another."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

from navarch.service.attempts import until_no_conflict

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class KeyedLock:
    """Who is at which place, and who waits for it, in the order in which they came.

    Hardly ever anybody has to wait. Nothing is made for who finds a place free but a note that it
    is taken, and nothing is kept of a place once it is free again.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]] | None] = {}
        """Who waits for each place that is taken; None as long as nobody ever did."""

    async def take(self, place: str, attempt: Callable[[*Ts], Awaitable[T]], *told: *Ts) -> T:
        """Return what an attempt returns that is made when the place is free.

        It is made again whenever its state was outdated, for somebody else may still be quicker.
        """
        if place in self._waiting:
            await self._wait(place)
        else:
            self._waiting[place] = None
        try:
            return await until_no_conflict(attempt, *told)
        finally:
            if self._waiting[place] is None:
                del self._waiting[place]
            else:
                self._leave(place)

    async def _wait(self, place: str) -> None:
        """Wait for a place that is taken."""
        queue = self._waiting[place]
        if queue is None:
            queue = self._waiting[place] = deque()
        mine = asyncio.get_running_loop().create_future()
        queue.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():
                # The place was left to us in the same moment, and others may wait for it.
                self._leave(place)
            raise

    def _leave(self, place: str) -> None:
        """Leave the place to whoever has waited longest and still does, if anybody does."""
        queue = self._waiting[place]
        while queue:
            first = queue.popleft()
            if not first.done():
                first.set_result(None)
                return
        del self._waiting[place]
