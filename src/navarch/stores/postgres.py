"""A store in a PostgreSQL database: one leader writes, standby servers wait to take over."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import Any

import msgspec
from psycopg import errors

from navarch.core.errors import MovedError, StoreError, SupersededError
from navarch.core.event import Event, Recorded, Subject
from navarch.core.fleet import Change, Fleet, Kind
from navarch.core.ids import NodeId, PoolName
from navarch.core.instance import Inventory
from navarch.core.launch import Launch
from navarch.core.ownership import Cluster
from navarch.ports.clock import Clock, Entropy, Offload
from navarch.ports.store import PRUNED_AT_ONCE, Committed, Replica, StoreInfo
from navarch.stores.commit_queue import CommitQueue
from navarch.stores.postgres_connection import (
    HOLD_EVERY_S,
    STANDBY,
    Connection,
    LeaderSession,
    PostgresAddress,
    ReaderSession,
)
from navarch.stores.state_cache import RECENT_MAX, StateCache

BESIDE_THE_KINDS: Mapping[int, str] = {
    1: """
    CREATE TABLE navarch_format (number integer NOT NULL);
    INSERT INTO navarch_format VALUES (0);
    CREATE TABLE state (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
        cluster text NOT NULL, secret text NOT NULL, term bigint NOT NULL,
        revision bigint NOT NULL, last_event bigint NOT NULL, journal_start bigint NOT NULL,
        moved_to text
    );
    CREATE TABLE launches (
        token text NOT NULL, instance text NOT NULL, pool text NOT NULL,
        asked_at text COLLATE "C" NOT NULL, body json NOT NULL, PRIMARY KEY (token, instance)
    );
    CREATE INDEX launches_by_pool ON launches (pool, asked_at);
    CREATE TABLE inventories (node text PRIMARY KEY, body json NOT NULL);
    CREATE TABLE bookmarks (reader text PRIMARY KEY, number bigint NOT NULL);
    CREATE TABLE events (
        number bigint PRIMARY KEY, revision bigint NOT NULL, at double precision NOT NULL,
        about text NOT NULL, body json NOT NULL
    );
    CREATE INDEX events_by_subject ON events (about, number);
    CREATE INDEX events_by_revision ON events (revision, number);
    CREATE TABLE commits (revision bigint PRIMARY KEY, body json NOT NULL);
    """,
    2: 'CREATE INDEX launches_by_time ON launches (asked_at, token COLLATE "C", '
    'instance COLLATE "C");',
}
"""The tables that hold no kind of the fleet, by the format that introduced them: the same formats
as in SQLite. Add formats; never change one that was released."""

Contents = tuple[Fleet, Mapping[str, int]]
"""A fleet, and the cursors of the journal's readers."""

FENCE = """
UPDATE state SET
    revision = CASE WHEN term = %(term)s AND revision = %(before)s THEN %(after)s END,
    last_event = %(last_event)s
"""
"""The first statement of every transaction that writes. It locks the only row of `state`, so that
no term can begin before the transaction ends, and fails if a later term has begun: the column
accepts no NULL."""


def migrate_postgres(connection: Connection, kinds: Sequence[Kind]) -> None:
    """Bring the database up to the newest format, or raise StoreError if its format is newer."""
    newest, present = newest_format(kinds), stored_format(connection)
    if present > newest:
        raise StoreError(
            f"the state was written by a newer navarch (format {present}, this version supports "
            f"up to {newest}); run that version, or start with another database"
        )
    with connection.transaction():
        for number in range(present + 1, newest + 1):
            tables = [_create(kind) for kind in kinds if kind.since == number]
            _execute(connection, BESIDE_THE_KINDS.get(number, "") + "".join(tables))
        _execute(connection, f"UPDATE navarch_format SET number = {newest}")


def newest_format(kinds: Sequence[Kind]) -> int:
    """Return the format that this version writes."""
    return max(*BESIDE_THE_KINDS, *(kind.since for kind in kinds))


