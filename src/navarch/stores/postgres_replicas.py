"""The replicas of a PostgreSQL database: a table in which each reports where it answers."""

import socket
from contextlib import suppress
from datetime import timedelta

import msgspec
import psycopg

from navarch.core.errors import StoreAwayError
from navarch.core.fleet import Fleet
from navarch.ports.clock import Clock
from navarch.ports.store import Replica, ReplicaView
from navarch.stores.postgres import (
    newest_format,
    read_replicas,
    read_state,
    stored_format,
)
from navarch.stores.postgres_connection import Connection, PostgresAddress

BEAT_S = 1.0
"""How often a replica reports that it runs."""
LISTEN_S = 0.1
"""How long one round waits for news: the most time until a change of its own is written."""
GONE_AFTER = timedelta(seconds=60)
"""A replica that has not reported for so long is removed."""

_TABLE = """
CREATE TABLE IF NOT EXISTS replicas (
    id text PRIMARY KEY, http text NOT NULL, grpc text NOT NULL, version text NOT NULL,
    started timestamptz NOT NULL, seen timestamptz NOT NULL, revision bigint NOT NULL,
    term bigint, certificate text NOT NULL
)
"""
"""No part of a format: a replica of another version reports here too, and forwards to the leader,
before the database has its format and after. Columns may be added, with defaults."""

_WRITE = """
INSERT INTO replicas (id, http, grpc, version, started, seen, revision, term, certificate)
VALUES (%(id)s, %(http)s, %(grpc)s, %(version)s, %(started)s, clock_timestamp(), %(revision)s,
    %(term)s, %(certificate)s)
ON CONFLICT (id) DO UPDATE SET http = excluded.http, grpc = excluded.grpc,
    seen = excluded.seen, revision = excluded.revision, term = excluded.term,
    certificate = excluded.certificate
"""


class PostgresReplicas:
    """Reports about this process, and reads what others report. Blocking: for one thread."""

    def __init__(self, clock: Clock, address: PostgresAddress) -> None:
        self._clock = clock
        self._address = address
        self._connection: Connection | None = None
        self._written: Replica | None = None
        self._written_at_s = 0.0
        self._view: ReplicaView | None = None

    def local_host(self) -> str:
        """Return the address of this machine on the way to the database."""
        connection = self._connected()
        with socket.socket(fileno=socket.dup(connection.fileno())) as same:
            name = same.getsockname()
        return str(name[0]) if isinstance(name, tuple) else "127.0.0.1"

    def secret(self) -> bytes | None:
        """Return the secret of the cluster, None before there is a fleet."""
        with self._address.errors(f"cannot read {self._address.shown}"):
            connection = self._connected()
            if stored_format(connection) == 0:
                return None
            return bytes.fromhex(read_state(connection).secret)

    def round(self, own: Replica, *, wait_s: float = LISTEN_S) -> ReplicaView | None:
        """Wait for news, report `own`, and return the view; None before there is a fleet.

        Raises StoreAwayError if the database does not answer.
        """
        with self._address.errors(f"cannot reach {self._address.shown}"):
            connection = self._connected()
            if stored_format(connection) == 0:
                self._pause(connection, wait_s)
                return None
            is_news = self._written is None
            if self._written is None:
                self._join(connection, own)
            elif _same(own, self._written):
                is_news = self._pause(connection, wait_s)
            is_due = self._clock.monotonic() >= self._written_at_s + BEAT_S
            if self._written is None or is_due or not _same(own, self._written):
                self._report(connection, own)
                is_news = True
            if is_news:
                self._view = self._read(connection)
            return self._view

    def leave(self, own: Replica) -> None:
        """Remove this replica."""
        if self._connection is None or self._written is None:
            return
        with suppress(psycopg.Error):
            self._connection.execute("DELETE FROM replicas WHERE id = %s", (own.id,))
            self._announce(self._connection)
        self.close()

    def close(self) -> None:
        """End the session."""
        connection, self._connection, self._written = self._connection, None, None
        if connection is not None:
            connection.close()

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._written = None
            self._connection = self._address.connect("replica", idle_session_timeout="0")
        return self._connection

    def _join(self, connection: Connection, own: Replica) -> None:
        found = connection.execute("SELECT to_regclass('replicas') IS NOT NULL").fetchone()
        if found is None or not found[0]:
            # Two replicas may create it at the same moment; one of them fails and has it too.
            with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
                connection.execute(_TABLE)
        connection.execute(f'LISTEN "{_channel(connection)}"'.encode())
        # A process that was killed has left its row; its port is ours now.
        connection.execute("DELETE FROM replicas WHERE http = %s AND id <> %s", (own.http, own.id))

    def _report(self, connection: Connection, own: Replica) -> None:
        before = self._written
        connection.execute(_WRITE, msgspec.structs.asdict(own))
        self._written, self._written_at_s = own, self._clock.monotonic()
        if before is None or not _same(own, before):
            self._announce(connection)
        connection.execute("DELETE FROM replicas WHERE seen < now() - %s", (GONE_AFTER,))

    def _announce(self, connection: Connection) -> None:
        connection.execute("SELECT pg_notify(%s, '')", (_channel(connection),))

    def _pause(self, connection: Connection, wait_s: float) -> bool:
        return any(True for _ in connection.notifies(timeout=wait_s, stop_after=1))

    def _read(self, connection: Connection) -> ReplicaView:
        row = read_state(connection)
        return ReplicaView(
            term=row.term,
            obstacle=_obstacle(stored_format(connection)),
            replicas=read_replicas(connection),
        )


def _obstacle(present: int) -> str:
    newest = newest_format(Fleet.kinds)
    if present <= newest:
        return ""
    return (
        f"the database has format {present}, and this version reads formats up to {newest}: it "
        "forwards to the leader and cannot lead; upgrade it"
    )


def _same(one: Replica, other: Replica) -> bool:
    """Return whether two reports differ in nothing but how far the replica follows."""
    return msgspec.structs.replace(one, revision=other.revision) == other


def _channel(connection: Connection) -> str:
    found = connection.execute("SELECT current_schema()").fetchone()
    if found is None:
        raise StoreAwayError("the session has no schema")
    return f"navarch replicas {found[0]}"
