"""A PostgreSQL server with a synchronous standby, and the faults of both."""

import asyncio
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg
from tests.support.postgres_server import PostgresServer

SETTINGS = {
    "wal_retrieve_retry_interval": "200ms",
    "max_wal_senders": "4",
    # Its restarts are part of the schedule, and a checkpoint is not.
    "checkpoint_timeout": "30min",
    "log_line_prefix": "%m [%p] %a %r ",
}
WITHIN_S = 30.0


class DatabasePair:
    """A primary, and a standby that has every commit before it is acknowledged."""

    def __init__(self) -> None:
        self._folder = Path(mkdtemp(prefix="navarch-pair-"))  # short: it holds Unix sockets
        self._folder.chmod(0o755)
        folders = [self._folder / name for name in ("a", "b")]
        for folder in folders:
            folder.mkdir()
        self.primary = PostgresServer(folders[0], settings=SETTINGS)
        self.primary.start()
        self.standby: PostgresServer | None = PostgresServer(
            folders[1], settings=SETTINGS, standby_of=self.primary
        )
        self.standby.start()
        self._watch: psycopg.AsyncConnection[Any] | None = None
        self.ports = (self.primary.port, self.standby.port)
        self.primary.execute("CREATE TABLE chaos_writes (at timestamptz)")
        self.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.execute("SELECT pg_reload_conf()")
        deadline = time.monotonic() + WITHIN_S
        while self.primary.execute("SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
            assert time.monotonic() < deadline, "the standby is not synchronous"
            time.sleep(0.05)

    def keep_logs(self, logs: Path) -> None:
        """Copy what the servers wrote to a folder."""
        for log in self._folder.glob("*/log"):
            shutil.copy(log, logs / f"database-{log.parent.name}.log")

    def close(self) -> None:
        """End both servers and remove their folders."""
        for each in (self.primary, self.standby):
            if each is not None and each.running:
                each.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def restart(self, mode: str) -> float:
        """Restart the primary; return when it accepts commits again."""
        await asyncio.to_thread(self.primary.stop, mode)
        await asyncio.to_thread(self.primary.start)
        return await self.writable()

    async def fail_over(self) -> float:
        """Lose the primary for good and promote its standby; return when that accepts commits."""
        lost, self.standby, standby = self.primary, None, self.standby
        assert standby is not None, "there is one standby"
        await asyncio.to_thread(lost.kill)
        await asyncio.to_thread(standby.promote)
        self.primary = standby
        return await self.writable()

    async def writable(self) -> float:
        """Return the time, on the monotonic clock, at which a commit was acknowledged."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(
                    self.primary.url, autocommit=True
                )
                async with connection:
                    await connection.execute("INSERT INTO chaos_writes VALUES (now())")
                return time.monotonic()
            except psycopg.Error:
                assert time.monotonic() < deadline, "the database does not accept commits"
                await asyncio.sleep(0.02)

    async def sessions(self) -> Mapping[int, bool]:
        """Return the client ports of Navarch's sessions, and whether each holds the lock."""
        try:
            if self._watch is None:
                self._watch = await psycopg.AsyncConnection.connect(
                    self.primary.url, autocommit=True, connect_timeout=2
                )
            found = await self._watch.execute(
                "SELECT client_port, bool_or(locktype IS NOT NULL) FROM pg_stat_activity "
                "LEFT JOIN pg_locks ON pg_locks.pid = pg_stat_activity.pid "
                "AND locktype = 'advisory' AND granted "
                "WHERE application_name LIKE 'navarch%' AND client_port > 0 GROUP BY client_port"
            )
            return {int(port): bool(holds) for port, holds in await found.fetchall()}
        except psycopg.Error:
            await self.unwatch()
            return {}

    async def unwatch(self) -> None:
        """Close the connection that watches the sessions."""
        watch, self._watch = self._watch, None
        if watch is not None:
            await watch.close()