def stored_format(connection: Connection) -> int:
    """Return the format of the database; 0 for one without a fleet."""
    found = connection.execute("SELECT to_regclass('navarch_format') IS NOT NULL").fetchone()
    if found is None or not found[0]:
        return 0
    row = connection.execute("SELECT number FROM navarch_format").fetchone()
    assert row is not None, "navarch_format is empty"
    return int(row[0])


def _create(kind: Kind) -> str:
    return (
        f"CREATE TABLE {kind.name} ({kind.key} text PRIMARY KEY, body json NOT NULL, "
        "place bigint GENERATED ALWAYS AS IDENTITY);\n"
    )


def _execute(connection: Connection, script: str) -> None:
    if script:
        connection.execute(script.encode())


class PostgresReads:
    """What is read from the database instead of from memory."""

    def __init__(self, address: PostgresAddress, offload: Offload) -> None:
        self.session = ReaderSession(address)
        self._offload = offload

    def close(self) -> None:
        """End the session."""
        self.session.close()

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
        # Numbers and revisions grow together: the last number of a revision is found by its index.
        start = (
            "%(after)s"
            if after_revision == 0
            else "greatest(%(after)s, (SELECT number FROM events WHERE revision <= "
            "%(after_revision)s ORDER BY revision DESC, number DESC LIMIT 1))"
        )
        query = (
            f"SELECT number, revision, body::text FROM events WHERE number > {start} "
            + ("" if before is None else "AND number < %(before)s ")
            + ("" if about is None else "AND about = %(about)s ")
            + f"ORDER BY number {'DESC' if newest_first else 'ASC'} LIMIT %(limit)s"
        )
        given = {
            "after": after,
            "after_revision": after_revision,
            "before": before,
            "about": about,
            "limit": limit,
        }
        rows = await self._offload.run(partial(self.session.rows, query, given))
        return [
            Recorded(number=number, revision=revision, event=_EVENT.decode(body))
            for number, revision, body in rows
        ]

    async def launches(
        self, *, pool: PoolName | None, after: Launch | None, limit: int | None
    ) -> Sequence[Launch]:
        """Return the launches that are over."""
        place = '(asked_at, token COLLATE "C", instance COLLATE "C")'
        query = (
            "SELECT body::text FROM launches WHERE true "
            + ("" if pool is None else "AND pool = %(pool)s ")
            + ("" if after is None else f"AND {place} > (%(at)s, %(token)s, %(instance)s) ")
            + f"ORDER BY {place[1:-1]} LIMIT %(limit)s"
        )
        given: dict[str, object] = {"pool": pool, "limit": limit}
        if after is not None:
            at = after.asked_at.isoformat()
            given |= {"at": at, "token": after.token, "instance": after.instance or ""}
        rows = await self._offload.run(partial(self.session.rows, query, given))
        return [_LAUNCH.decode(body) for (body,) in rows]

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return the inventory that the agent of `node` reported."""
        return (await self.inventories([node])).get(node)

    async def inventories(self, nodes: Collection[NodeId]) -> Mapping[NodeId, Inventory]:
        """Return the inventories of some nodes in one read."""
        query = "SELECT node, body::text FROM inventories WHERE node = ANY(%s)"
        rows = await self._offload.run(partial(self.session.rows, query, (list(nodes),)))
        return {NodeId(node): _INVENTORY.decode(body) for node, body in rows}


class PostgresStore:
    """Keeps the fleet in memory and every change of it in a PostgreSQL database.

    One process at a time leads. Every commit is durable in the database before `commit`
    returns. If the connection is lost during a commit, the store finds out whether the database
    has it before it writes anything else.
    """

    def __init__(
        self,
        clock: Clock,
        address: PostgresAddress,
        offload: Offload,
        session: LeaderSession,
        row: "StateRow",
        loaded: Contents,
    ) -> None:
        self.cluster = Cluster(id=row.cluster, secret=bytes.fromhex(row.secret))
        self.address = address
        self._clock = clock
        self._held_at = clock.monotonic()
        """When the database last confirmed that this process leads."""
        self._row = row
        self._offload = offload
        self._session = session
        self._reads = PostgresReads(address, offload)
        self._state = StateCache(*loaded)
        self._commits = CommitQueue(self._state, self._write_batch, self._stored_revision)

    @classmethod
    def open(
        cls,
        clock: Clock,
        address: PostgresAddress,
        offload: Offload,
        entropy: Entropy,
        *,
        empty: Fleet | None = None,
        expected: str = "",
    ) -> "PostgresStore":
        """Open the store at `address` as its leader, creating its tables if there are none.

        `expected` is the cluster that it must hold, if that is known.
        """
        session = LeaderSession(address)
        try:
            session.open()
            return cls.lead(
                clock, address, offload, entropy, session, empty or Fleet(), expected=expected
            )
        except BaseException:
            session.close()
            raise

    @classmethod
    def lead(
        cls,
        clock: Clock,
        address: PostgresAddress,
        offload: Offload,
        entropy: Entropy,
        session: LeaderSession,
        empty: Fleet,
        known: Contents | None = None,
        *,
        expected: str = "",
    ) -> "PostgresStore":
        """Begin a term with `session`, which holds the lock.

        `known` is what the database held a moment ago; the rest is read.
        """

        def begin(connection: Connection) -> tuple[StateRow, Contents]:
            with connection.transaction():
                migrate_postgres(connection, empty.kinds)
                # New identifiers only matter where there is no row yet.
                connection.execute(
                    "INSERT INTO state (cluster, secret, term, revision, last_event, "
                    "journal_start) VALUES (%s, %s, 0, 0, 0, 0) ON CONFLICT DO NOTHING",
                    (entropy.new_id("cluster"), entropy.secret().hex()),
                )
                connection.execute("UPDATE state SET term = term + 1")
                row = read_state(connection)
                if expected and row.cluster != expected:
                    raise _another_cluster(address.shown, row, expected)
                if row.moved_to is not None:
                    raise MovedError(address.shown, row.moved_to)
            if known is not None and known[0].revision == row.revision:
                return row, known
            return row, load(connection, empty)

        try:
            row, contents = session.run(f"cannot open {address.shown}", begin)
        except msgspec.MsgspecError as error:
            raise StoreError(
                f"{address.shown} is damaged: {error}. List the damage with `navarch store check`, "
                "and restore a backup to another database with `navarch store restore`"
            ) from error
        return cls(clock, address, offload, session, row, contents)

    def close(self) -> None:
        """Release the leadership and close the connections."""
        self._session.close()
        self._reads.close()

    @property
    def term(self) -> int:
        """The number of times this state was opened, this time included."""
        return self._row.term

    def fleet(self) -> Fleet:
        """Return the newest fleet."""
        return self._state.fleet

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        """Write `change` to the database, or raise ConflictError.

        Changes that arrive while the database is busy are written in one transaction; each is a
        revision of its own.
        """
        return await self._commits.add(change, based_on)

    hold_every: timedelta | None = timedelta(seconds=HOLD_EVERY_S)

    async def hold(self) -> None:
        """Show the database that this leader works; take the lock again if the session ended.

        Raises SupersededError if another server leads, StoreError if the database is away.
        """
        began = self._clock.monotonic()
        async with self._commits.alone():
            await self._offload.run(self._hold)
        self._held_at = began

    async def check_writable(self) -> None:
        """Write the state once more; raise StoreError if that fails."""
        async with self._commits.alone():
            doing = "the state cannot be written"
            self._row = await self._offload.run(lambda: self._transaction(doing, []))

    async def confirm(self) -> None:
        """Make sure that this process led a moment ago; raise if it did not."""
        if self._clock.monotonic() > self._held_at + CONFIRMED_FOR_S:
            await self.hold()

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
        return await self._reads.events(
            after=after,
            after_revision=after_revision,
            before=before,
            about=about,
            newest_first=newest_first,
            limit=limit,
        )

    def cursor(self, reader: str) -> int | None:
        """Return the cursor of `reader` in the journal, if it has one."""
        return self._state.cursors.get(reader)

    @property
    def journal_start(self) -> int:
        """The revision after which the journal is complete."""
        return self._row.journal_start

    async def prune(self, before: datetime, *, limit: int = PRUNED_AT_ONCE) -> bool:
        """Drop a piece of the journal that is older than `before`."""
        async with self._commits.alone():
            return await self._offload.run(partial(self._prune, before, limit))

    async def shrink(self) -> bool:
        """Do nothing: autovacuum makes the space of deleted rows available again."""
        return False

    async def launches(
        self,
        *,
        pool: PoolName | None = None,
        after: Launch | None = None,
        limit: int | None = None,
    ) -> Sequence[Launch]:
        """Return the launches that are over."""
        return await self._reads.launches(pool=pool, after=after, limit=limit)

    async def inventory(self, node: NodeId) -> Inventory | None:
        """Return the inventory that the agent of `node` reported."""
        return await self._reads.inventory(node)

    async def inventories(self, nodes: Collection[NodeId]) -> Mapping[NodeId, Inventory]:
        """Return the inventories of some nodes in one read."""
        return await self._reads.inventories(nodes)

    async def info(self) -> StoreInfo:
        """Return the size of the tables, and the servers that use them."""
        size, standbys, replicas = await self._offload.run(
            partial(self._reads.session.run, _measured)
        )
        return StoreInfo(
            kind="PostgreSQL",
            place=self.address.shown,
            bytes=size,
            standbys=[max(self.fleet().revision - each, 0) for each in standbys],
            replicas=replicas,
        )

    async def _write_batch(self, changes: Sequence[Change], revision: int) -> None:
        await self._offload.run(partial(self._write, changes, revision))

    async def _stored_revision(self) -> int:
        """Return the newest durable revision, once no earlier session can add another."""
        return await self._offload.run(self._reconnect)

    def _hold(self) -> None:
        if not self._session.lost:
            try:
                self._session.run("cannot reach the database", self._own_row)
            except StoreError:
                if not self._session.lost:
                    raise
        if self._session.lost:
            self._reconnect()

    def _reconnect(self) -> int:
        reopened = self._session.lost
        if reopened:
            # A later leader keeps the lock while it runs.
            self._reads.session.run(self._own_row)
            # A transaction of the lost session is over when the lock is ours: it held the lock.
            self._session.open()
        self._row = self._session.run("cannot read the state", self._own_row)
        if reopened:
            # What was read may be on the disk of the primary only. Standby databases have it once
            # they have a later commit.
            self._row = self._transaction("cannot confirm the state", [])
        return self._row.revision

    def _own_row(self, connection: Connection) -> "StateRow":
        row = read_state(connection)
        if row.term != self.term:
            raise SupersededError(
                f"another navarch server has taken over this state (its term is {row.term}, the "
                f"term of this server {self.term}); this server stops"
            )
        return row

    def _write(self, changes: Sequence[Change], revision: int) -> None:
        """Write changes as one revision each, all of them or none."""
        number = self._row.last_event
        writes: list[_Write] = []
        for at, change in enumerate(changes, start=revision):
            writes += _rows(self._state.fleet.kinds, change, at, number)
            number += len(change.events)
        newest = revision + len(changes) - 1
        if newest // PRUNE_EVERY != (revision - 1) // PRUNE_EVERY:
            writes.append(("DELETE FROM commits WHERE revision <= %s", [(newest - RECENT_MAX,)]))
        self._row = self._transaction(
            f"cannot write revision {revision}", writes, revision=newest, last_event=number
        )

    def _prune(self, before: datetime, limit: int) -> bool:
        """Drop a piece; return whether more may be left."""
        doing = "cannot prune the journal"
        # Whole revisions only: a watcher must never receive half of one.
        query = (
            "SELECT revision, max(at) FROM events WHERE revision <= coalesce("
            "(SELECT revision FROM events ORDER BY number OFFSET %s LIMIT 1), "
            "(SELECT max(revision) FROM events)) GROUP BY revision ORDER BY revision"
        )

        def oldest(connection: Connection) -> list[tuple[Any, ...]]:
            self._own_row(connection)
            return connection.execute(query, (limit - 1,)).fetchall()

        found = self._session.run(doing, oldest)
        old = list(takewhile(lambda row: row[1] < before.timestamp(), found))
        if not old:
            return False
        start = max(int(old[-1][0]), self._row.journal_start)
        self._row = self._transaction(
            doing,
            [
                ("DELETE FROM events WHERE revision <= %s", [(start,)]),
                ("UPDATE state SET journal_start = %s", [(start,)]),
            ],
            journal_start=start,
        )
        return len(old) == len(found) and start < self._row.revision

    def _transaction(self, doing: str, writes: "Sequence[_Write]", **row: int) -> "StateRow":
        """Make `writes` durable as a whole, if this process still leads; return the new row."""
        after = msgspec.structs.replace(self._row, **row)
        fence = {
            "term": self.term,
            "before": self._row.revision,
            "after": after.revision,
            "last_event": after.last_event,
        }
        channel = commits_channel(self._row.cluster)
        wake: _Write = ("SELECT pg_notify(%s, %s)", [(channel, str(after.revision))])

        def write(connection: Connection) -> None:
            # One round trip. The server skips everything after a statement that fails, so a
            # transaction that lost the term does not reach its COMMIT.
            with connection.pipeline() as pipeline, connection.cursor() as cursor:
                cursor.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
                cursor.execute(FENCE, fence)
                for sql, rows in (*writes, wake):
                    cursor.executemany(sql, rows)
                cursor.execute("COMMIT")
                pipeline.sync()

        try:
            self._session.run(doing, partial(_fenced, write))
        except _FencedError:
            row_now = self._session.run(doing, self._own_row)
            raise SupersededError(
                f"the database is at revision {row_now.revision}, this server at "
                f"{self._row.revision}: it was restored or edited; this server stops"
            ) from None
        return after


CONFIRMED_FOR_S = 2 * HOLD_EVERY_S
"""How long a confirmation holds: less than the silence after which another server may lead."""

PRUNE_EVERY = 256
"""The number of revisions after which old entries of `commits` are deleted."""

_Write = tuple[str, list[tuple[object, ...]]]
"""A statement, and the parameters of each of its executions."""


class _FencedError(Exception):
    """The transaction was refused by its first statement."""


def _fenced(write: Callable[[Connection], None], connection: Connection) -> None:
    try:
        write(connection)
    except errors.NotNullViolation:
        raise _FencedError from None


class StateRow(msgspec.Struct, frozen=True, kw_only=True):
    """The only row of the table `state`."""

    cluster: str
    secret: str
    term: int
    revision: int
    last_event: int
    """The number of the newest event, also if it was pruned."""
    journal_start: int
    moved_to: str | None = None
    """Where `navarch store copy` has taken this state."""


def _another_cluster(shown: str, row: StateRow, expected: str) -> StoreError:
    held = f"is of cluster {row.cluster}" if row.term > 1 else "holds no fleet"
    return StoreError(
        f"{shown} {held}, but the data folder of this server is of {expected}: copy or restore "
        "the state of that cluster to a new database (navarch store copy, navarch store restore), "
        "or start another cluster with a --data-dir of its own"
    )


def read_state(connection: Connection) -> StateRow:
    """Return the row of the table `state`."""
    fields = StateRow.__struct_fields__
    row = connection.execute(f"SELECT {', '.join(fields)} FROM state".encode()).fetchone()
    if row is None:
        raise StoreError("the table state is empty: restore the database from a backup")
    return StateRow(**dict(zip(fields, row, strict=True)))


def load(connection: Connection, empty: Fleet) -> Contents:
    """Return the fleet and the cursors, as of one moment."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        records = {kind.name: _read(connection, kind) for kind in empty.kinds}
        cursors = connection.execute("SELECT reader, number FROM bookmarks").fetchall()
        revision = read_state(connection).revision
    return empty.with_records(revision, records), dict(cursors)


