"""Where the state is: a folder with a SQLite file, or a PostgreSQL database."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from navarch.app.servers import StartError
from navarch.app.watchdog import StoppedLeaderWatch
from navarch.core.errors import InUseError
from navarch.ports.clock import Clock, Entropy, Offload
from navarch.ports.store import DurableStore, ReplicaTable, StandbyStore
from navarch.stores.contents import ReadableStore, WritableStore
from navarch.stores.sqlite import DATABASE, LOCK, SqliteStore, read_mark, write_mark
from navarch.stores.sqlite_contents import (
    locked_folder,
    mark_sqlite,
    migrate_sqlite,
    new_sqlite,
    read_sqlite,
)

RETRY_S = 0.25
"""The interval at which a standby server tries to lock the folder."""

SCHEMES = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class Means:
    """What a store needs to work."""

    clock: Clock
    entropy: Entropy
    offload: Offload


class StorePlace(Protocol):
    """A place that holds state, or will."""

    @property
    def shown(self) -> str:
        """The place for messages and logs, without a password."""

    async def open(self, means: Means) -> DurableStore:
        """Lead the store, creating it if there is none; raise InUseError if another leads."""

    def standby(self, means: Means) -> StandbyStore:
        """Return the store as one that another server leads."""

    def replicas(self, clock: Clock) -> ReplicaTable | None:
        """Return where replicas report; None if only one server at a time can use the place."""

    def remember(self, cluster: str) -> None:
        """Record which cluster it holds, so that a lost database is no new cluster."""

    def read(self) -> AbstractContextManager[ReadableStore]:
        """Open the state to read it, also while a server runs."""

    def create(self) -> AbstractContextManager[WritableStore]:
        """Open a place without state, to write it; keep servers from it meanwhile."""

    def migrate(self) -> tuple[int, int]:
        """Bring the state to the newest format; return the format before and after."""

    def mark(self, moved_to: str | None) -> str | None:
        """Record where the state was moved, or take that back; return what was recorded."""


class Folder:
    """A folder with a SQLite file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / DATABASE
        self.shown = str(folder)

    async def open(self, means: Means) -> DurableStore:
        """Lead the store in the folder."""
        return SqliteStore.open(self._folder, means.offload, means.entropy)

    def standby(self, means: Means) -> StandbyStore:
        """Return what waits for the lock of the folder."""
        opened = partial(SqliteStore.open, self._folder, means.offload, means.entropy)
        watch = StoppedLeaderWatch(means.clock, self._folder / LOCK, self._file)
        return _LockedFolder(means.clock, opened, watch)

    def replicas(self, clock: Clock) -> None:
        """Return None: a folder belongs to one machine."""

    def remember(self, cluster: str) -> None:
        """Do nothing: the store has recorded it."""

    def read(self) -> AbstractContextManager[ReadableStore]:
        """Open the file."""
        return read_sqlite(self._file)

    @contextmanager
    def create(self) -> Iterator[WritableStore]:
        """Open a new file in the locked folder."""
        with locked_folder(self._folder), new_sqlite(self._file) as new:
            yield new

    def migrate(self) -> tuple[int, int]:
        """Migrate the file."""
        return migrate_sqlite(self._folder)

    def mark(self, moved_to: str | None) -> str | None:
        """Mark the file, while no server uses it."""
        with locked_folder(self._folder):
            return mark_sqlite(self._file, moved_to)


class _LockedFolder:
    revision = 0

    def __init__(
        self, clock: Clock, opened: Callable[[], DurableStore], watch: StoppedLeaderWatch
    ) -> None:
        self._clock = clock
        self._open = opened
        self._watch = watch

    async def take_over(self) -> DurableStore | None:
        try:
            return self._open()
        except InUseError:
            self._watch.look()
            await self._clock.sleep(RETRY_S)
            return None

    def close(self) -> None:
        """Do nothing: only the leader holds the lock."""


class Database:
    """A PostgreSQL database."""

    def __init__(self, url: str, folder: Path) -> None:
        """`folder` remembers the cluster, beside the files of the server."""
        # Imported late, here and below: psycopg is an extra.
        try:
            from navarch.stores.postgres_connection import PostgresAddress
        except ModuleNotFoundError as error:
            raise StartError(
                "a store in PostgreSQL needs another package; install it with: "
                "pip install 'navarch[postgres]'"
            ) from error
        self._address = PostgresAddress(url)
        self._folder = folder
        self.shown = self._address.shown

    async def open(self, means: Means) -> DurableStore:
        """Lead the store in the database."""
        from navarch.stores.postgres import PostgresStore

        return await means.offload.run(
            lambda: PostgresStore.open(
                means.clock,
                self._address,
                means.offload,
                means.entropy,
                expected=read_mark(self._folder),
            )
        )

    def standby(self, means: Means) -> StandbyStore:
        """Return what follows the leader."""
        from navarch.stores.postgres_standby import PostgresStandby

        return PostgresStandby(
            means.clock,
            self._address,
            means.offload,
            means.entropy,
            expected=read_mark(self._folder),
        )

    def replicas(self, clock: Clock) -> ReplicaTable:
        """Return the table of replicas."""
        from navarch.stores.postgres_replicas import PostgresReplicas

        return PostgresReplicas(clock, self._address)

    def remember(self, cluster: str) -> None:
        """Record it in the data folder."""
        if not read_mark(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_mark(self._folder, cluster)

    def read(self) -> AbstractContextManager[ReadableStore]:
        """Open the database."""
        from navarch.stores.postgres_contents import read_postgres

        return read_postgres(self._address)

    def create(self) -> AbstractContextManager[WritableStore]:
        """Open an empty database."""
        from navarch.stores.postgres_contents import new_postgres

        return new_postgres(self._address)

    def migrate(self) -> tuple[int, int]:
        """Migrate the database."""
        from navarch.stores.postgres_contents import migrate_database

        return migrate_database(self._address)

    def mark(self, moved_to: str | None) -> str | None:
        """Mark the database, while no server leads it."""
        from navarch.stores.postgres_contents import mark_postgres

        return mark_postgres(self._address, moved_to)


def store_place(folder: Path, url: str | None) -> StorePlace:
    """Return the database at `url`, or the folder if there is none."""
    if url is None:
        return Folder(folder)
    if not url.startswith(SCHEMES):
        raise StartError(
            "the address of the store is not a PostgreSQL URL; write "
            "postgresql://USER@HOST:5432/DATABASE, or leave it out for SQLite in the data folder"
        )
    return Database(url, folder)
