"""A cache of parsed listings: entries with unchanged bytes are not parsed again."""

from collections.abc import Callable, Iterable

import msgspec

from navarch.core.instance import Instance


class ListingCache:
    """The machines of the last listing, by the bytes of their entries.

    A listing of thousands is nearly always equal to the one before. The cache holds one listing,
    and a new process starts with an empty cache.
    """

    def __init__(self, read: Callable[[bytes], Instance]) -> None:
        self._read = read
        self._last: dict[bytes, Instance] = {}

    def take(self, listed: Iterable[msgspec.Raw]) -> list[Instance]:
        """Return the machines of a listing. If `read` raises, the cache is unchanged."""
        last, read = self._last, self._read
        now: dict[bytes, Instance] = {}
        found: list[Instance] = []
        for entry in map(bytes, listed):
            machine = now[entry] = last.get(entry) or read(entry)
            found.append(machine)
        self._last = now
        return found
