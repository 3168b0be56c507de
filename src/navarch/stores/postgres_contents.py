"""The contents of a PostgreSQL database: read while a server runs, written in one transaction."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager

from psycopg import sql

from navarch.core.errors import StoreError
from navarch.core.fleet import Fleet
from navarch.stores.contents import TABLES, Header, Row, Table
from navarch.stores.postgres import (
    migrate_postgres,
    newest_format,
    read_state,
    stored_format,
)
from navarch.stores.postgres_connection import Connection, LeaderSession, PostgresAddress

PAGE = 10_000
"""How many rows are fetched at a time."""


class PostgresContents:
    """A database as of the moment in which its transaction began."""

    def __init__(self, address: PostgresAddress, connection: Connection) -> None:
        self.shown = address.shown
        self._connection = connection

    def header(self) -> Header:
        """Return the header."""
        row = read_state(self._connection)
        return Header(**{name: getattr(row, name) for name in Header.__struct_fields__})

    def rows(self, table: Table) -> Iterator[Row]:
        """Yield the rows of a table in their order."""
        columns = ", ".join("body::text" if name == "body" else name for name in table.columns)
        order = ", ".join(
            name if name == "number" else f'{name} COLLATE "C"' for name in table.order
        )
        query = f"SELECT {columns} FROM {table.name} ORDER BY {order or 'place'}"
        with self._connection.cursor(f"read_{table.name}") as cursor:
            cursor.itersize = PAGE
            cursor.execute(query.encode())
            yield from cursor

    def damage(self) -> Iterator[str]:
        """Yield nothing: reading each row fails where a page is damaged."""
        yield from ()


@contextmanager
def read_postgres(address: PostgresAddress) -> Iterator[PostgresContents]:
    """Open a database to read it, also while a server leads."""
    with (
        address.errors(f"cannot read {address.shown}"),
        closing(address.connect("reader", default_transaction_read_only="on")) as connection,
    ):
        _check_format(address, connection)
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield PostgresContents(address, connection)


class NewPostgresTables(PostgresContents):
    """A database without a fleet, which receives one in a transaction."""

    def write(self, header: Header, rows: Callable[[Table], Iterable[Row]]) -> None:
        """Create the tables and write everything."""
        connection = self._connection
        connection.execute("BEGIN")
        if stored_format(connection) and connection.execute("SELECT 1 FROM state").fetchone():
            raise StoreError(f"{self.shown} holds a fleet already; nothing was written")
        migrate_postgres(connection, Fleet.kinds)
        names = Header.__struct_fields__
        connection.execute(
            sql.SQL("INSERT INTO state ({}) VALUES ({})").format(
                sql.SQL(", ").join(map(sql.Identifier, names)),
                sql.SQL(", ").join([sql.Placeholder()] * len(names)),
            ),
            [getattr(header, name) for name in names],
        )
        for table in TABLES:
            copy = sql.SQL("COPY {} ({}) FROM STDIN").format(
                sql.Identifier(table.name),
                sql.SQL(", ").join(map(sql.Identifier, table.columns)),
            )
            with connection.cursor() as cursor, cursor.copy(copy) as sink:
                for row in rows(table):
                    sink.write_row(row)

    def commit(self) -> None:
        """Make the tables durable."""
        self._connection.execute("COMMIT")


@contextmanager
def new_postgres(address: PostgresAddress) -> Iterator[NewPostgresTables]:
    """Open a database without a fleet, to write one; raise InUseError if a server leads."""
    with leader_session(address) as connection, address.errors(f"cannot write {address.shown}"):
        yield NewPostgresTables(address, connection)


@contextmanager
def leader_session(address: PostgresAddress) -> Iterator[Connection]:
    """Keep servers from the database; raise InUseError if one leads."""
    with closing(LeaderSession(address)) as session:
        yield session.open()


def migrate_database(address: PostgresAddress) -> tuple[int, int]:
    """Bring a database to the newest format; return the format before and after."""
    with leader_session(address) as connection, address.errors(f"cannot migrate {address.shown}"):
        before = stored_format(connection)
        if before == 0:
            raise StoreError(f"{address.shown} holds no fleet")
        migrate_postgres(connection, Fleet.kinds)
        return before, newest_format(Fleet.kinds)


def mark_postgres(address: PostgresAddress, moved_to: str | None) -> str | None:
    """Record where the state was moved, None to take that back; return what was recorded."""
    with leader_session(address) as connection, address.errors(f"cannot write {address.shown}"):
        _check_format(address, connection)
        with connection.transaction():
            found = read_state(connection).moved_to
            connection.execute("UPDATE state SET moved_to = %s", (moved_to,))
        return found


def _check_format(address: PostgresAddress, connection: Connection) -> None:
    present, newest = stored_format(connection), newest_format(Fleet.kinds)
    if present == 0:
        raise StoreError(f"{address.shown} holds no fleet")
    if present != newest:
        raise StoreError(
            f"{address.shown} has format {present}, and this version reads format {newest}; "
            + ("run a newer navarch" if present > newest else "run: navarch store migrate")
        )
