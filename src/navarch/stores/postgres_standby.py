"""A server on standby for a PostgreSQL database: it follows the commits of the leader."""

from contextlib import suppress

import msgspec

from navarch.core.errors import InUseError, StoreAwayError
from navarch.core.fleet import Change, Fleet, apply
from navarch.ports.clock import Clock, Entropy, Offload
from navarch.stores.commit_queue import InDoubtError
from navarch.stores.postgres import (
    Contents,
    PostgresStore,
    commits_channel,
    load,
    newest_format,
    read_state,
    stored_format,
)
from navarch.stores.postgres_connection import (
    STANDBY,
    Connection,
    LeaderSession,
    PostgresAddress,
)

LISTEN_S = 0.25
"""How long one round waits for commits: the most time until a free lock is noticed."""
PAGE = 1_000
"""How many commits are read at a time."""


class PostgresStandby:
    """Holds the fleet as it was last committed, and takes over when the leader ends."""

    def __init__(
        self,
        clock: Clock,
        address: PostgresAddress,
        offload: Offload,
        entropy: Entropy,
        *,
        empty: Fleet | None = None,
        expected: str = "",
    ) -> None:
        """`expected` is the cluster that the database must hold, if that is known."""
        self._clock = clock
        self._address = address
        self._offload = offload
        self._entropy = entropy
        self._empty = empty or Fleet()
        self._expected = expected
        self._session = LeaderSession(address)
        self._connection: Connection | None = None
        """The session that listens."""
        self.known: Contents | None = None
        """What the database held a moment ago; None as long as it holds no fleet."""

    @property
    def revision(self) -> int:
        """The newest revision that it has followed."""
        return 0 if self.known is None else self.known[0].revision

    def close(self) -> None:
        """End the sessions."""
        self._session.close()
        self._disconnect()

    async def take_over(self) -> PostgresStore | None:
        """Follow the leader for a moment; return the store if this process leads now."""
        return await self._offload.run(self._round)

    def _round(self) -> PostgresStore | None:
        try:
            with self._address.errors(f"cannot follow {self._address.shown}"):
                if not self._follow():
                    return None
            with suppress(InUseError):
                self._session.open(wait_s=0.0)
            if self._session.lost:
                return None
            # The previous leader may have committed since.
            with self._address.errors(f"cannot follow {self._address.shown}"):
                if not self._follow(wait_s=0.0):
                    self._session.close()
                    return None
            store = PostgresStore.lead(
                self._clock,
                self._address,
                self._offload,
                self._entropy,
                self._session,
                self._empty,
                self.known,
                expected=self._expected,
            )
        except BaseException as error:
            self.close()
            if isinstance(error, InDoubtError):
                # Whether or not its term began: the next one begins after it.
                raise StoreAwayError(str(error)) from error
            raise
        # The store has the session from here on: `close` must not release its lock.
        self._session = LeaderSession(self._address)
        self._disconnect()
        return store

    def _disconnect(self) -> None:
        connection, self._connection, self.known = self._connection, None, None
        if connection is not None:
            connection.close()

    def _follow(self, wait_s: float = LISTEN_S) -> bool:
        """Wait for commits, and apply those that were made; return whether this version may lead.

        It must not lead, and cannot read, what a newer version has written.
        """
        if self._connection is None:
            self._connection = self._address.connect(STANDBY)
        connection = self._connection
        present = stored_format(connection)
        if present > newest_format(self._empty.kinds):
            self.known = None
            for _ in connection.notifies(timeout=wait_s, stop_after=1):
                pass
            return False
        if self.known is None:
            if present == 0:
                return True
            channel = commits_channel(read_state(connection).cluster)
            # Before the fleet is read, so that no commit is missed.
            connection.execute(f'LISTEN "{channel}"'.encode())
            self.known = load(connection, self._empty)
        for _ in connection.notifies(timeout=wait_s, stop_after=1):
            pass
        if stored_format(connection) != present:
            return False  # It was migrated meanwhile: begin again.
        self._catch_up(connection, self.known)
        return True

    def _catch_up(self, connection: Connection, known: Contents) -> None:
        fleet, cursors = known[0], dict(known[1])
        newest = read_state(connection).revision
        while fleet.revision < newest:
            rows = connection.execute(
                "SELECT revision, body::text FROM commits WHERE revision > %s "
                "ORDER BY revision LIMIT %s",
                (fleet.revision, PAGE),
            ).fetchall()
            if not rows or rows[0][0] != fleet.revision + 1:
                break
            for _, body in rows:
                change = _CHANGE.decode(body)
                fleet = apply(fleet, change)
                cursors.update(change.cursors)
        if fleet.revision < newest or newest < known[0].revision:
            # It has fallen too far behind, or the database was restored.
            fleet, cursors = load(connection, self._empty)  # type: ignore[assignment]
        self.known = fleet, cursors
        connection.execute(
            "SELECT set_config('application_name', %s, false)",
            (f"navarch {STANDBY} at {fleet.revision}",),
        )


_CHANGE = msgspec.json.Decoder(Change)
