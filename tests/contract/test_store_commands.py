"""`navarch store` on real stores: SQLite files and a PostgreSQL server."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.postgres_server import PostgresServer

from navarch.app.store_places import Means, StorePlace, store_place
from navarch.cli.main import navarch
from navarch.clock import SystemClock
from navarch.core.errors import MovedError, StoreError
from navarch.core.event import Recorded
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import Token
from navarch.core.instance import Gpu, Inventory
from navarch.core.records import evolve
from navarch.ports.store import DurableStore
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy
from navarch.stores.contents import Header, Row, Table
from navarch.stores.contents import fill as copy_contents
from navarch.stores.sqlite_contents import NewSqliteFile, new_sqlite, read_sqlite
from navarch.testing.store_contract import EVENT, INCIDENT, NODE, POOL
from navarch.testing.worlds import NOW, a_node

INVENTORY = Inventory(gpus=(Gpu(index=0, uuid="GPU-1"),), hostname="h")
MEANS = Means(SystemClock(), SeededEntropy("1"), InlineOffload())


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(navarch, ["store", *map(str, words)])


def opened(place: StorePlace) -> DurableStore:
    return asyncio.run(place.open(MEANS))


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_url()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


async def fill(store: DurableStore) -> None:
    """Write every kind of row, with a pruned journal and names that sort differently."""
    old = evolve(EVENT, at=NOW - timedelta(days=100))
    launch = NODE.launch
    assert launch is not None
    later = [evolve(launch, token=Token(name)) for name in ("b", "B", "ä", "_", "a")]
    nodes = [NODE, *(a_node(f"n-{name}") for name in ("9", "10", "B", "a"))]
    await store.commit(Change(pools=[POOL], nodes=nodes, events=[old] * 3), based_on=0)
    await store.commit(
        Change(
            incidents=[INCIDENT],
            launches=later,
            inventories={node.id: INVENTORY for node in nodes},
            cursors={"reader": 2, "Reader": 3},
            events=[evolve(EVENT, reason='"quoted" \\u0000 ☃')],
        ),
        based_on=1,
    )
    await store.prune(NOW - timedelta(days=90))


Contents = tuple[object, ...]


def contents(store: DurableStore) -> Contents:
    async def read() -> Contents:
        return (
            store.cluster,
            store.fleet(),
            list(store.fleet().nodes),
            list(await store.events()),
            list(await store.launches()),
            await store.inventory(NODE.id),
            store.cursor("reader"),
            store.journal_start,
        )

    return asyncio.run(read())


def filled(place: StorePlace) -> tuple[Contents, int]:
    store = opened(place)
    asyncio.run(fill(store))
    found = contents(store), store.term
    store.close()
    return found


def test_a_state_moves_to_postgresql_and_back_without_a_difference(
    folder: Path, tmp_path: Path, url: str
) -> None:
    before, term = filled(store_place(folder, None))

    there = run("copy", folder, url)
    assert there.exit_code == 0, there.output
    assert "Servers refuse" in there.output
    with pytest.raises(MovedError, match="serve that one"):
        opened(store_place(folder, None))
    with closing(opened(store_place(folder, url))) as store:
        assert contents(store) == before
        assert store.term == term + 1

    back = run("copy", url, tmp_path / "back")
    assert back.exit_code == 0, back.output
    with pytest.raises(MovedError):
        opened(store_place(folder, url))
    with closing(opened(store_place(tmp_path / "back", None))) as store:
        assert contents(store) == before
        assert store.term == term + 2
        asyncio.run(store.commit(Change(events=[EVENT]), based_on=2))
        numbers = [entry.number for entry in asyncio.run(_events(store))]
        assert numbers == [4, 5], "numbers of pruned events are not assigned again"


def test_numbers_of_a_journal_that_was_pruned_whole_are_not_assigned_again(
    folder: Path, tmp_path: Path, url: str
) -> None:
    store = opened(store_place(folder, None))
    asyncio.run(store.commit(Change(events=[EVENT] * 3), based_on=0))
    asyncio.run(store.prune(NOW + timedelta(days=1)))
    store.close()
    assert run("copy", folder, url).exit_code == 0
    assert run("copy", url, tmp_path / "back").exit_code == 0
    with closing(opened(store_place(tmp_path / "back", None))) as store:
        asyncio.run(store.commit(Change(events=[EVENT]), based_on=1))
        assert [entry.number for entry in asyncio.run(_events(store))] == [4]


def test_a_copy_is_refused_while_a_server_runs_and_onto_a_state(
    folder: Path, tmp_path: Path, url: str
) -> None:
    filled(store_place(folder, None))
    for place in (store_place(folder, None), store_place(tmp_path / "there", url)):
        with closing(opened(place)):
            done = run("copy", folder, url)
            assert done.exit_code == 1
            assert "in use by another navarch server" in done.output
    taken = run("copy", folder, url)
    assert taken.exit_code == 1
    assert "holds a fleet already" in taken.output
    opened(store_place(tmp_path / "other", None)).close()
    taken = run("copy", folder, tmp_path / "other")
    assert taken.exit_code == 1
    assert "exists already" in taken.output
    with closing(opened(store_place(folder, None))) as store:
        assert len(store.fleet().nodes) == 5, "the source can still be served"


def test_a_copy_that_was_interrupted_by_force_can_be_repeated_to_its_target_only(
    folder: Path, tmp_path: Path, url: str
) -> None:
    filled(store_place(folder, None))
    store_place(folder, None).mark(store_place(folder, url).shown)
    other = run("copy", folder, tmp_path / "other")
    assert other.exit_code == 1
    assert "copy that one" in other.output
    with pytest.raises(MovedError):
        opened(store_place(folder, None))
    assert run("copy", folder, url).exit_code == 0


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_backup_of_a_running_server_is_restored_elsewhere(
    kind: str, folder: Path, tmp_path: Path, url: str
) -> None:
    at: Path | str = folder if kind == "sqlite" else url
    place = store_place(folder, None if kind == "sqlite" else url)
    before, _ = filled(place)
    file = tmp_path / "backup.db"
    with closing(opened(place)) as store:
        done = run("backup", file, "--at", at)
        assert done.exit_code == 0, done.output
        asyncio.run(store.commit(Change(events=[EVENT]), based_on=2))
    assert file.stat().st_mode & 0o077 == 0
    again = run("backup", file, "--at", at)
    assert again.exit_code == 1
    assert "exists already" in again.output
    for target in (tmp_path / "restored", None):
        if target is None and kind == "postgresql":
            continue  # its database holds the state
        name: Path | str = url if target is None else target
        done = run("restore", file, "--at", name, "--yes")
        assert done.exit_code == 0, done.output
        place = store_place(tmp_path / "restored", None if target else url)
        with closing(opened(place)) as store:
            assert contents(store) == before
        assert run("restore", file, "--at", name, "--yes").exit_code == 1


def test_a_copy_that_differs_from_its_source_is_not_kept(folder: Path, tmp_path: Path) -> None:
    class Lossy(NewSqliteFile):
        def write(self, header: Header, rows: Callable[[Table], Iterable[Row]]) -> None:
            super().write(header, lambda table: list(rows(table))[1:])

    filled(store_place(folder, None))
    file = tmp_path / "copy.db"

    def copy() -> None:
        with read_sqlite(folder / "navarch.db") as source, new_sqlite(file) as new:
            new.__class__ = Lossy
            copy_contents(new, source)

    with pytest.raises(StoreError, match="pools differs"):
        copy()
    assert list(tmp_path.glob("copy.db*")) == []


DAMAGE = {
    "a record that is no JSON": ("UPDATE nodes SET body = CAST('[1]' AS BLOB)", "cannot be read"),
    "a record under another name": ("UPDATE nodes SET id = 'x' WHERE id = 'n-9'", "nodes 'x'"),
    "an event of the future": ("UPDATE events SET revision = 99", "is newer than the store"),
    "an event that was pruned": ("UPDATE events SET revision = 1", "is older than the journal"),
    "no secret": ("DELETE FROM meta WHERE key = 'secret'", "lacks secret"),
}


@pytest.mark.parametrize("statement", DAMAGE.values(), ids=DAMAGE)
def test_a_check_lists_damage_and_leaves_it(statement: tuple[str, str], folder: Path) -> None:
    filled(store_place(folder, None))
    sound = run("check", "--at", folder, "-o", "json")
    assert sound.exit_code == 0, sound.output
    assert json.loads(sound.output)["rows"]["nodes"] == 5
    with closing(sqlite3.connect(folder / "navarch.db", isolation_level=None)) as database:
        database.execute(statement[0])
    found = run("check", "--at", folder)
    assert found.exit_code == 1
    assert statement[1] in found.output


def test_a_check_finds_pages_that_were_overwritten(folder: Path) -> None:
    filled(store_place(folder, None))
    file = folder / "navarch.db"
    data = bytearray(file.read_bytes())
    data[8192 : 8192 + 4096] = b"\xff" * 4096
    file.write_bytes(data)
    assert run("check", "--at", folder).exit_code == 1


def test_a_check_of_postgresql_reads_every_record(
    folder: Path, url: str, postgres: PostgresServer
) -> None:
    place = store_place(folder, url)
    filled(place)
    with closing(opened(place)):
        assert "nothing is damaged" in run("check", "--at", url).output
    postgres.execute("UPDATE nodes SET body = '[1]'", url)
    found = run("check", "--at", url)
    assert found.exit_code == 1
    assert "nodes 'training-0' cannot be read" in found.output


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_state_of_another_format_is_migrated_first(
    kind: str, folder: Path, tmp_path: Path, url: str, postgres: PostgresServer
) -> None:
    place = store_place(folder, None if kind == "sqlite" else url)
    at: Path | str = folder if kind == "sqlite" else url
    filled(place)
    change: Callable[[int], object] = {
        "sqlite": lambda n: _sqlite(folder, f"PRAGMA user_version = {n}"),
        "postgresql": lambda n: postgres.execute(f"UPDATE navarch_format SET number = {n}", url),
    }[kind]
    assert "already" in run("migrate", "--at", at).output
    newest = max(each.since for each in Fleet.kinds)
    for each in Fleet.kinds:
        if each.since > 4:
            _drop(kind, each.name, folder, url, postgres)
    change(4)
    refused = run("backup", tmp_path / "b.db", "--at", at)
    assert refused.exit_code == 1
    assert "navarch store migrate" in refused.output
    done = run("migrate", "--at", at)
    assert f"from format 4 to {newest}" in done.output, done.output
    assert run("check", "--at", at).exit_code == 0
    with closing(opened(place)):
        busy = run("migrate", "--at", at)
        assert busy.exit_code == 1
        assert "in use" in busy.output


def test_places_are_named_without_their_secrets(
    folder: Path, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = url.replace("navarch@", "navarch:hunter2secret@")
    shown = run("check", "--at", secret)
    assert shown.exit_code == 2
    assert "hunter2" not in shown.output
    filled(store_place(folder, url))
    (tmp_path / "url").write_text(secret + "\n")
    monkeypatch.setenv("NAVARCH_STORE", secret)
    for words in (("--at", f"@{tmp_path / 'url'}"), ("--at", "env:NAVARCH_STORE"), ()):
        done = run("check", *words)
        assert done.exit_code == 0, done.output
        assert "hunter2" not in done.output
    missing = run("check", "--at", "env:NOT_SET")
    assert "the variable NOT_SET is not set" in missing.output


async def _events(store: DurableStore) -> Sequence[Recorded]:
    return await store.events()


def _sqlite(folder: Path, script: str) -> None:
    with closing(sqlite3.connect(folder / "navarch.db")) as database:
        database.executescript(script)


def _drop(kind: str, table: str, folder: Path, url: str, postgres: PostgresServer) -> None:
    if kind == "sqlite":
        _sqlite(folder, f"DROP TABLE {table}")
    else:
        postgres.execute(f"DROP TABLE {table}", url)