def _read(connection: Connection, kind: Kind) -> dict[str, Any]:
    """Return the records of a table by key, in the order in which they were created."""
    decoder = msgspec.json.Decoder(kind.type)
    query = f"SELECT {kind.key}, body::text FROM {kind.name} ORDER BY place"
    return {key: decoder.decode(body) for key, body in connection.execute(query.encode())}


def _measured(connection: Connection) -> tuple[int, list[int], list[Replica]]:
    """Return the bytes of all tables, the revision of each server on standby, and the replicas."""
    row = connection.execute(
        "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class "
        "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    ).fetchone()
    assert row is not None
    names = connection.execute(
        "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
    ).fetchall()
    standbys = sorted(int(x[1]) for (name,) in names if (x := _STANDBY.fullmatch(name or "")))
    return row[0], standbys, read_replicas(connection)


def read_replicas(connection: Connection) -> list[Replica]:
    """Return what the replicas have reported, the oldest first."""
    found = connection.execute("SELECT to_regclass('replicas') IS NOT NULL").fetchone()
    if found is None or not found[0]:
        return []
    rows = connection.execute(
        "SELECT id, http, grpc, version, started, "
        "greatest(extract(epoch FROM clock_timestamp() - seen)::float8, 0), "
        "revision, term, certificate FROM replicas ORDER BY started, id"
    ).fetchall()
    names = ("id", "http", "grpc", "version", "started", "silent_s")
    more = ("revision", "term", "certificate")
    return [Replica(**dict(zip((*names, *more), each, strict=True))) for each in rows]


_STANDBY = re.compile(rf"navarch {STANDBY} at (\d+)")


def commits_channel(cluster: str) -> str:
    """Return the channel of NOTIFY on which commits are announced."""
    return f"navarch {cluster}"


def _rows(
    kinds: Sequence[Kind], change: Change, revision: int, last_event: int
) -> Iterator[_Write]:
    """Yield the writes of one change."""
    for kind in kinds:
        name, key, written = kind.name, kind.key, kind.written(change)
        kept = [(each, _encode(record)) for each, record in written.items() if record is not None]
        yield from _upsert(name, (key,), ("body",), kept)
        gone: list[tuple[object, ...]] = [(x,) for x, record in written.items() if record is None]
        if gone:
            yield f"DELETE FROM {name} WHERE {key} = %s", gone
    launches = [
        (x.token, x.instance or "", x.pool, x.asked_at.isoformat(), _encode(x))
        for x in change.launches
    ]
    yield from _upsert("launches", ("token", "instance"), ("pool", "asked_at", "body"), launches)
    if change.forget_launches:
        yield (
            "DELETE FROM launches WHERE token = %s AND instance = %s",
            [(token, instance or "") for token, instance in change.forget_launches],
        )
    inventories = [(node, _encode(found)) for node, found in change.inventories.items()]
    yield from _upsert("inventories", ("node",), ("body",), inventories)
    if change.forget_nodes:
        nodes: list[tuple[object, ...]] = [(node,) for node in change.forget_nodes]
        yield "DELETE FROM inventories WHERE node = %s", nodes
    yield from _upsert("bookmarks", ("reader",), ("number",), list(change.cursors.items()))
    events = [
        (number, revision, each.at.timestamp(), each.about, _encode(each))
        for number, each in enumerate(change.events, start=last_event + 1)
    ]
    yield from _upsert("events", ("number",), ("revision", "at", "about", "body"), events)
    yield from _upsert("commits", ("revision",), ("body",), [(revision, _encode(change))])


def _upsert(
    table: str, key: Sequence[str], others: Sequence[str], rows: Sequence[tuple[object, ...]]
) -> Iterator[_Write]:
    columns = (*key, *others)
    marks = ", ".join(["%s"] * len(columns))
    assigned = ", ".join(f"{name} = excluded.{name}" for name in others)
    if rows:
        yield (
            f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) "
            f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {assigned}",
            list(rows),
        )


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


_LAUNCH = msgspec.json.Decoder(Launch)
_EVENT = msgspec.json.Decoder(Event)
_INVENTORY = msgspec.json.Decoder(Inventory)
