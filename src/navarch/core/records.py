"""Records and tables: what every stored value and every kind of it share."""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from dataclasses import MISSING, fields, is_dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

import msgspec

__all__ = ["RecordField", "evolve", "is_record", "record_fields"]

if TYPE_CHECKING:
    # mypy checks each new value against its field's type only through `dataclasses.replace`.
    from dataclasses import replace as evolve
else:
    from msgspec.structs import replace as evolve


class RecordField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a record."""

    name: str
    required: bool
    default: object = None
    """The default value; None if the field is required or has a default factory."""


def is_record(value: object) -> bool:
    """Return whether `value` is a struct, a dataclass or a class of either kind."""
    kind = value if isinstance(value, type) else type(value)
    return issubclass(kind, msgspec.Struct) or is_dataclass(kind)


def record_fields(record: Any) -> tuple[RecordField, ...]:  # noqa: ANN401 - any record
    """Return the fields of a record or of its class, in order."""
    kind = record if isinstance(record, type) else type(record)
    if issubclass(kind, msgspec.Struct):
        return tuple(
            RecordField(
                name=field.name,
                required=field.required,
                default=None if field.default is msgspec.NODEFAULT else field.default,
            )
            for field in msgspec.structs.fields(kind)
        )
    return tuple(
        RecordField(
            name=field.name,
            required=field.default is MISSING and field.default_factory is MISSING,
            default=None if field.default is MISSING else field.default,
        )
        for field in fields(kind)  # type: ignore[arg-type]
    )


K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class Table(Mapping[K, V], Generic[K, V]):
    """An immutable mapping: a changed copy costs what the change costs, not what the table holds.

    Many revisions share one large base dictionary; each revision lays a small dictionary of
    changes over it, in which None marks a removed key. An overlay that has grown to about the
    square root of the base is merged into a new base, so a change costs O(sqrt(n)) on average.
    Iteration follows insertion order, as in a dictionary, so that traces repeat.
    """

    __slots__ = ("_base", "_overlay")

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = dict(items or {})
        self._overlay: dict[K, V | None] = {}

    def with_changes(self, changes: Mapping[K, V | None]) -> "Table[K, V]":
        """Return this table with `changes` laid over it; None removes a key."""
        if not changes:
            return self
        changed: Table[K, V] = Table()
        changed._base, changed._overlay = self._base, {**self._overlay, **changes}
        for key, value in changes.items():
            if value is None and key not in self._base:
                del changed._overlay[key]
        if len(changed._overlay) > isqrt(16 * len(self._base) + 1024):
            changed._base, changed._overlay = changed._merged(), {}
        return changed

    def __getitem__(self, key: K) -> V:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        if key in self._overlay:
            return self._overlay[key] is not None
        return key in self._base

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: V | D | None = None) -> V | D | None:
        """Return the value of `key`, or `default`, without raising a KeyError on the way."""
        value = self._overlay[key] if key in self._overlay else self._base.get(key)
        return default if value is None else value

    def __len__(self) -> int:
        base = self._base
        more = [(value is not None) - (key in base) for key, value in self._overlay.items()]
        return len(base) + sum(more)

    def __bool__(self) -> bool:
        """Return whether anything is left, without counting it in a large table."""
        return len(self._base) > len(self._overlay) or len(self) > 0

    def __iter__(self) -> Iterator[K]:
        return iter(self._merged())

    def values(self) -> ValuesView[V]:
        """Return the values, in the order of their keys."""
        return self._merged().values()

    def items(self) -> ItemsView[K, V]:
        """Return the keys with their values, in order."""
        return self._merged().items()

    def _merged(self) -> dict[K, V]:
        """Return base and overlay as one dictionary: changed keys keep their places."""
        if not self._overlay:
            return self._base
        merged = {**self._base, **self._overlay}
        for key, value in self._overlay.items():
            if value is None:
                del merged[key]
        return cast("dict[K, V]", merged)
