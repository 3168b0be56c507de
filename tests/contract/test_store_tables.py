"""The tables of a store derive from the kinds of its fleet, and older databases still load."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from navarch.core.errors import ConflictError
from navarch.core.fleet import Change, Fleet, Kind
from navarch.core.ids import CommandId, JobName, NodeId
from navarch.core.node import Phase
from navarch.core.ownership import Cluster
from navarch.core.records import Table
from navarch.ports.store import Store
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy
from navarch.stores.memory import MemoryStore
from navarch.stores.sqlite import SqliteStore
from navarch.testing.store_contract import EVENT, INCIDENT, NODE, POOL

FORMAT_5 = Path(__file__).parents[1] / "data" / "stores" / "format-5.sql"


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    holder: str


class LeasedFleet(Fleet, frozen=True, kw_only=True):
    """A fleet with one more table."""

    kinds: ClassVar[Sequence[Kind]] = (
        *Fleet.kinds,
        Kind(name="leases", key="id", type=Lease, since=7),
    )
    leases: Table[str, Lease] = msgspec.field(default_factory=Table)


class LeaseChange(Change, frozen=True, kw_only=True):
    leases: Sequence[Lease] = ()
    forget_leases: Sequence[str] = ()


def leases(store: Store) -> dict[str, Lease]:
    fleet = store.fleet()
    assert isinstance(fleet, LeasedFleet)
    return dict(fleet.leases)


def open_sqlite(directory: Path, empty: Fleet | None = None) -> SqliteStore:
    return SqliteStore.open(directory, InlineOffload(), SeededEntropy("1"), empty=empty)


def reopen(store: Store, directory: Path) -> Store:
    if isinstance(store, MemoryStore):
        return store.take_over()
    assert isinstance(store, SqliteStore)
    store.close()
    return open_sqlite(directory, LeasedFleet())


def in_memory(_: Path) -> Store:
    return MemoryStore(Cluster(id="cluster-1", secret=b"x" * 32), empty=LeasedFleet())


def on_disk(directory: Path) -> Store:
    return open_sqlite(directory, LeasedFleet())


@pytest.mark.parametrize("make", [in_memory, on_disk])
def test_a_further_kind_is_stored_loaded_conflict_checked_and_forgotten(
    make: Callable[[Path], Store], tmp_path: Path
) -> None:
    lease, other = Lease(id="a", holder="x"), Lease(id="b", holder="y")
    taken = Lease(id="a", holder="z")

    async def write(store: Store) -> None:
        await store.commit(LeaseChange(leases=[lease, other], nodes=[NODE]), based_on=0)
        assert leases(store) == {"a": lease, "b": other}
        await store.commit(LeaseChange(leases=[taken]), based_on=1)
        with pytest.raises(ConflictError, match="revision 2 moved lease a"):
            await store.commit(LeaseChange(leases=[lease]), based_on=1)
        with pytest.raises(ConflictError, match="revision 2 moved lease a"):
            await store.commit(LeaseChange(forget_leases=["a"]), based_on=1)
        await store.commit(LeaseChange(leases=[other]), based_on=1)

    async def forget(store: Store) -> None:
        await store.commit(LeaseChange(forget_leases=["a"]), based_on=3)
        assert leases(store) == {"b": other}

    store = make(tmp_path)
    asyncio.run(write(store))
    store = reopen(store, tmp_path)
    assert leases(store) == {"a": taken, "b": other}
    assert dict(store.fleet().nodes) == {NODE.id: NODE}

    asyncio.run(forget(store))
    store = reopen(store, tmp_path)
    assert leases(store) == {"b": other}
    if isinstance(store, SqliteStore):
        store.close()


def test_every_kind_has_a_field_of_the_fleet_and_of_a_change() -> None:
    names = [kind.name for kind in Fleet.kinds]
    tables = [name for name, value in msgspec.structs.asdict(Fleet()).items() if value == Table()]

    # These follow from the nodes.
    assert [name for name in tables if name not in ("by_pool", "hosts")] == names
    for kind in Fleet.kinds:
        assert kind.written(Change()) == {}
        assert kind.key in kind.type.__annotations__


def test_a_further_kind_does_not_make_an_empty_change() -> None:
    assert LeaseChange().empty
    assert not LeaseChange(forget_leases=["a"]).empty
    assert Change(guards=[POOL.name]).empty


def test_a_database_of_an_earlier_release_loads_unchanged(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "navarch.db")) as database:
        database.executescript(FORMAT_5.read_text("utf-8"))

    async def read(store: Store) -> None:
        (entry,) = await store.events()
        assert (entry.number, entry.revision, entry.event) == (1, 1, EVENT)
        assert list(await store.launches()) == [NODE.launch]
        inventory = await store.inventory(NODE.id)
        assert inventory is not None
        assert inventory.gpus[0].uuid == "GPU-1"
        moved = NODE.move_to(Phase.DRAINING, at=NODE.since)
        await store.commit(Change(nodes=[moved], cursors={"slack": 2}), based_on=1)

    with closing(open_sqlite(tmp_path)) as store:
        fleet = store.fleet()
        assert (fleet.revision, store.term, store.cursor("slack")) == (1, 2, 1)
        assert store.cluster.id == "cluster-7a657a6e75f5"
        assert dict(fleet.pools) == {POOL.name: POOL}
        assert dict(fleet.nodes) == dict(fleet.in_pool(POOL.name)) == {NODE.id: NODE}
        assert fleet.present_in(POOL.name) == 1
        assert dict(fleet.incidents) == {INCIDENT.id: INCIDENT}
        assert fleet.commands[CommandId("c1")].parameters == {"timeout": "5"}
        assert [each.history[0].outcome for each in fleet.recoveries.values()] == ["ordered"]
        assert fleet.jobs[JobName("train")].queue == "research"
        asyncio.run(read(store))

    with closing(open_sqlite(tmp_path)) as store:
        assert store.fleet().nodes[NodeId("training-0")].phase is Phase.DRAINING
        assert (store.fleet().revision, store.cursor("slack")) == (2, 2)


def test_a_new_database_has_the_released_tables_and_those_of_later_formats(
    tmp_path: Path,
) -> None:
    query = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(FORMAT_5.read_text("utf-8"))
        released = database.execute(query).fetchall()

    open_sqlite(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "navarch.db")) as database:
        made = database.execute(query).fetchall()
        assert set(released) <= set(made)
        later = {name for kind, name, _ in set(made) - set(released) if kind == "table"}
        assert later == {kind.name for kind in Fleet.kinds if kind.since > 5}
        assert database.execute("PRAGMA user_version").fetchone() == (8,)


def test_a_database_of_an_older_format_gains_the_tables_of_later_formats(tmp_path: Path) -> None:
    later = ("incidents", "recoveries", "jobs")  # and what formats after the fifth add
    with closing(sqlite3.connect(tmp_path / "navarch.db")) as database:
        database.executescript(FORMAT_5.read_text("utf-8"))
        database.executescript("".join(f"DROP TABLE {name};" for name in later))
        database.execute("PRAGMA user_version = 2")

    with closing(open_sqlite(tmp_path)) as store:
        fleet = store.fleet()
        assert dict(fleet.nodes) == {NODE.id: NODE}
        assert [len(getattr(fleet, name)) for name in later] == [0, 0, 0]
