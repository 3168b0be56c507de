"""Every store passes the store contract."""

import asyncio
import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from navarch.clock import ThreadOffload
from navarch.core.errors import StoreError
from navarch.core.event import Recorded
from navarch.core.fleet import Change, Fleet
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.ports.store import Store
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy
from navarch.stores.memory import MemoryStore
from navarch.stores.sqlite import FREED_AT_ONCE, INCREMENTAL, SqliteStore, migrate, migrations
from navarch.testing.store_contract import EVENT, NODE, StoreContract
from navarch.testing.worlds import NOW, a_node


class TestMemoryStore(StoreContract):
    def open(self) -> Store:
        return MemoryStore(Cluster(id="cluster-1", secret=b"x" * 32))

    def reopen(self, store: Store) -> Store:
        assert isinstance(store, MemoryStore)
        return store.take_over()  # The simulator's disk: it lives as long as the process.

    def supersede(self, store: Store) -> Store:
        return self.reopen(store)


class TestSqliteStore(StoreContract):
    @pytest.fixture(autouse=True, params=["inline", "thread"])
    def _directory(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[None]:
        self.directory = tmp_path
        threads = ThreadOffload("store")
        self.offload = InlineOffload() if request.param == "inline" else threads
        self.opened: SqliteStore | None = None
        self.usurped: SqliteStore | None = None
        yield
        for store in (self.usurped, self.opened):
            if store is not None:
                store.close()
        threads.close()

    def open(self) -> Store:
        self.opened = SqliteStore.open(self.directory, self.offload, SeededEntropy("1"))
        return self.opened

    def reopen(self, store: Store) -> Store:
        assert isinstance(store, SqliteStore)
        store.close()
        return self.open()

    def supersede(self, store: Store) -> Store:
        assert isinstance(store, SqliteStore)
        fcntl.flock(store._lock, fcntl.LOCK_UN)  # As on a file system without working locks.
        self.usurped = store
        return self.open()


def open_in(directory: Path) -> SqliteStore:
    return SqliteStore.open(directory, InlineOffload(), SeededEntropy("1"))


def test_a_second_server_fails_because_the_directory_is_in_use(tmp_path: Path) -> None:
    store = open_in(tmp_path)
    with pytest.raises(StoreError, match="in use by another navarch server"):
        open_in(tmp_path)
    store.close()
    open_in(tmp_path).close()


def test_a_store_from_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    open_in(tmp_path).close()
    database = sqlite3.connect(tmp_path / "navarch.db")
    database.execute(f"PRAGMA user_version = {len(migrations(Fleet.kinds)) + 1}")
    database.close()
    with pytest.raises(StoreError, match="written by a newer navarch"):
        open_in(tmp_path)
    # The lock was released, so the right version can start.
    lock = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(lock)


def test_a_file_that_is_not_a_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "navarch.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match=r"navarch\.db"):
        open_in(tmp_path)


def test_a_directory_that_cannot_be_created_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot keep state in"):
        open_in(tmp_path / "file" / "state")


def test_the_file_that_holds_the_secret_is_for_its_owner_only(tmp_path: Path) -> None:
    open_in(tmp_path).close()
    assert (tmp_path / "navarch.db").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (Change(nodes=["not a node"]), AttributeError),  # type: ignore[list-item]
        (Change(inventories={NODE.id: object()}), TypeError),  # type: ignore[dict-item]
    ],
    ids=["cannot be checked", "cannot be encoded"],
)
def test_a_change_that_cannot_be_written_fails_alone(
    broken: Change, error: type[Exception], tmp_path: Path
) -> None:
    async def story(store: Store) -> None:
        async with asyncio.timeout(10):
            with pytest.raises(error):
                await store.commit(broken, based_on=0)
            await store.commit(Change(nodes=[NODE]), based_on=0)

    store = open_in(tmp_path)
    asyncio.run(story(store))
    assert list(store.fleet().nodes) == [NODE.id]
    store.close()


