"""The keys that a controller must reconcile, now or at a later time."""

import heapq
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Generic, TypeVar

K = TypeVar("K", bound=str)

NOW = datetime.min.replace(tzinfo=UTC)
"""Earlier than every clock: the due time of a key that is ready."""


class WorkQueue(Generic[K]):
    """A keyed, coalescing, delaying queue, in the manner of Kubernetes' client-go.

    A key is in the queue at most once, however often it is added. It can be ready and have a later
    date at the same time. Keys that a controller has taken are in flight until `done` or `retry`; a
    key that is added meanwhile is ready again after that. Nothing here is durable: after a restart
    controllers add every key that concerns them.
    """

    def __init__(self, keys: Iterable[K] = ()) -> None:
        self._ready: dict[K, None] = dict.fromkeys(keys)
        self._due: dict[K, datetime] = {}
        self._dates: list[tuple[datetime, K]] = []
        """A heap of due times; entries that `_due` no longer confirms are stale."""
        self._in_flight: dict[K, None] = {}
        self._paused_until = NOW
        self.on_change: Callable[[], None] = lambda: None
        """Called when a key may have become due earlier than before."""

    def add(self, key: K) -> None:
        """Make `key` ready."""
        self._ready[key] = None
        self.on_change()

    def add_at(self, key: K, due: datetime) -> None:
        """Make `key` ready at `due`, instead of at the date it had."""
        if self._due.get(key) != due:
            self._due[key] = due
            heapq.heappush(self._dates, (due, key))
            self.on_change()

    def add_by(self, key: K, due: datetime) -> None:
        """Make `key` ready at `due`, or at the date it had if that is earlier."""
        known = self._due.get(key)
        if known is None or due < known:
            self.add_at(key, due)

    def drop_date(self, key: K) -> None:
        """Remove the date of `key`; it stays ready if it is."""
        self._due.pop(key, None)

    def reschedule(self, key: K, due: datetime | None) -> None:
        """Give `key` the date `due`, or none."""
        if due is None:
            self.drop_date(key)
        else:
            self.add_at(key, due)

    def pause_until(self, moment: datetime) -> None:
        """Hand out no key before `moment`."""
        self._paused_until = moment
        self.on_change()

    def take(self, now: datetime) -> list[K]:
        """Return every key that is due, in order. They are in flight until `done` or `retry`."""
        if now < self._paused_until:
            return []
        self._drop_stale_dates()
        while self._dates and self._dates[0][0] <= now:
            _, key = heapq.heappop(self._dates)
            self._due.pop(key, None)
            self._ready[key] = None
            self._drop_stale_dates()
        keys = sorted(self._ready)
        self._ready.clear()
        self._in_flight = dict.fromkeys(keys)
        return keys

    def done(self) -> None:
        """Forget the keys in flight: the controller has reconciled them."""
        self._in_flight = {}

    def retry(self) -> None:
        """Make the keys in flight ready again: the controller has failed."""
        self._ready |= self._in_flight
        self._in_flight = {}

    def next_due(self) -> datetime | None:
        """Return when the next key is due: in the past if one is ready, None if there is none."""
        if self._ready:
            return self._paused_until
        self._drop_stale_dates()
        return max(self._dates[0][0], self._paused_until) if self._dates else None

    @property
    def is_ready(self) -> bool:
        """Whether a key is ready."""
        return bool(self._ready)

    @property
    def depth(self) -> int:
        """The number of keys that are ready, and of those in flight."""
        return len(self._ready) + len(self._in_flight)

    def __contains__(self, key: K) -> bool:
        """Return whether `key` is ready or has a date."""
        return key in self._ready or key in self._due

    def _drop_stale_dates(self) -> None:
        while self._dates and self._due.get(self._dates[0][1]) != self._dates[0][0]:
            heapq.heappop(self._dates)
