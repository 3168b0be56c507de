"""Taking turns: one after the other at one place, and nobody waits for those at another."""

import asyncio
from collections import deque
from types import TracebackType


class Turns:
    """Who is at which place, and who waits for it, in the order in which they came.

    Hardly ever anybody has to wait. Nothing is made for who finds a place free but a note that it
    is taken, and nothing is kept of a place once it is free again.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def at(self, place: str) -> "Turn":
        """Return the turn at a place, to be taken with `async with`."""
        return Turn(self._waiting, place)


class Turn:
    """One turn at one place."""

    __slots__ = ("_place", "_waiting")

    def __init__(self, waiting: dict[str, deque[asyncio.Future[None]]], place: str) -> None:
        self._waiting = waiting
        self._place = place

    async def __aenter__(self) -> None:
        queue = self._waiting.get(self._place)
        if queue is None:
            self._waiting[self._place] = deque()
            return
        mine = asyncio.get_running_loop().create_future()
        queue.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():
                # The place was left to us in the same moment, and others may wait for it.
                self._leave()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        """Leave the place to whoever has waited longest and still does, if anybody does."""
        queue = self._waiting[self._place]
        while queue:
            first = queue.popleft()
            if not first.done():
                first.set_result(None)
                return
        del self._waiting[self._place]
