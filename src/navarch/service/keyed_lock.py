"""A lock per key."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple
from weakref import WeakValueDictionary

from navarch.service.attempts import until_no_conflict

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class KeyedLock:
    """Serialises calls with the same key, in the order in which they were made."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Only locks that are held or waited for: callers hold the strong references."""

    async def take(self, key: str, attempt: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Return the result of `attempt`, made while no other attempt with `key` runs.

        It is repeated after a ConflictError, because changes elsewhere may still interfere.
        """
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            return await until_no_conflict(attempt, *args)
