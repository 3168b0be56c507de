"""A store in one SQLite file: durable, embedded, for one control plane at a time."""

import asyncio
import fcntl
import gc
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from navarch.core.command import Command
from navarch.core.errors import ConflictError, InUseError, StoreError, SupersededError
from navarch.core.event import Event, Recorded, Subject
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.core.incident import Incident
from navarch.core.inventory import Inventory
from navarch.core.job import Job
from navarch.core.launch import Launch
from navarch.core.node import Node
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.core.recovery import Recovery
from navarch.core.table import Table
from navarch.ports.clock import Entropy
from navarch.ports.offload import Offload
from navarch.ports.store import Committed, Topic
from navarch.stores.migrations import migrate
from navarch.stores.state_cache import StateCache

T = TypeVar("T")

DATABASE = "navarch.db"
LOCK = "lock"


BATCH_MAX = 256
"""So many changes are written together at most: the first of them waits for the last."""


@dataclass(slots=True)
class _Waiting:
    """A change that is to be written, and whom to tell."""

    change: Change
    based_on: int
    written: asyncio.Future[Fleet]
    touched: Set[str] = frozenset()
    """What it moves, once it is accepted."""

    def succeed(self, fleet: Fleet) -> None:
        if not self.written.done():
            self.written.set_result(fleet)

    def fail(self, error: BaseException) -> None:
        if not self.written.done():
            self.written.set_exception(error)


