"""The contents of a store as rows: how backups, restores, copies and checks read and write it."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from navarch.core.errors import StoreError
from navarch.core.event import Event
from navarch.core.fleet import Fleet
from navarch.core.instance import Inventory
from navarch.core.launch import Launch

Row = tuple[Any, ...]
"""The columns of a table in their order, with bodies as JSON text."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """One table, the same in every database."""

    name: str
    columns: Sequence[str]
    order: Sequence[str] = ()
    """The columns by which rows are read; by their creation if there are none."""
    type: Any = None
    """The type of the records in `body`."""


TABLES: Sequence[Table] = (
    *(Table(name=kind.name, columns=(kind.key, "body"), type=kind.type) for kind in Fleet.kinds),
    Table(
        name="launches",
        columns=("token", "instance", "pool", "asked_at", "body"),
        order=("token", "instance"),
        type=Launch,
    ),
    Table(name="inventories", columns=("node", "body"), order=("node",), type=Inventory),
    Table(name="bookmarks", columns=("reader", "number"), order=("reader",)),
    Table(
        name="events",
        columns=("number", "revision", "at", "about", "body"),
        order=("number",),
        type=Event,
    ),
)


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a store holds once."""

    cluster: str
    secret: str
    term: int
    revision: int
    last_event: int
    """The number of the newest event, also if it was pruned."""
    journal_start: int


class ReadableStore(Protocol):
    """The contents of a store as of one moment."""

    shown: str
    """The place for messages, without a password."""

    def header(self) -> Header:
        """Return the header."""

    def rows(self, table: Table) -> Iterator[Row]:
        """Yield the rows of a table in their order."""

    def damage(self) -> Iterator[str]:
        """Yield what the database itself finds wrong."""


class WritableStore(ReadableStore, Protocol):
    """An empty store that receives contents: all of them or nothing."""

    def write(self, header: Header, rows: Callable[[Table], Iterable[Row]]) -> None:
        """Write everything, visible to this object only."""

    def commit(self) -> None:
        """Make what was written durable and visible."""


def fill(target: WritableStore, source: ReadableStore) -> Mapping[str, int]:
    """Write the contents of `source` into `target`, and compare; return the rows by table.

    Raises StoreError, and leaves `target` empty, if both differ.
    """
    header = source.header()
    target.write(header, source.rows)
    if target.header() != header:
        raise StoreError(f"{target.shown} holds another header than {source.shown}: not copied")
    counts = {}
    for table in TABLES:
        before, after = digest(source.rows(table)), digest(target.rows(table))
        if before != after:
            raise StoreError(
                f"{target.shown}: {table.name} differs from {source.shown} after the copy "
                f"({after[0]} of {before[0]} rows); nothing was kept"
            )
        counts[table.name] = before[0]
    target.commit()
    return counts


def digest(rows: Iterable[Row]) -> tuple[int, str]:
    """Return how many rows there are, and a hash of all of them."""
    count, hashed = 0, hashlib.sha256()
    for row in rows:
        count += 1
        hashed.update(repr(row).encode())
    return count, hashed.hexdigest()


def problems(store: ReadableStore) -> Iterator[str]:
    """Yield everything in a store that a server could not read, or that contradicts itself."""
    yield from store.damage()
    header = store.header()
    for table in TABLES:
        for row in store.rows(table):
            values = dict(zip(table.columns, row, strict=True))
            yield from _problems_of_row(table, values, header)


def _problems_of_row(table: Table, values: Mapping[str, Any], header: Header) -> Iterator[str]:
    name = f"{table.name} {values[table.columns[0]]!r}"
    if table.type is None:
        return
    try:
        record = msgspec.json.decode(values["body"], type=table.type)
    except msgspec.MsgspecError as error:
        yield f"{name} cannot be read: {error}"
        return
    for column in table.columns:
        if column in _DERIVED or not hasattr(record, column):
            continue
        stored = getattr(record, column)
        if str(stored if stored is not None else "") != str(values[column]):
            yield f"{name}: its {column} is {values[column]!r}, in the record {stored!r}"
    if table.name == "events":
        if values["number"] > header.last_event or values["revision"] > header.revision:
            yield f"{name} is newer than the store, which is at revision {header.revision}"
        if values["revision"] <= header.journal_start:
            yield f"{name} is older than the journal, which begins after {header.journal_start}"


_DERIVED = ("body", "at", "asked_at")
"""Columns that hold a time in another form than the record."""
