"""Every store passes the store contract."""

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from navarch.clock import ThreadOffload
from navarch.core.errors import StoreError
from navarch.core.fleet import Change, Fleet
from navarch.core.ownership import Cluster
from navarch.ports.store import Store
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy
from navarch.stores.memory import MemoryStore
from navarch.stores.sqlite import SqliteStore, migrations
from navarch.testing.store_contract import EVENT, NODE, StoreContract


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