@pytest.mark.parametrize(
    "part",
    [
        {"after_revision": 199},
        {"newest_first": True, "limit": 10},
        {"about": EVENT.about, "newest_first": True, "limit": 10},
        {"about": EVENT.about, "after_revision": 199},
    ],
    ids=["a watch", "the newest", "the newest of a subject", "a subject since a revision"],
)
def test_reading_the_end_of_a_long_journal_costs_no_more_than_its_length(
    part: dict[str, Any], tmp_path: Path
) -> None:
    store = open_in(tmp_path)
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    async def story() -> None:
        for revision in range(200):
            await store.commit(Change(events=[EVENT] * 20), based_on=revision)
        store._database.set_progress_handler(count, 100)
        assert len(await store.events(**part)) in (10, 20)

    asyncio.run(story())
    store.close()
    assert steps < 10, "hundreds of instructions: reading all 4,000 events takes some 40,000"


OLD = evolve(EVENT, at=NOW - timedelta(days=100))


async def fill(store: Store, *, old: int, new: int) -> None:
    """Write so many commits with twenty events that are due, and with ones that are not."""
    nodes = [a_node(f"training-{name}") for name in (9, 10, 1)]
    await store.commit(Change(nodes=nodes), based_on=0)
    for number in range(old + new):
        event = OLD if number < old else EVENT
        await store.commit(Change(events=[event] * 20), based_on=number + 1)


async def prune(store: Store) -> None:
    while await store.prune(NOW - timedelta(days=90)):
        pass
    while await store.shrink():
        pass


def test_the_file_shrinks_when_the_journal_is_pruned(tmp_path: Path) -> None:
    store = open_in(tmp_path)
    asyncio.run(fill(store, old=400, new=10))
    store._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    full = (tmp_path / "navarch.db").stat().st_size
    asyncio.run(prune(store))
    store.close()

    assert (tmp_path / "navarch.db").stat().st_size < full / 2


def test_a_piece_of_shrinking_frees_many_pages(tmp_path: Path) -> None:
    store = open_in(tmp_path)
    asyncio.run(fill(store, old=400, new=10))

    def pages() -> int:
        return int(store._database.execute("PRAGMA page_count").fetchone()[0])

    async def story() -> None:
        while await store.prune(NOW - timedelta(days=90)):
            pass
        before = pages()
        assert await store.shrink()
        assert pages() == before - FREED_AT_ONCE

    asyncio.run(story())
    store.close()


def test_a_file_of_an_older_version_can_shrink_after_it_was_opened_again(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "navarch.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        migrate(database, Fleet.kinds)
    store = open_in(tmp_path)
    asyncio.run(fill(store, old=400, new=10))
    names = list(store.fleet().nodes)
    asyncio.run(prune(store))
    store.close()
    small = (tmp_path / "navarch.db").stat().st_size
    store = open_in(tmp_path)

    assert (store._database.execute("PRAGMA auto_vacuum").fetchone()) == (INCREMENTAL,)
    assert small < 400 * 20 * 100
    assert list(store.fleet().nodes) == names, "in the order of their creation"
    store.close()


def test_a_crash_anywhere_in_pruning_loses_nothing_that_must_stay(tmp_path: Path) -> None:
    store = open_in(tmp_path / "0")
    asyncio.run(fill(store, old=60, new=5))
    crashes: list[Path] = []

    def crash() -> int:
        crashes.append(tmp_path / str(len(crashes) + 1))
        crashes[-1].mkdir()
        for file in (tmp_path / "0").glob("navarch.db*"):
            shutil.copy(file, crashes[-1])
        return 0

    store._database.set_progress_handler(crash, 1_000)
    asyncio.run(prune(store))
    store._database.set_progress_handler(None, 0)
    store.close()

    assert len(crashes) > 20
    kept = range(60 * 20 + 1, 65 * 20 + 1)
    for folder in crashes:
        with closing(open_in(folder)) as store:
            entries = asyncio.run(_entries(store))
            start = store.journal_start
            assert [x.number for x in entries][-len(kept) :] == list(kept)
            assert [x.number for x in entries if x.event == OLD] == list(
                range(max(start - 1, 0) * 20 + 1, 60 * 20 + 1)
            ), "exactly what the start of the journal promises"
            assert len(store.fleet().nodes) == 3


async def _entries(store: Store) -> Sequence[Recorded]:
    return await store.events(limit=10_000)