class SqliteStore:
    """Keeps the fleet in memory and every change of it in a database file.

    One process at a time may write: a lock on the directory, which the operating system
    lets go of when the process dies, however it dies. Each commit is one transaction
    that has reached the disk before `commit` returns.
    """

    def __init__(
        self,
        offload: Offload,
        database: sqlite3.Connection,
        lock: int,
        cluster: Cluster,
        term: int = 0,
    ) -> None:
        self.cluster = cluster
        self._term = term
        self._offload = offload
        self._database = database
        self._lock = lock
        self._turn = asyncio.Lock()
        self._queue: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._head = StateCache(_load(database))
        self._bookmarks: dict[str, int] = dict(database.execute("SELECT * FROM bookmarks"))
        self._journal_start = int(_meta(database)["journal_start"])

    @classmethod
    def open(cls, directory: Path, offload: Offload, entropy: Entropy) -> "SqliteStore":
        """Open the store in `directory`, making it if it is not there."""
        with ExitStack() as undo:
            lock = _lock(directory)
            undo.callback(os.close, lock)
            try:
                database = connect(directory / DATABASE)
                undo.callback(database.close)
                migrate(database)
                term = _begin_term(database)
                store = cls(offload, database, lock, _cluster(database, entropy), term)
            except sqlite3.Error as error:
                raise StoreError(f"{directory / DATABASE}: {error}") from error
            undo.pop_all()
            return store

    def close(self) -> None:
        """Let go of the file and the directory."""
        self._database.close()
        os.close(self._lock)

    @property
    def term(self) -> int:
        """How many have led with this state."""
        return self._term

    def fleet(self) -> Fleet:
        """Return the newest fleet."""
        return self._head.fleet

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        """Write `change` to disk, or raise ConflictError.

        Changes that come in while the disk is busy are written together: each is a revision of
        its own, and all of them wait for one disk.
        """
        # A caller may be cancelled while the disk works. Memory must follow the disk all the
        # same, so the write is a task of its own that the caller only waits for.
        loop = asyncio.get_running_loop()
        waiting = _Waiting(change, based_on, loop.create_future())
        self._queue.append(waiting)
        if self._writing is None or self._writing.done():
            self._writing = loop.create_task(self._write_queue())
        return await asyncio.shield(waiting.written)

    async def _write_queue(self) -> None:
        while self._queue:
            async with self._turn:
                batch, self._queue = self._queue[:BATCH_MAX], self._queue[BATCH_MAX:]
                accepted = list(self._accepted(batch))
                first = self._head.fleet.revision + 1
                try:
                    changes = [waiting.change for waiting in accepted]
                    await self._offload.run(lambda: self._write(changes, first))  # noqa: B023
                except BaseException as error:
                    for waiting in accepted:
                        waiting.fail(error)
                    if not isinstance(error, StoreError):
                        raise
                else:
                    for waiting in accepted:
                        self._bookmarks.update(waiting.change.bookmarks)
                        waiting.succeed(self._head.advance(waiting.change, waiting.touched))

    def _accepted(self, batch: Iterable["_Waiting"]) -> Iterator["_Waiting"]:
        """Yield the changes of a batch that depend on nothing that has moved."""
        moving: set[str] = set()
        for waiting in batch:
            try:
                waiting.touched = self._head.check(waiting.change, waiting.based_on, beside=moving)
            except ConflictError as error:
                waiting.fail(error)
                continue
            moving |= waiting.touched
            yield waiting

    def subscribe(
        self, listener: Callable[[Committed], None], *, about: Collection[Topic] | None = None
    ) -> Callable[[], None]:
        """Call `listener` after each commit, or after those that are `about` some topic."""
        return self._head.subscribe(listener, about)

    async def events(
        self,
        *,
        after: int = 0,
        after_revision: int = 0,
        about: Subject | None = None,
        limit: int = 1000,
    ) -> Sequence[Recorded]:
        """Return a piece of the journal."""
        return await self._offload.run(
            lambda: read_events(self._database, after, after_revision, about, limit)
        )

    def bookmark(self, reader: str) -> int | None:
        """Return how far into the journal `reader` has read."""
        return self._bookmarks.get(reader)

    @property
    def journal_start(self) -> int:
        """The revision after which the journal is complete."""
        return self._journal_start

    async def prune(self, before: datetime) -> None:
        """Drop the part of the journal that is older than `before`."""
        async with self._turn:
            start = await self._offload.run(lambda: self._prune(before))
            self._journal_start = max(self._journal_start, start)

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
        place = (
            (None, None, None)
            if after is None
            else (after.asked_at.isoformat(), after.token, after.instance or "")
        )
        asked = (pool, *place, -1 if limit is None else limit)
        return await self._offload.run(
            lambda: [_LAUNCH.decode(body) for (body,) in self._database.execute(query, asked)]
        )

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return what the agent of `node` found."""
        query = "SELECT body FROM inventories WHERE node = ?"
        found = await self._offload.run(lambda: self._database.execute(query, (node,)).fetchone())
        return _INVENTORY.decode(found[0]) if found else None

    def _write(self, changes: Sequence[Change], revision: int) -> None:
        """Write changes as one revision each, all of them or none."""
        if not changes:
            return
        database = self._database
        try:
            database.execute("BEGIN IMMEDIATE")
            try:
                self._check_term()
                for number, change in enumerate(changes, start=revision):
                    self._write_records(change, number)
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"cannot write revision {revision}: {error}") from error

    def _check_term(self) -> None:
        """Raise SupersededError if another has taken over: part of every transaction.

        The lock keeps a second process away where it holds. Where it does not, on some shared
        disks, this does: of two that both believe to lead, only the later one writes.
        """
        newest = _term(self._database)
        if newest != self._term:
            raise SupersededError(
                f"another navarch server has taken over this state (term {newest}, this one's "
                f"was {self._term}); this one stops"
            )

    def _prune(self, before: datetime) -> int:
        # Whole revisions only: a watcher must never be shown half of one.
        query = "SELECT coalesce(max(revision), 0) FROM events WHERE at < ?"
        (start,) = self._database.execute(query, (before.timestamp(),)).fetchone()
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._check_term()
            self._database.execute("DELETE FROM events WHERE revision <= ?", (start,))
            self._database.execute(
                "UPDATE meta SET value = ?1 WHERE key = 'journal_start' AND value + 0 < ?1",
                (start,),
            )
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")
        return int(start)

    def _write_records(self, change: Change, revision: int) -> None:
        for sql, rows in (
            (
                "INSERT INTO pools (name, body) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET body = excluded.body",
                [(pool.name, _encode(pool)) for pool in change.pools],
            ),
            (
                "INSERT INTO nodes (id, body) VALUES (?, ?) "
                "ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                [(node.id, _encode(node)) for node in change.nodes],
            ),
            (
                "INSERT INTO commands (id, body) VALUES (?, ?) "
                "ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                [(command.id, _encode(command)) for command in change.commands],
            ),
            (
                "INSERT INTO incidents (id, body) VALUES (?, ?) "
                "ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                [(incident.id, _encode(incident)) for incident in change.incidents],
            ),
            (
                "INSERT INTO recoveries (id, body) VALUES (?, ?) "
                "ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                [(recovery.id, _encode(recovery)) for recovery in change.recoveries],
            ),
            (
                "INSERT INTO jobs (name, body) VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET body = excluded.body",
                [(job.name, _encode(job)) for job in change.jobs],
            ),
            (
                "INSERT OR REPLACE INTO launches VALUES (?, ?, ?, ?, ?)",
                [
                    (
                        past.token,
                        past.instance or "",
                        past.pool,
                        past.asked_at.isoformat(),
                        _encode(past),
                    )
                    for past in change.launches
                ],
            ),
            (
                "INSERT OR REPLACE INTO inventories VALUES (?, ?)",
                [(node, _encode(found)) for node, found in change.inventories.items()],
            ),
            ("DELETE FROM nodes WHERE id = ?", [(node,) for node in change.forget_nodes]),
            ("DELETE FROM inventories WHERE node = ?", [(node,) for node in change.forget_nodes]),
            ("DELETE FROM commands WHERE id = ?", [(name,) for name in change.forget_commands]),
            ("DELETE FROM incidents WHERE id = ?", [(name,) for name in change.forget_incidents]),
            ("DELETE FROM recoveries WHERE id = ?", [(name,) for name in change.forget_recoveries]),
            ("DELETE FROM jobs WHERE name = ?", [(name,) for name in change.forget_jobs]),
            (
                "INSERT INTO events (revision, at, about, body) VALUES (?, ?, ?, ?)",
                [
                    (revision, event.at.timestamp(), event.about, _encode(event))
                    for event in change.events
                ],
            ),
            ("INSERT OR REPLACE INTO bookmarks VALUES (?, ?)", list(change.bookmarks.items())),
            ("UPDATE meta SET value = ? WHERE key = 'revision'", [(str(revision),)]),
        ):
            if rows:
                self._database.executemany(sql, rows)


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a database file with the settings that everything here relies on."""
    # Calls come from one thread at a time, but not always the same one.
    database = sqlite3.connect(
        f"file:{path}?mode={'ro' if read_only else 'rwc'}",
        uri=True,
        check_same_thread=False,
        isolation_level=None,
    )
    try:
        if not read_only:
            path.chmod(0o600)  # It holds the secret that signs our machines' labels.
            database.execute("PRAGMA journal_mode = WAL")
            # FULL: a commit is on the disk when it returns. Intent must outlive a power cut.
            database.execute("PRAGMA synchronous = FULL")
    except BaseException:
        database.close()
        raise
    return database


