"""The format of a database file, and how an older file is brought up to date."""

import sqlite3
from collections.abc import Mapping, Sequence

from navarch.core.errors import StoreError
from navarch.core.fleet import Kind

BESIDE_THE_FLEET: Mapping[int, str] = {
    1: """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    INSERT INTO meta VALUES ('revision', '0'), ('journal_start', '0');
    CREATE TABLE launches (
        token TEXT NOT NULL, instance TEXT NOT NULL, pool TEXT NOT NULL, asked_at TEXT NOT NULL,
        body BLOB NOT NULL, PRIMARY KEY (token, instance)
    );
    CREATE INDEX launches_by_pool ON launches (pool, asked_at);
    CREATE TABLE inventories (node TEXT PRIMARY KEY, body BLOB NOT NULL);
    CREATE TABLE bookmarks (reader TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE events (
        number INTEGER PRIMARY KEY AUTOINCREMENT, revision INTEGER NOT NULL, at REAL NOT NULL,
        about TEXT NOT NULL, body BLOB NOT NULL
    );
    CREATE INDEX events_by_subject ON events (about, number);
    CREATE INDEX events_by_revision ON events (revision);
    CREATE INDEX events_by_time ON events (at);
    """,
    # The ledger is read a page at a time.
    2: "CREATE INDEX launches_by_time ON launches (asked_at, token, instance);",
}
"""The tables that hold no kind of the fleet, by the format that introduced them. Add formats; never
change one that was released."""


def migrate(database: sqlite3.Connection, kinds: Sequence[Kind]) -> None:
    """Bring `database` up to the newest format, or raise StoreError if its format is newer."""
    steps = migrations(kinds)
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > len(steps):
        raise StoreError(
            f"the state was written by a newer navarch (format {version}, this version supports "
            f"up to {len(steps)}); run that version, or start with another --data-dir"
        )
    for number, step in enumerate(steps[version:], start=version + 1):
        database.executescript(f"BEGIN; {step}; PRAGMA user_version = {number}; COMMIT;")


def migrations(kinds: Sequence[Kind]) -> Sequence[str]:
    """Return the SQL that takes a file from each format to the next; the first creates it."""
    newest = max(*BESIDE_THE_FLEET, *(kind.since for kind in kinds))
    return [
        BESIDE_THE_FLEET.get(number, "")
        + "".join(_create(kind) for kind in kinds if kind.since == number)
        for number in range(1, newest + 1)
    ]


def _create(kind: Kind) -> str:
    return f"CREATE TABLE {kind.name} ({kind.key} TEXT PRIMARY KEY, body BLOB NOT NULL);\n"
