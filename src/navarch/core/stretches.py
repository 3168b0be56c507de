"""A long sequence that shares with the one after it whatever has not changed.

Of thousands of machines that are listed every minute nearly all are what they were. Whoever keeps
them in stretches makes a new listing at the cost of the stretches that differ, and whoever holds
it against the one before need not look into the others.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from typing import Generic, TypeVar, overload

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

STRETCH_MAX = 64
"""How many stand in one stretch at most."""


class Stretches(Sequence[T_co]):
    """An immutable sequence, one stretch after another; as an object equal to itself only."""

    __slots__ = ("stretches",)

    def __init__(self, stretches: tuple[tuple[T_co, ...], ...] = ()) -> None:
        self.stretches = stretches

    def __len__(self) -> int:
        return sum(map(len, self.stretches))

    def __iter__(self) -> Iterator[T_co]:
        return chain.from_iterable(self.stretches)

    @overload
    def __getitem__(self, index: int) -> T_co: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T_co]: ...

    def __getitem__(self, index: int | slice) -> T_co | Sequence[T_co]:
        return tuple(self)[index]


class Register(Generic[K, T]):
    """Values by key in the order in which the keys came, of which a copy costs what has changed."""

    def __init__(self) -> None:
        self._shelves: list[dict[K, T]] = [{}]
        self._shelf_of: dict[K, int] = {}
        self._stretches: list[tuple[T, ...]] = [()]
        self._stale: set[int] = set()
        """Shelves that are not what their stretches say."""
        self._listing: Stretches[T] = Stretches()

    def get(self, key: K) -> T | None:
        """Return the value of a key, if it stands here."""
        number = self._shelf_of.get(key)
        return None if number is None else self._shelves[number][key]

    def put(self, key: K, value: T) -> None:
        """Write a value down where its key stands; one that is new stands behind all others."""
        number = self._shelf_of.get(key)
        if number is None:
            if len(self._shelves[-1]) >= STRETCH_MAX:
                self._shelves.append({})
                self._stretches.append(())
            number = self._shelf_of[key] = len(self._shelves) - 1
        self._shelves[number][key] = value
        self._stale.add(number)

    def drop(self, key: K) -> None:
        """Let go of a key, if it stands here."""
        number = self._shelf_of.pop(key, None)
        if number is not None:
            del self._shelves[number][key]
            self._stale.add(number)

    def listing(self) -> Stretches[T]:
        """Return all values as they are now: the same object until one of them changes."""
        if self._stale:
            for number in self._stale:
                self._stretches[number] = tuple(self._shelves[number].values())
            self._stale.clear()
            self._listing = Stretches(tuple(self._stretches))
        return self._listing
