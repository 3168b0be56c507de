"""An immutable mapping that can be changed cheaply, by sharing what stays the same."""

from collections.abc import ItemsView, Iterator, Mapping, Sized, ValuesView
from math import isqrt
from typing import Generic, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_new = object.__new__


class Table(Mapping[K, V], Generic[K, V]):
    """A mapping whose changed copy costs what the change costs, not what the table holds.

    A large base dictionary is shared by many revisions; each revision lays a small
    dictionary of changes over it. When the overlay has grown to about the square root
    of the base it is folded in, so that a change costs O(sqrt(n)) at worst on average.
    Iteration follows insertion order, as in a dictionary, so that traces repeat.
    """

    __slots__ = ("_base", "_length", "_overlay", "_room")

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = dict(items or {})
        self._overlay: dict[K, V | None] = {}
        self._length: int | None = None
        self._room = _room(self._base)

    def __getitem__(self, key: K) -> V:
        if key in self._overlay:
            value = self._overlay[key]
            if value is None:
                raise KeyError(key)
            return value
        return self._base[key]

    def __contains__(self, key: object) -> bool:
        if key in self._overlay:
            return self._overlay[key] is not None
        return key in self._base

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: V | D | None = None) -> V | D | None:
        """Return the value of `key`, or `default`: without the error that a mapping's own catches.

        Everybody who hears of a commit asks so for what has changed.
        """
        if key in self._overlay:
            value = self._overlay[key]
            return default if value is None else value
        return self._base.get(key, default)

    def __len__(self) -> int:
        # Counted when somebody asks: most revisions of a table are never asked.
        if self._length is None:
            base = self._base
            counted = [(x is not None) - (key in base) for key, x in self._overlay.items()]
            self._length = len(base) + sum(counted)
        return self._length

    def __iter__(self) -> Iterator[K]:
        if not self._overlay:
            yield from self._base
            return
        for key in self._base:
            if key not in self._overlay or self._overlay[key] is not None:
                yield key
        for key, value in self._overlay.items():
            if value is not None and key not in self._base:
                yield key

    def values(self) -> ValuesView[V]:
        """Return a view of the values that is walked without a look-up for each of them."""
        return _Values(self)

    def items(self) -> ItemsView[K, V]:
        """Return a view of keys with values, likewise."""
        return _Items(self)

    def walk(self) -> Iterator[V]:
        """Return every value, in order."""
        if not self._overlay:
            return iter(self._base.values())
        # Laid over a copy, changes keep the places of what they change, and what is new comes last.
        merged = self._base | self._overlay
        return iter([value for value in merged.values() if value is not None])

    def pairs(self) -> Iterator[tuple[K, V]]:
        """Yield every key with its value, in order."""
        if not self._overlay:
            yield from self._base.items()
            return
        overlay = self._overlay
        for key, value in self._base.items():
            changed = overlay.get(key, value)
            if changed is not None:
                yield key, changed
        for key, new in overlay.items():
            if new is not None and key not in self._base:
                yield key, new

    def with_changes(self, changes: Mapping[K, V | None]) -> "Table[K, V]":
        """Return this table with `changes` laid over it; None removes a key."""
        if not changes:
            return self
        changed: Table[K, V] = _new(Table)
        changed._base = self._base
        changed._overlay = overlay = {**self._overlay, **changes}
        changed._length = None
        changed._room = room = self._room
        if len(overlay) > room:
            changed._fold()
        return changed

    def _fold(self) -> None:
        merged = self._base | self._overlay
        for key, value in self._overlay.items():
            if value is None:
                del merged[key]
        # All that was None is out.
        self._base = merged  # type: ignore[assignment]
        self._overlay = {}
        self._room = _room(merged)


def _room(base: Sized) -> int:
    """Return how many changes may lie over a base before they are folded in."""
    return isqrt(16 * len(base) + 1024)


class _Values(ValuesView[V]):
    """The values of a table."""

    __slots__ = ()
    _mapping: Table[object, V]

    def __iter__(self) -> Iterator[V]:
        return self._mapping.walk()


class _Items(ItemsView[K, V]):
    """The keys and values of a table."""

    __slots__ = ()
    _mapping: Table[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._mapping.pairs()
