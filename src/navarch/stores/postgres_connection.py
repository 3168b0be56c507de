"""Connections to PostgreSQL: addresses without their passwords, and the lock of the leader."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo, errors

from navarch.core.errors import InUseError, StoreAwayError, StoreError, SupersededError
from navarch.stores.commit_queue import InDoubtError

# Its warnings duplicate our errors, in a format that is not ours.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

T = TypeVar("T")

Connection = psycopg.Connection[tuple[Any, ...]]

STANDBY = "standby"
"""The purpose of sessions that follow the leader."""
HOLD_EVERY_S = 0.5
"""The pause between two statements of a leader without commits: see `PostgresStore.hold`."""
SILENCE_S = 3.0
"""After this silence another server may end the session of the leader, and so its leadership: a
server that is paused, frozen or cut off is replaced."""
LOCK_WAIT_S = 1.0
"""How long an opening store waits for the lock: the previous session may be about to end."""
SERVER_MIN = 140000
"""The oldest PostgreSQL that is maintained."""

_DEFAULTS = {
    "connect_timeout": "5",
    # A database behind a cut cable must not keep a commit waiting for a quarter of an hour.
    "tcp_user_timeout": "2500",
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "3",
}
_LOCK = "hashtext('navarch'), hashtext(current_schema())"
_END_SILENT_LEADER = """
SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = hashtext('navarch')::oid AND objid = hashtext(current_schema())::oid
    AND wait_event_type = 'Client'
    AND state_change < clock_timestamp() - make_interval(secs => %s)
"""
"""Ends the session that holds the lock if it has waited that long for its client, also within a
transaction. A session that waits for a disk or for a standby database is not silent."""


class PostgresAddress:
    """Where a database is and how to log in. Only `connect` uses the password."""

    def __init__(self, url: str, *, password: str | None = None) -> None:
        try:
            given = {k: str(v) for k, v in conninfo.conninfo_to_dict(url).items() if v is not None}
        except psycopg.Error:
            # Its message may quote the password.
            raise StoreError(
                "the address of the store is not a PostgreSQL URL; write "
                "postgresql://USER@HOST:5432/DATABASE (special characters percent-encoded)"
            ) from None
        self._secrets = [x for x in (given.get("password"), password) if x]
        if password is not None:
            given["password"] = password
        self._parameters: dict[str, Any] = {**_DEFAULTS, **given}
        host, port = given.get("host", "localhost"), given.get("port", "5432")
        user = f"{given['user']}@" if "user" in given else ""
        self.shown = f"postgresql://{user}{host}:{port}/{given.get('dbname', '')}"
        """The address for messages and logs, without the password."""

    def connect(self, purpose: str, **settings: str) -> Connection:
        """Return a new connection with `settings` of the server, or raise StoreError."""
        with self.errors(f"cannot connect to {self.shown}"):
            connection = psycopg.connect(
                **{**self._parameters, "application_name": f"navarch {purpose}"}, autocommit=True
            )
            try:
                self._prepare(connection, settings)
            except BaseException:
                connection.close()
                raise
            return connection

    def _prepare(self, connection: Connection, settings: dict[str, str]) -> None:
        if connection.info.server_version < SERVER_MIN:
            raise StoreError(f"{self.shown} is older than PostgreSQL 14; upgrade it")
        if connection.info.parameter_status("server_encoding") != "UTF8":
            raise StoreError(f"{self.shown} does not use UTF8; create it with ENCODING 'UTF8'")
        if _one(connection, "SELECT current_schema()") is None:
            raise StoreError(f"{self.shown} has no schema in its search_path; create one")
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Raise the errors of the database as StoreError, without the password."""
        try:
            yield
        except psycopg.Error as error:
            text = " ".join(str(error).split())
            for secret in self._secrets:
                text = text.replace(secret, "***")
            lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
            raise (StoreAwayError if lost else StoreError)(f"{doing}: {text}") from None


