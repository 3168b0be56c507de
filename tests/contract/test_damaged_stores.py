"""A lost, damaged or foreign database is refused, and never becomes a new cluster."""

import asyncio
import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from navarch.core.errors import StoreError
from navarch.core.fleet import Change, Fleet
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy
from navarch.stores.sqlite import MARK, SqliteStore
from navarch.testing.store_contract import NODE

RESTORE = r"navarch\.db is damaged: .*restore a backup with `navarch store restore FILE`"


def open_in(directory: Path, seed: str = "1") -> SqliteStore:
    return SqliteStore.open(directory, InlineOffload(), SeededEntropy(seed))


def fill(directory: Path, seed: str = "1") -> Fleet:
    store = open_in(directory, seed)
    asyncio.run(store.commit(Change(nodes=[NODE]), based_on=0))
    store.close()
    return store.fleet()


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    fill(tmp_path)
    return tmp_path / "navarch.db"


def test_an_emptied_database_is_refused_and_left_as_it_is(database: Path) -> None:
    os.truncate(database, 0)
    before = files(database.parent)
    with pytest.raises(StoreError, match=RESTORE):
        open_in(database.parent)
    assert files(database.parent) == before


def test_a_removed_database_is_refused(database: Path) -> None:
    database.unlink()
    with pytest.raises(StoreError, match=RESTORE):
        open_in(database.parent)
    assert not database.exists()


def test_an_emptied_database_of_an_earlier_version_is_refused_by_its_log(database: Path) -> None:
    (database.parent / MARK).unlink()
    os.truncate(database, 0)
    database.with_name("navarch.db-wal").write_bytes(b"log")
    with pytest.raises(StoreError, match=RESTORE):
        open_in(database.parent)


def test_a_database_without_tables_is_refused(database: Path) -> None:
    database.unlink()
    other = sqlite3.connect(database)
    other.execute("PRAGMA user_version = 1")
    other.close()
    with pytest.raises(StoreError, match=RESTORE):
        open_in(database.parent)


def test_a_database_of_another_cluster_is_refused(database: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    fill(other, seed="2")
    shutil.copy(other / "navarch.db", database)
    with pytest.raises(StoreError, match=r"is of cluster .* but .* is of"):
        open_in(database.parent)


def test_a_folder_of_an_earlier_version_is_marked(database: Path) -> None:
    (database.parent / MARK).unlink()
    opened = open_in(database.parent)
    assert (database.parent / MARK).read_text().strip() == opened.cluster.id
    opened.close()


def test_a_first_start_that_was_interrupted_is_repeated(tmp_path: Path) -> None:
    (tmp_path / "navarch.db").touch()
    open_in(tmp_path).close()


def test_a_restored_backup_is_the_same_cluster(database: Path) -> None:
    backup = shutil.copy(database, database.with_name("backup"))
    os.truncate(database, 0)
    shutil.copy(backup, database)
    opened = open_in(database.parent)
    assert list(opened.fleet().nodes) == [NODE.id]
    opened.close()


def test_a_record_that_cannot_be_read_is_refused(database: Path) -> None:
    for body in (b"{", b"\xff", b'{"id": 3}'):
        damage = sqlite3.connect(database)
        damage.execute("UPDATE nodes SET body = ?", (body,))
        damage.commit()
        damage.close()
        with pytest.raises(StoreError, match=RESTORE):
            open_in(database.parent)


@pytest.mark.parametrize("seed", range(60))
def test_a_corrupted_database_is_refused_with_the_remedy_or_holds_its_cluster(
    seed: int, database: Path
) -> None:
    was = open_in(database.parent)
    cluster = was.cluster
    was.close()
    chance = random.Random(seed)
    content = bytearray(database.read_bytes())
    if seed % 3 == 0:
        del content[chance.randrange(len(content)) :]
    else:
        start = chance.randrange(len(content))
        noise = chance.randbytes(chance.choice((1, 16, 512, 4096)))
        content[start : start + len(noise)] = noise
    database.write_bytes(content)
    try:
        opened = open_in(database.parent)
    except StoreError as error:
        assert "--data-dir" in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert opened.cluster.id == cluster.id
        opened.close()