def read_events(
    database: sqlite3.Connection,
    after: int,
    after_revision: int,
    about: Subject | None,
    limit: int,
) -> list[Recorded]:
    """Return the journal after an event number and a revision, oldest first."""
    query = (
        "SELECT number, revision, body FROM events WHERE number > :after "
        + ("" if after_revision == 0 else "AND revision > :after_revision ")
        + ("" if about is None else "AND about = :about ")
        + "ORDER BY number LIMIT :limit"
    )
    given = {"after": after, "after_revision": after_revision, "about": about, "limit": limit}
    return [
        Recorded(number=number, revision=revision, event=_EVENT.decode(body))
        for number, revision, body in database.execute(query, given)
    ]


def _lock(directory: Path) -> int:
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
            f"{directory} is in use by another navarch server; stop it first, or wait for its "
            "end: navarch serve --standby"
        ) from error
    return lock


def _cluster(database: sqlite3.Connection, entropy: Entropy) -> Cluster:
    given = _meta(database)
    if "cluster" not in given:
        given |= {"cluster": entropy.new_id("cluster"), "secret": entropy.secret().hex()}
        rows = [(key, given[key]) for key in ("cluster", "secret")]
        database.executemany("INSERT INTO meta VALUES (?, ?)", rows)
    return Cluster(id=given["cluster"], secret=bytes.fromhex(given["secret"]))


def _begin_term(database: sqlite3.Connection) -> int:
    database.execute(
        "INSERT INTO meta VALUES ('term', '1') "
        "ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1"
    )
    return _term(database)


def _term(database: sqlite3.Connection) -> int:
    (value,) = database.execute("SELECT value FROM meta WHERE key = 'term'").fetchone()
    return int(value)


def _meta(database: sqlite3.Connection) -> dict[str, str]:
    return dict(database.execute("SELECT key, value FROM meta"))


def _load(database: sqlite3.Connection) -> Fleet:
    # Hundreds of thousands of objects are made here, none of them garbage: left on, the
    # collector would look through all of them again and again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        pools = _decode(_POOL, database.execute("SELECT body FROM pools ORDER BY rowid"))
        nodes = _decode(_NODE, database.execute("SELECT body FROM nodes ORDER BY rowid"))
        commands = _decode(_COMMAND, database.execute("SELECT body FROM commands ORDER BY rowid"))
        incidents = _decode(
            _INCIDENT, database.execute("SELECT body FROM incidents ORDER BY rowid")
        )
        recoveries = _decode(
            _RECOVERY, database.execute("SELECT body FROM recoveries ORDER BY rowid")
        )
        jobs = _decode(_JOB, database.execute("SELECT body FROM jobs ORDER BY rowid"))
        by_pool: dict[PoolName, dict[NodeId, Node]] = {}
        for node in nodes:
            if node.pool is not None:
                by_pool.setdefault(node.pool, {})[node.id] = node
        return Fleet(
            revision=int(_meta(database)["revision"]),
            pools=Table({pool.name: pool for pool in pools}),
            nodes=Table({node.id: node for node in nodes}),
            commands=Table({command.id: command for command in commands}),
            incidents=Table({incident.id: incident for incident in incidents}),
            recoveries=Table({recovery.id: recovery for recovery in recoveries}),
            jobs=Table({job.name: job for job in jobs}),
            by_pool={name: Table(members) for name, members in by_pool.items()},
            present={
                name: sum(not node.gone for node in members.values())
                for name, members in by_pool.items()
            },
        )
    finally:
        if collecting:
            gc.enable()


def _decode(decoder: msgspec.json.Decoder[T], rows: Iterable[tuple[bytes]]) -> list[T]:
    return [decoder.decode(body) for (body,) in rows]


_encode = msgspec.json.Encoder().encode
_POOL = msgspec.json.Decoder(Pool)
_NODE = msgspec.json.Decoder(Node)
_COMMAND = msgspec.json.Decoder(Command)
_INCIDENT = msgspec.json.Decoder(Incident)
_RECOVERY = msgspec.json.Decoder(Recovery)
_JOB = msgspec.json.Decoder(Job)
_LAUNCH = msgspec.json.Decoder(Launch)
_EVENT = msgspec.json.Decoder(Event)
_INVENTORY = msgspec.json.Decoder(Inventory)