class LeaderSession:
    """The session that writes. It holds an advisory lock, which ends with the session.

    The lock only keeps servers from displacing each other; what fences an older leader is the
    term, which each transaction checks.
    """

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._connection: Connection | None = None
        self._locked = False

    def open(self, *, wait_s: float = LOCK_WAIT_S) -> Connection:
        """Take the lock, waiting that long for the previous leader to end, or raise InUseError."""
        if self._connection is None or self._connection.closed:
            self._connection = self._address.connect(
                "leader",
                # The database may end idle sessions; the lock is held by one.
                idle_session_timeout="0",
                idle_in_transaction_session_timeout="0",
            )
        self._locked = False
        try:
            self._lock(self._connection, wait_s)
        except InUseError:
            raise
        except BaseException:
            self.close()
            raise
        self._locked = True
        return self._connection

    def _lock(self, connection: Connection, wait_s: float) -> None:
        with self._address.errors(f"cannot lead {self._address.shown}"):
            if _one(connection, "SELECT pg_is_in_recovery()"):
                raise StoreError(
                    f"{self._address.shown} is a standby of PostgreSQL; name all its hosts and add "
                    "target_session_attrs=read-write"
                )
            # Intent must outlive a crash of the database, also where its default is lax.
            connection.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
            connection.execute(_END_SILENT_LEADER, (SILENCE_S,))
            if not _locked(connection, wait_s):
                raise InUseError(
                    f"{self._address.shown} is in use by another navarch server; stop every server "
                    "on it first"
                )

    def run(self, doing: str, work: Callable[[Connection], T]) -> T:
        """Return the result of `work` in one transaction.

        Raises InDoubtError if the connection is lost: what was written may be durable.
        """
        connection = self._connection
        if connection is None or self.lost:
            raise InDoubtError(f"{doing}: the connection to {self._address.shown} was lost")
        try:
            with self._address.errors(doing):
                return work(connection)
        except BaseException as error:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
            if connection.closed and not isinstance(error, SupersededError):
                raise InDoubtError(f"{error}; whether it was written is not known yet") from error
            raise

    @property
    def lost(self) -> bool:
        """Whether the lock must be taken again."""
        return self._connection is None or self._connection.closed or not self._locked

    def close(self) -> None:
        """Release the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                # Before the session ends, so that the next one need not wait for its end.
                connection.execute("SELECT pg_advisory_unlock_all()")
            connection.close()


def _locked(connection: Connection, wait_s: float) -> bool:
    """Take the lock, waiting that long for it; return whether it is held now."""
    if wait_s == 0.0:
        # Standbys ask some times a second: a timeout would be an error in the log of the database.
        return bool(_one(connection, f"SELECT pg_try_advisory_lock({_LOCK})"))
    connection.execute(f"SET lock_timeout = {wait_s * 1000:.0f}")
    try:
        connection.execute(f"SELECT pg_advisory_lock({_LOCK})")
    except errors.LockNotAvailable:
        return False
    connection.execute("SET lock_timeout = 0")
    return True


class ReaderSession:
    """A connection that reads, opened when it is needed and again after it was lost."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._connection: Connection | None = None

    def rows(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:  # noqa: ANN401
        """Return the rows of one query."""
        return self.run(lambda connection: connection.execute(query, parameters).fetchall())

    def run(self, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`, which only reads: it runs again on a new connection."""
        if self._connection is not None and not self._connection.closed:
            try:
                with self._address.errors(f"cannot read {self._address.shown}"):
                    return work(self._connection)
            except StoreError:
                if not self._connection.closed:
                    raise
        self._connection = None
        self._connection = self._address.connect("reader", default_transaction_read_only="on")
        with self._address.errors(f"cannot read {self._address.shown}"):
            return work(self._connection)

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            self._connection.close()


def _one(connection: Connection, query: str) -> Any:  # noqa: ANN401 - a value of any type
    row = connection.execute(query).fetchone()
    assert row is not None, query
    return row[0]
