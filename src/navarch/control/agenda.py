"""What a loop has to look at: what changed since it last looked, and what has come due."""

import heapq
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Generic, TypeVar

K = TypeVar("K", bound=str)

LONG_AGO = datetime.min.replace(tzinfo=UTC)
"""When what needs a look now came due, for those who only compare."""


class Agenda(Generic[K]):
    """Remembers which things need a look, so that a quiet round costs nothing.

    A memory, not a truth: after a restart everything is noted once.
    """

    def __init__(self) -> None:
        self._noted: dict[K, None] = {}
        self._wake_at: dict[K, datetime] = {}
        self._queue: list[tuple[datetime, K]] = []
        self.stirred = True
        """Whether `due_at` may say something else than when it was last listened to."""
        self.on_stir: Callable[[], None] = lambda: None
        """Hears of it when that becomes so."""

    def note(self, key: K) -> None:
        """Look at `key` in the next round."""
        self._noted[key] = None
        if not self.stirred:
            self.stirred = True
            self.on_stir()

    def wake(self, key: K, at: datetime | None) -> None:
        """Look at `key` again at `at`, instead of at any earlier date given for it."""
        if at is None:
            self._wake_at.pop(key, None)
        elif self._wake_at.get(key) != at:
            self._wake_at[key] = at
            heapq.heappush(self._queue, (at, key))
            if not self.stirred:
                self.stirred = True
                self.on_stir()

    def wake_by(self, key: K, at: datetime) -> None:
        """Look at `key` again at `at`, or at any earlier date given for it."""
        known = self._wake_at.get(key)
        if known is None or at < known:
            self.wake(key, at)

    def due(self, now: datetime) -> list[K]:
        """Return what needs a look now. It stays noted until `done`."""
        self._drop_stale()
        while self._queue and self._queue[0][0] <= now:
            _, key = heapq.heappop(self._queue)
            self._wake_at.pop(key, None)
            self._noted[key] = None
            self._drop_stale()
        return sorted(self._noted)

    def done(self, keys: list[K]) -> None:
        """Cross `keys` off: what was to be done about them is written down."""
        for key in keys:
            self._noted.pop(key, None)

    def next_at(self) -> datetime | None:
        """Return when something comes due next."""
        queue = self._queue
        while queue:
            at, key = queue[0]
            if self._wake_at.get(key) == at:
                return at
            heapq.heappop(queue)
        return None

    def due_at(self) -> datetime | None:
        """Return from when on a look is needed: long ago, if something is noted already."""
        if self._noted:
            return LONG_AGO
        # Every commit asks a few whose agenda is empty.
        return self.next_at() if self._queue else None

    def _drop_stale(self) -> None:
        while self._queue and self._wake_at.get(self._queue[0][1]) != self._queue[0][0]:
            heapq.heappop(self._queue)
