"""A store in one SQLite file: durable, embedded, for one control plane at a time."""

import fcntl
import gc
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from navarch.core.errors import InUseError, MovedError, StoreError, SupersededError
from navarch.core.event import Event, Recorded, Subject
from navarch.core.fleet import Change, Fleet, Kind
from navarch.core.ids import NodeId, PoolName
from navarch.core.instance import Inventory
from navarch.core.launch import Launch
from navarch.core.ownership import Cluster
from navarch.ports.clock import Entropy, Offload
from navarch.ports.store import PRUNED_AT_ONCE, Committed, StoreInfo
from navarch.stores.commit_queue import CommitQueue
from navarch.stores.state_cache import StateCache

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


def make_shrinkable(database: sqlite3.Connection) -> None:
    """Rewrite a file of an older version that cannot shrink, unless it holds too much."""
    mode, pages, free, size = (
        int(database.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("auto_vacuum", "page_count", "freelist_count", "page_size")
    )
    if mode != INCREMENTAL and (pages - free) * size <= REWRITTEN_MAX:
        # A full disk must not keep the server from starting.
        with suppress(sqlite3.OperationalError):
            database.executescript(f"PRAGMA auto_vacuum = {INCREMENTAL}; VACUUM")


def _create(kind: Kind) -> str:
    return f"CREATE TABLE {kind.name} ({kind.key} TEXT PRIMARY KEY, body BLOB NOT NULL);\n"


DATABASE = "navarch.db"
LOCK = "lock"
MARK = "cluster-id"
"""Names the cluster beside its database, so that a lost database is no new cluster."""

_UNREADABLE = (msgspec.MsgspecError, OSError, LookupError, TypeError, ValueError)
"""What reading a damaged record raises."""
MOVED_TO = "moved_to"
"""The key in `meta` that says where `navarch store copy` has taken this state."""


INCREMENTAL = 2
"""The auto_vacuum mode of a file that can shrink a piece at a time."""

FREED_AT_ONCE = 128
"""Pages of 4 KB. The pages at the end of the file move into free ones, and the end is cut off."""

FREE_SHARE = 8
"""One page in so many stays free, for new events."""

REWRITTEN_MAX = 64 << 20
"""The most bytes that opening a file rewrites: less than a second."""


class SqliteStore:
    """Keeps the fleet in memory and every change of it in a database file.

    One process at a time may write: it holds a lock on the directory, which the operating
    system releases when the process ends, for whatever reason. Every commit has reached the
    disk before `commit` returns.
    """

    def __init__(
        self,
        offload: Offload,
        database: sqlite3.Connection,
        lock: int,
        file: Path,
        cluster: Cluster,
        term: int,
        empty: Fleet,
    ) -> None:
        self.cluster = cluster
        self._term = term
        self._offload = offload
        self._database = database
        self._lock = lock
        self._file = file
        cursors = dict(database.execute("SELECT * FROM bookmarks"))
        self._state = StateCache(_load(database, empty), cursors)
        self._commits = CommitQueue(self._state, self._write_batch)
        self._journal_start = int(_meta(database)["journal_start"])

    @classmethod
    def open(
        cls, directory: Path, offload: Offload, entropy: Entropy, *, empty: Fleet | None = None
    ) -> "SqliteStore":
        """Open the store in `directory`, creating it if it does not exist.

        `empty` is the fleet of a new store; its kinds are the tables of the database.
        """
        empty = empty or Fleet()
        with ExitStack() as undo:
            lock = lock_folder(directory)
            undo.callback(os.close, lock)
            marked = read_mark(directory)
            _check_files(directory, marked)
            try:
                # Calls come from one thread at a time, but not always the same one.
                database = sqlite3.connect(
                    directory / DATABASE, check_same_thread=False, isolation_level=None
                )
                undo.callback(database.close)
                _check_cluster(database, directory, marked)
                # It holds the secret that signs our machines' labels.
                (directory / DATABASE).chmod(0o600)
                # Before anything else, because it holds for files that are still empty.
                database.execute(f"PRAGMA auto_vacuum = {INCREMENTAL}")
                database.execute("PRAGMA journal_mode = WAL")
                # FULL: a commit is on the disk when it returns. Intent must outlive a power cut.
                database.execute("PRAGMA synchronous = FULL")
                migrate(database, empty.kinds)
                _check_tables(database, empty.kinds)
                if (moved_to := _meta(database).get(MOVED_TO)) is not None:
                    raise MovedError(str(directory / DATABASE), moved_to)
                make_shrinkable(database)
                database.execute(
                    "INSERT INTO meta VALUES ('term', '1') "
                    "ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
                )
                term = _term(database)
                cluster = _cluster(database, entropy)
                store = cls(offload, database, lock, directory / DATABASE, cluster, term, empty)
                if not marked:
                    write_mark(directory, cluster.id)
            except (sqlite3.Error, *_UNREADABLE) as error:
                if _is_damage(error):
                    raise _damaged(directory, str(error) or type(error).__name__) from error
                raise StoreError(f"{directory / DATABASE}: {error}") from error
            undo.pop_all()
            return store

    def close(self) -> None:
        """Close the file and release the directory."""
        self._database.close()
        os.close(self._lock)

    @property
    def term(self) -> int:
        """The number of times this state was opened, this time included."""
        return self._term

    def fleet(self) -> Fleet:
        """Return the newest fleet."""
        return self._state.fleet

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        """Write `change` to disk, or raise ConflictError.

        Changes that arrive while the disk is busy are written in one transaction; each is a
        revision of its own.
        """
        return await self._commits.add(change, based_on)

    async def info(self) -> StoreInfo:
        """Return the size of the file with its log."""
        files = (self._file, self._file.with_name(f"{DATABASE}-wal"))
        size = sum(file.stat().st_size for file in files if file.exists())
        return StoreInfo(kind="SQLite", place=str(self._file), bytes=size)

    hold_every: timedelta | None = None

    async def hold(self) -> None:
        """Raise SupersededError if a later term has begun."""
        await self.confirm()

    async def confirm(self) -> None:
        """Raise SupersededError if a later term has begun."""
        await self._offload.run(self._check_term)

    async def check_writable(self) -> None:
        """Write a row and wait for the disk; raise StoreError if that fails."""
        async with self._commits.alone():
            await self._offload.run(self._write_row)

    def subscribe(self, listener: Callable[[Committed], None]) -> Callable[[], None]:
        """Call `listener` after each commit."""
        return self._state.subscribe(listener)

    async def events(
        self,
        *,
        after: int = 0,
        after_revision: int = 0,
        before: int | None = None,
        about: Subject | None = None,
        newest_first: bool = False,
        limit: int = 1000,
    ) -> Sequence[Recorded]:
        """Return a piece of the journal."""
        # Numbers and revisions grow together, so a revision is found by its index and becomes a
        # number: with both in the condition SQLite would read the whole journal.
        query = (
            "SELECT number, revision, body FROM events WHERE number > max(:after, coalesce("
            "(SELECT number FROM events WHERE revision <= :after_revision "
            "ORDER BY revision DESC, number DESC LIMIT 1), 0)) "
            + ("" if before is None else "AND number < :before ")
            + ("" if about is None else "AND about = :about ")
            + f"ORDER BY number {'DESC' if newest_first else 'ASC'} LIMIT :limit"
        )
        given = {
            "after": after,
            "after_revision": after_revision,
            "before": before,
            "about": about,
            "limit": limit,
        }
        return await self._offload.run(
            lambda: [
                Recorded(number=number, revision=revision, event=_EVENT.decode(body))
                for number, revision, body in self._database.execute(query, given)
            ]
        )

    def cursor(self, reader: str) -> int | None:
        """Return the cursor of `reader` in the journal, if it has one."""
        return self._state.cursors.get(reader)

    @property
    def journal_start(self) -> int:
        """The revision after which the journal is complete."""
        return self._journal_start

    async def prune(self, before: datetime, *, limit: int = PRUNED_AT_ONCE) -> bool:
        """Drop a piece of the journal that is older than `before`."""
        async with self._commits.alone():
            start, more = await self._offload.run(partial(self._prune, before, limit))
            self._journal_start = max(self._journal_start, start)
        return more

    async def shrink(self) -> bool:
        """Give a piece of the space that pruning freed back to the disk."""
        async with self._commits.alone():
            return await self._offload.run(self._shrink)

    async def launches(
        self,
        *,
        pool: PoolName | None = None,
        after: Launch | None = None,
        limit: int | None = None,
    ) -> Sequence[Launch]:
        """Return the launches that are over."""
        query = (
            "SELECT body FROM launches WHERE (?1 IS NULL OR pool = ?1) "
            "AND (?2 IS NULL OR (asked_at, token, instance) > (?2, ?3, ?4)) "
            "ORDER BY asked_at, token, instance LIMIT ?5"
        )
        start = (
            (None, None, None)
            if after is None
            else (after.asked_at.isoformat(), after.token, after.instance or "")
        )
        parameters = (pool, *start, -1 if limit is None else limit)
        return await self._offload.run(
            lambda: [_LAUNCH.decode(body) for (body,) in self._database.execute(query, parameters)]
        )

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return the inventory that the agent of `node` reported."""
        return (await self.inventories([node])).get(node)

    async def inventories(self, nodes: Collection[NodeId]) -> Mapping[NodeId, Inventory]:
        """Return the inventories of some nodes in one read."""
        # As one parameter: SQLite bounds how many there are.
        query = "SELECT node, body FROM inventories WHERE node IN (SELECT value FROM json_each(?))"
        names = msgspec.json.encode(list(nodes)).decode()
        rows = await self._offload.run(lambda: self._database.execute(query, (names,)).fetchall())
        return {NodeId(node): _INVENTORY.decode(body) for node, body in rows}

    async def _write_batch(self, changes: Sequence[Change], revision: int) -> None:
        await self._offload.run(partial(self._write, changes, revision))

    def _write(self, changes: Sequence[Change], revision: int) -> None:
        """Write changes as one revision each, all of them or none."""
        try:
            with self._transaction():
                for number, change in enumerate(changes, start=revision):
                    self._write_change(change, number)
        except sqlite3.Error as error:
            raise StoreError(f"cannot write revision {revision}: {error}") from error

    def _write_row(self) -> None:
        try:
            with self._transaction():
                self._database.execute(
                    "INSERT INTO meta VALUES ('probe', '1') "
                    "ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
                )
        except sqlite3.Error as error:
            raise StoreError(f"the state cannot be written: {error}") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Make what the block writes durable as a whole, if this process still leads."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._check_term()
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def _check_term(self) -> None:
        """Raise SupersededError if a later term has begun: part of every transaction.

        The lock on the directory has no effect on some shared disks. If two processes take
        themselves for the leader, only the one that opened the state later can write.
        """
        newest = _term(self._database)
        if newest != self._term:
            raise SupersededError(
                f"another navarch server has taken over this state (its term is {newest}, the term "
                f"of this server {self._term}); this server stops"
            )

    def _prune(self, before: datetime, limit: int) -> tuple[int, bool]:
        """Return the last revision that was dropped, or 0, and whether more may be left."""
        # Whole revisions only: a watcher must never receive half of one.
        query = (
            "SELECT revision, max(at) FROM events WHERE revision <= coalesce("
            "(SELECT revision FROM events ORDER BY number LIMIT 1 OFFSET ?), "
            "(SELECT max(revision) FROM events)) GROUP BY revision ORDER BY revision"
        )
        with self._transaction():
            found = self._database.execute(query, (limit - 1,)).fetchall()
            old = list(takewhile(lambda row: row[1] < before.timestamp(), found))
            if not old:
                return 0, False
            start = int(old[-1][0])
            self._database.execute("DELETE FROM events WHERE revision <= ?", (start,))
            self._database.execute(
                "UPDATE meta SET value = ?1 WHERE key = 'journal_start' AND value + 0 < ?1",
                (start,),
            )
            (newest,) = self._database.execute("SELECT max(revision) FROM events").fetchone()
        return start, len(old) == len(found) and newest is not None

    def _shrink(self) -> bool:
        free, pages, mode = (
            int(self._database.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("freelist_count", "page_count", "auto_vacuum")
        )
        if mode != INCREMENTAL or free <= max(pages // FREE_SHARE, FREED_AT_ONCE):
            return False
        self._check_term()
        # As a script: `execute` ends this statement after its first page.
        self._database.executescript(f"PRAGMA incremental_vacuum({FREED_AT_ONCE})")
        return True

    def _write_change(self, change: Change, revision: int) -> None:
        writes: list[tuple[str, list[tuple[object, ...]]]] = []
        for kind in self._state.fleet.kinds:
            name, key, written = kind.name, kind.key, kind.written(change)
            writes += [
                (
                    f"INSERT INTO {name} ({key}, body) VALUES (?, ?) "
                    f"ON CONFLICT ({key}) DO UPDATE SET body = excluded.body",
                    [
                        (each, _encode(record))
                        for each, record in written.items()
                        if record is not None
                    ],
                ),
                (
                    f"DELETE FROM {name} WHERE {key} = ?",
                    [(each,) for each, record in written.items() if record is None],
                ),
            ]
        writes += [
            (
                "INSERT OR REPLACE INTO launches VALUES (?, ?, ?, ?, ?)",
                [
                    (x.token, x.instance or "", x.pool, x.asked_at.isoformat(), _encode(x))
                    for x in change.launches
                ],
            ),
            (
                "DELETE FROM launches WHERE token = ? AND instance = ?",
                [(token, instance or "") for token, instance in change.forget_launches],
            ),
            (
                "INSERT OR REPLACE INTO inventories VALUES (?, ?)",
                [(node, _encode(found)) for node, found in change.inventories.items()],
            ),
            ("DELETE FROM inventories WHERE node = ?", [(node,) for node in change.forget_nodes]),
            (
                "INSERT INTO events (revision, at, about, body) VALUES (?, ?, ?, ?)",
                [
                    (revision, each.at.timestamp(), each.about, _encode(each))
                    for each in change.events
                ],
            ),
            ("INSERT OR REPLACE INTO bookmarks VALUES (?, ?)", list(change.cursors.items())),
            ("UPDATE meta SET value = ? WHERE key = 'revision'", [(str(revision),)]),
        ]
        for sql, rows in writes:
            if rows:
                self._database.executemany(sql, rows)


def lock_folder(directory: Path) -> int:
    """Return the lock of a data folder, or raise InUseError while a server holds it."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(f"cannot keep state in {directory}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise InUseError(
            f"{directory} is in use by another navarch server; stop it first, or take over when "
            "it stops: navarch serve --standby"
        ) from error
    return lock


def read_mark(directory: Path) -> str:
    """Return the id of the cluster to which a data folder belongs; empty for a new folder."""
    try:
        return (directory / MARK).read_text().strip()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise StoreError(f"{directory / MARK} cannot be read: {error}") from error


def _check_files(directory: Path, mark: str) -> None:
    """Raise StoreError if the database is gone or empty although there was one."""
    # SQLite writes its log only after the first page of the database.
    files = [directory / DATABASE, directory / f"{DATABASE}-wal"]
    size, log_size = [file.stat().st_size if file.exists() else 0 for file in files]
    if not size and (mark or log_size):
        raise _damaged(directory, "it is missing or empty, and this folder held a cluster")


def write_mark(directory: Path, cluster: str) -> None:
    """Record durably to which cluster a data folder belongs."""
    new = directory / f"{MARK}.new"
    with new.open("w") as file:
        file.write(f"{cluster}\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(directory / MARK)


def _check_cluster(database: sqlite3.Connection, directory: Path, marked: str) -> None:
    """Raise StoreError if the database is not that of the marked cluster."""
    held = _meta(database)["cluster"] if marked else marked
    if held != marked:
        raise StoreError(
            f"{directory / DATABASE} is of cluster {held}, but {directory} is of {marked}: put the "
            f"database of {marked} back, or start {held} with a --data-dir of its own"
        )


def _check_tables(database: sqlite3.Connection, kinds: Sequence[Kind]) -> None:
    """Raise DatabaseError if a table that is read at the start is damaged."""
    for table in ("meta", *(kind.name for kind in kinds)):
        (found, *_) = database.execute(f"PRAGMA quick_check({table})").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(f"table {table}: {found.splitlines()[-1]}")


def _is_damage(error: Exception) -> bool:
    """Return whether the content is wrong, and not the disk full or the file locked."""
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode == sqlite3.SQLITE_ERROR  # Such as a missing table.
    return not isinstance(error, OSError)


def _damaged(directory: Path, why: str) -> StoreError:
    return StoreError(
        f"{directory / DATABASE} is damaged: {why}. Move {DATABASE} and its -wal and -shm files to "
        "another folder, restore a backup with `navarch store restore FILE`, and start again; see "
        '"Backup and restore" in docs/guides/operations.md. A new cluster, which leaves the '
        "machines of this one alone, needs another --data-dir"
    )


def _cluster(database: sqlite3.Connection, entropy: Entropy) -> Cluster:
    given = _meta(database)
    if "cluster" not in given:
        given |= {"cluster": entropy.new_id("cluster"), "secret": entropy.secret().hex()}
        rows = [(key, given[key]) for key in ("cluster", "secret")]
        database.executemany("INSERT INTO meta VALUES (?, ?)", rows)
    return Cluster(id=given["cluster"], secret=bytes.fromhex(given["secret"]))


def _term(database: sqlite3.Connection) -> int:
    (value,) = database.execute("SELECT value FROM meta WHERE key = 'term'").fetchone()
    return int(value)


def _meta(database: sqlite3.Connection) -> dict[str, str]:
    return dict(database.execute("SELECT key, value FROM meta"))


def _load(database: sqlite3.Connection, empty: Fleet) -> Fleet:
    # Loading makes hundreds of thousands of objects, none of them garbage: the collector would
    # look through all of them again and again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        records = {kind.name: _read(database, kind) for kind in empty.kinds}
        return empty.with_records(int(_meta(database)["revision"]), records)
    finally:
        if collecting:
            gc.enable()


def _read(database: sqlite3.Connection, kind: Kind) -> dict[str, Any]:
    """Return the records of a table by key, in the order in which they were created."""
    decoder = msgspec.json.Decoder(kind.type)
    rows = database.execute(f"SELECT {kind.key}, body FROM {kind.name} ORDER BY rowid")
    return {key: decoder.decode(body) for key, body in rows}


_encode = msgspec.json.Encoder().encode
_LAUNCH = msgspec.json.Decoder(Launch)
_EVENT = msgspec.json.Decoder(Event)
_INVENTORY = msgspec.json.Decoder(Inventory)
