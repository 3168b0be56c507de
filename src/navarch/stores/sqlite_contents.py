"""The contents of a SQLite file: read while a server runs, written into a new file."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from navarch.core.errors import StoreError
from navarch.core.fleet import Fleet
from navarch.stores.contents import TABLES, Header, Row, Table
from navarch.stores.sqlite import DATABASE, INCREMENTAL, MOVED_TO, lock_folder, migrate, migrations

HEADER = ("cluster", "secret", "term", "revision", "journal_start")


class SqliteContents:
    """A SQLite file as of the moment in which it was opened."""

    def __init__(self, file: Path, database: sqlite3.Connection) -> None:
        self.shown = str(file)
        self._database = database

    def header(self) -> Header:
        """Return the header."""
        held = dict(self._database.execute("SELECT key, value FROM meta"))
        if missing := [name for name in HEADER if name not in held]:
            raise StoreError(f"{self.shown}: the table meta lacks {', '.join(missing)}")
        (last,) = self._database.execute(
            "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'"
        ).fetchone()
        return Header(
            cluster=held["cluster"],
            secret=held["secret"],
            term=int(held["term"]),
            revision=int(held["revision"]),
            last_event=last,
            journal_start=int(held["journal_start"]),
        )

    def rows(self, table: Table) -> Iterator[Row]:
        """Yield the rows of a table in their order."""
        columns = ", ".join(
            "CAST(body AS TEXT)" if name == "body" else name for name in table.columns
        )
        order = ", ".join(table.order) or "rowid"
        yield from self._database.execute(f"SELECT {columns} FROM {table.name} ORDER BY {order}")

    def damage(self) -> Iterator[str]:
        """Yield what SQLite finds wrong."""
        for (text,) in self._database.execute("PRAGMA integrity_check"):
            if text != "ok":
                yield f"{self.shown}: {text}"


@contextmanager
def read_sqlite(file: Path) -> Iterator[SqliteContents]:
    """Open a file to read it, also while a server uses it."""
    if not file.exists():
        raise StoreError(f"{file} does not exist")
    with _errors(file), closing(_connect(file, "ro")) as database:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        newest = len(migrations(Fleet.kinds))
        if version != newest:
            raise StoreError(
                f"{file} has format {version}, and this version reads format {newest}; "
                + ("run a newer navarch" if version > newest else "run: navarch store migrate")
            )
        database.execute("BEGIN")
        yield SqliteContents(file, database)


class NewSqliteFile(SqliteContents):
    """A file that appears under its name once it is complete."""

    def __init__(self, file: Path, scratch: Path, database: sqlite3.Connection) -> None:
        super().__init__(file, database)
        self._file = file
        self._scratch = scratch

    def write(self, header: Header, rows: Callable[[Table], Iterable[Row]]) -> None:
        """Write everything into a file beside it."""
        database = self._database
        database.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
        database.execute("PRAGMA journal_mode = DELETE")
        migrate(database, Fleet.kinds)
        database.execute("BEGIN")
        for name in HEADER:
            database.execute(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, str(getattr(header, name)))
            )
        for table in TABLES:
            marks = ", ".join(
                "CAST(? AS BLOB)" if name == "body" else "?" for name in table.columns
            )
            database.executemany(
                f"INSERT INTO {table.name} ({', '.join(table.columns)}) VALUES ({marks})",
                rows(table),
            )
        # Numbers of events that were pruned are not assigned again.
        database.execute("DELETE FROM sqlite_sequence WHERE name = 'events'")
        database.execute("INSERT INTO sqlite_sequence VALUES ('events', ?)", (header.last_event,))

    def commit(self) -> None:
        """Give the file its name."""
        self._database.execute("COMMIT")
        self._database.close()
        # `link` refuses to replace a file.
        os.link(self._scratch, self._file)
        folder = os.open(self._file.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


@contextmanager
def new_sqlite(file: Path) -> Iterator[NewSqliteFile]:
    """Open a file that does not exist yet, to write it."""
    log = file.with_name(f"{file.name}-wal")
    if in_the_way := [each for each in (file, log) if each.exists()]:
        names = " and ".join(map(str, in_the_way))
        raise StoreError(f"{names} exists already; move it away first. Nothing was written")
    scratch = file.with_name(f"{file.name}.new")
    with _errors(file):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch.unlink(missing_ok=True)
        # It holds the secret that signs our machines' labels.
        os.close(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            with closing(_connect(scratch, "rw")) as database:
                yield NewSqliteFile(file, scratch, database)
        finally:
            scratch.unlink(missing_ok=True)


@contextmanager
def locked_folder(folder: Path) -> Iterator[Path]:
    """Keep servers from the folder; return its database file. Raises InUseError."""
    lock = lock_folder(folder)
    try:
        yield folder / DATABASE
    finally:
        os.close(lock)


def migrate_sqlite(folder: Path) -> tuple[int, int]:
    """Bring a file to the newest format; return the format before and after."""
    with locked_folder(folder) as file:
        if not file.exists():
            raise StoreError(f"{file} does not exist")
        with _errors(file), closing(_connect(file, "rw")) as database:
            (before,) = database.execute("PRAGMA user_version").fetchone()
            migrate(database, Fleet.kinds)
            return before, len(migrations(Fleet.kinds))


def mark_sqlite(file: Path, moved_to: str | None) -> str | None:
    """Record where the state was moved, None to take that back; return what was recorded."""
    with _errors(file), closing(_connect(file, "rw")) as database:
        database.execute("PRAGMA synchronous = FULL")
        database.execute("BEGIN IMMEDIATE")
        found = database.execute("SELECT value FROM meta WHERE key = ?", (MOVED_TO,)).fetchone()
        database.execute("DELETE FROM meta WHERE key = ?", (MOVED_TO,))
        if moved_to is not None:
            database.execute("INSERT INTO meta VALUES (?, ?)", (MOVED_TO, moved_to))
        database.execute("COMMIT")
        return found[0] if found else None


def _connect(file: Path, mode: str) -> sqlite3.Connection:
    uri = f"{file.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


@contextmanager
def _errors(file: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{file}: {error}") from error
