"""Machines as they were last described: what is described in the same words is not read again."""

from collections.abc import Callable, Iterable

import msgspec

from navarch.core.instance import Instance


class Readings:
    """The machines of the last listing, by the very bytes that described them.

    A listing of thousands is nearly always the one before, and equal bytes describe equal
    machines. A shortcut and not state: it holds one listing, and a new process begins without.
    """

    def __init__(self, read: Callable[[bytes], Instance]) -> None:
        self._read = read
        self._last: dict[bytes, Instance] = {}

    def take(self, listed: Iterable[msgspec.Raw]) -> list[Instance]:
        """Return the machines of a listing. What `read` raises leaves the last one as it was."""
        last, read = self._last, self._read
        now: dict[bytes, Instance] = {}
        found: list[Instance] = []
        for words in map(bytes, listed):
            machine = now[words] = last.get(words) or read(words)
            found.append(machine)
        self._last = now
        return found
