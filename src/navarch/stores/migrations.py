"""How a database file came to look as it does, one step a version."""

import sqlite3

from navarch.core.errors import StoreError

STEPS: tuple[str, ...] = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    INSERT INTO meta VALUES ('revision', '0'), ('journal_start', '0');
    CREATE TABLE pools (name TEXT PRIMARY KEY, body BLOB NOT NULL);
    CREATE TABLE nodes (id TEXT PRIMARY KEY, body BLOB NOT NULL);
    CREATE TABLE commands (id TEXT PRIMARY KEY, body BLOB NOT NULL);
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
    "CREATE INDEX launches_by_time ON launches (asked_at, token, instance);",
    """
    CREATE TABLE incidents (id TEXT PRIMARY KEY, body BLOB NOT NULL);
    """,
    """
    CREATE TABLE recoveries (id TEXT PRIMARY KEY, body BLOB NOT NULL);
    """,
    """
    CREATE TABLE jobs (name TEXT PRIMARY KEY, body BLOB NOT NULL);
    """,
)
"""Each takes a file from one version to the next. Add to the end; never change one that shipped."""


def migrate(database: sqlite3.Connection) -> None:
    """Bring `database` up to the newest version, or refuse one from the future."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > len(STEPS):
        raise StoreError(
            f"the state was written by a newer navarch (format {version}, this one knows "
            f"{len(STEPS)}); run that version, or start with another --data-dir"
        )
    for number, step in enumerate(STEPS[version:], start=version + 1):
        database.executescript(f"BEGIN; {step}; PRAGMA user_version = {number}; COMMIT;")
