"""The PostgreSQL store passes the store contract, on a real server."""

import asyncio
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from bench.replicas_databases import DatabasePair
from tests.support.postgres_proxy import CuttingProxy
from tests.support.postgres_server import PostgresServer, postgres_server

from navarch.app.store_places import Means, store_place
from navarch.clock import SystemClock, SystemEntropy, ThreadOffload
from navarch.core.errors import (
    ConflictError,
    InUseError,
    MovedError,
    StoreAwayError,
    StoreError,
    SupersededError,
)
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId
from navarch.ports.store import Store
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy
from navarch.stores.commit_queue import InDoubtError
from navarch.stores.postgres import PostgresStore, load
from navarch.stores.postgres_connection import SILENCE_S, PostgresAddress
from navarch.stores.postgres_standby import PostgresStandby
from navarch.testing.store_contract import EVENT, INCIDENT, NODE, POOL, StoreContract
from navarch.testing.worlds import a_node


class LaterClock(SystemClock):
    """The clock of the operating system, with jumps."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


class TestPostgresStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres: PostgresServer) -> Iterator[None]:
        self.clock = LaterClock()
        self.address = PostgresAddress(postgres.new_url())
        self.offload = ThreadOffload("store")
        self.opened: list[PostgresStore] = []
        yield
        for store in self.opened:
            store.close()
        self.offload.close()

    def open(self) -> Store:
        store = PostgresStore.open(self.clock, self.address, self.offload, SeededEntropy("1"))
        self.opened.append(store)
        return store

    def reopen(self, store: Store) -> Store:
        assert isinstance(store, PostgresStore)
        store.close()
        return self.open()

    def supersede(self, store: Store) -> Store:
        # The lock has no effect; only the term is left to stop the first leader.
        assert isinstance(store, PostgresStore)
        assert store._session._connection is not None
        store._session._connection.execute("SELECT pg_advisory_unlock_all()")
        self.clock.ahead_s += SILENCE_S
        return self.open()


def open_at(url: str, *, password: str | None = None) -> PostgresStore:
    address = PostgresAddress(url, password=password)
    return PostgresStore.open(SystemClock(), address, InlineOffload(), SeededEntropy("1"))


def loaded(url: str) -> Fleet:
    """Return the fleet as another process reads it."""
    other = PostgresAddress(url).connect("test")
    with closing(other):
        return load(other, Fleet())[0]


def test_a_second_server_fails_because_the_database_is_in_use(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    store = open_at(url)
    with pytest.raises(InUseError, match="in use by another navarch server"):
        open_at(url)
    open_at(postgres.new_url()).close()  # another schema is another fleet
    store.close()
    open_at(url).close()


def test_a_database_of_a_newer_version_is_refused_and_left_alone(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    open_at(url).close()
    postgres.execute("UPDATE navarch_format SET number = 999", url)
    with pytest.raises(StoreError, match="written by a newer navarch"):
        open_at(url)
    assert postgres.execute("SELECT number, term FROM navarch_format, state", url) == [(999, 1)]


def test_a_database_of_an_older_format_gains_the_tables_of_later_formats(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    store = open_at(url)
    asyncio.run(store.commit(Change(nodes=[NODE]), based_on=0))
    store.close()
    later = ", ".join(kind.name for kind in Fleet.kinds if kind.since > 2)
    postgres.execute(f"DROP TABLE {later}; UPDATE navarch_format SET number = 2", url)

    store = open_at(url)
    assert dict(store.fleet().nodes) == {NODE.id: NODE}
    asyncio.run(store.commit(Change(incidents=[INCIDENT]), based_on=1))
    assert dict(loaded(url).incidents) == {INCIDENT.id: INCIDENT}
    store.close()


def test_a_migration_that_fails_changes_nothing(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    postgres.execute("CREATE TABLE alerts (of_another_program integer)", url)
    with pytest.raises(StoreError, match='"alerts" already exists'):
        open_at(url)
    assert postgres.execute("SELECT to_regclass('nodes')", url) == [(None,)]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://navarch:hunter2secret@127.0.0.1:1/db",
        "postgresql://navarch:hunter2secret@127.0.0.1:port/db",
        "postgresql://navarch:hunter2 secret@[/db",
        "hunter2secret",
    ],
)
def test_no_error_quotes_the_password(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_at(url)
    text = "".join(traceback.format_exception(caught.value))
    assert "hunter2" not in text


def test_a_password_from_elsewhere_is_used_and_not_shown(postgres: PostgresServer) -> None:
    address = PostgresAddress(postgres.new_url(), password="hunter2secret")
    assert "hunter2" not in address.shown
    address.connect("test").close()  # this server accepts any


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_a_connection_lost_at_any_message_of_a_commit_loses_and_repeats_nothing(
    postgres: PostgresServer, *, after: bool
) -> None:
    url = postgres.new_url()
    with closing(CuttingProxy(postgres.port)) as proxy:
        store = open_at(through(proxy, url))
        asyncio.run(store.commit(Change(pools=[POOL]), based_on=0))

        async def commit(number: int) -> None:
            change = Change(nodes=[a_node(f"n-{number}")], events=[EVENT])
            fleet = await store.commit(change, based_on=store.fleet().revision)
            assert fleet.revision == number + 1

        asyncio.run(reconnect(proxy, store))
        proxy.arm(None)
        asyncio.run(commit(1))
        for message in range(1, proxy.messages + 1):
            asyncio.run(reconnect(proxy, store))
            proxy.arm(message, after=after)
            asyncio.run(commit(message + 1))

        commits = message + 2
        assert store.fleet() == loaded(url)
        assert [x.revision for x in asyncio.run(store.events())] == list(range(2, commits + 1))
        assert [x.number for x in asyncio.run(store.events())] == list(range(1, commits))
        store.close()


def test_a_commit_in_doubt_is_settled_before_the_next_one(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    outcomes: set[bool] = set()
    with closing(CuttingProxy(postgres.port)) as proxy:
        store = open_at(through(proxy, url))

        async def story(number: int, cut_at: int) -> None:
            before = store.fleet().revision
            await reconnect(proxy, store)
            node = a_node(f"n-{number}")
            proxy.arm(cut_at, after=True)
            proxy.away = True
            with pytest.raises(InDoubtError, match=r"not known yet|was lost"):
                await store.commit(Change(nodes=[node], events=[EVENT]), based_on=before)
            assert store.fleet().revision == before, "nothing is guessed"
            with pytest.raises(StoreError):
                await store.commit(Change(pools=[POOL]), based_on=before)
            with pytest.raises(StoreError):
                await store.hold()
            proxy.away = False
            await store.hold()

            landed = node.id in loaded(url).nodes
            outcomes.add(landed)
            assert (node.id in store.fleet().nodes) is landed
            if landed:
                with pytest.raises(ConflictError):
                    await store.commit(Change(nodes=[node]), based_on=before)
            await store.commit(Change(events=[EVENT]), based_on=store.fleet().revision)
            assert store.fleet() == loaded(url)

        asyncio.run(reconnect(proxy, store))
        proxy.arm(None)
        asyncio.run(store.commit(Change(nodes=[NODE], events=[EVENT]), based_on=0))
        commit = proxy.messages
        for number, cut_at in enumerate(range(commit - 6, commit + 1)):
            asyncio.run(story(number, cut_at))
        store.close()
    assert outcomes == {True, False}


def test_a_killed_database_keeps_every_acknowledged_commit() -> None:
    with postgres_server() as server:
        url = server.url
        store = open_at(url)
        for number in range(3):
            asyncio.run(store.commit(Change(nodes=[a_node(f"n-{number}")]), based_on=number))
        server.kill()
        with pytest.raises(StoreError):
            asyncio.run(store.commit(Change(nodes=[a_node("n-3")]), based_on=3))
        with pytest.raises(StoreError):
            asyncio.run(store.events())
        server.start()

        asyncio.run(store.commit(Change(nodes=[a_node("n-3")]), based_on=3))
        assert list(loaded(url).nodes) == [f"n-{number}" for number in range(4)]
        store.close()


def test_a_commit_in_doubt_counts_once_the_standby_database_has_it() -> None:
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with closing(DatabasePair()) as pair, ThreadPoolExecutor() as threads:
        assert pair.standby is not None
        store = open_at(pair.primary.url)
        pair.standby.signal(signal.SIGSTOP)
        writing = threads.submit(asyncio.run, store.commit(Change(pools=[POOL]), based_on=0))
        while not pair.primary.execute(waits):
            assert not writing.done()
        pair.primary.kill()
        with pytest.raises(InDoubtError):
            writing.result()
        pair.primary.start()
        holding = threads.submit(asyncio.run, store.hold())
        while not holding.done() and not pair.primary.execute(waits):
            time.sleep(0.01)
        early = holding.done()
        pair.standby.signal(signal.SIGCONT)
        holding.result()
        assert not early, "the standby did not have the commit"
        assert list(store.fleet().pools) == [POOL.name]
        store.close()


def test_a_leader_that_lost_its_session_to_another_writes_nothing(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    with closing(CuttingProxy(postgres.port)) as proxy:
        old = open_at(through(proxy, url))
        asyncio.run(old.commit(Change(pools=[POOL]), based_on=0))
        proxy.cut()
        new = open_at(url)
        with pytest.raises(SupersededError, match="its term is 2"):
            asyncio.run(old.hold())
        new.close()
        with pytest.raises(SupersededError, match="its term is 2"):
            asyncio.run(old.hold())
        with pytest.raises(SupersededError):
            asyncio.run(old.commit(Change(nodes=[NODE]), based_on=1))
        assert loaded(url) == new.fleet()
        old.close()


def test_a_leader_that_falls_silent_is_replaced_and_a_busy_one_is_not(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    busy_url = postgres.new_url()
    silent, busy = open_at(url), open_at(busy_url)
    took_over = time.monotonic()
    new = None
    while new is None:
        asyncio.run(busy.hold())
        with suppress(InUseError):
            new = open_at(url)
        assert time.monotonic() < took_over + 3 * SILENCE_S
    assert time.monotonic() > took_over + SILENCE_S - 0.1
    with pytest.raises(InUseError):
        open_at(busy_url)
    with pytest.raises(SupersededError):
        asyncio.run(silent.commit(Change(nodes=[NODE]), based_on=0))
    for store in (silent, busy, new):
        store.close()


def test_a_leader_that_falls_silent_within_a_transaction_is_replaced(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    with closing(CuttingProxy(postgres.port)) as proxy:
        old = open_at(through(proxy, url))
        proxy.arm(2, pause=True)  # the transaction has begun, and holds the row of the state
        writing = threading.Thread(target=commit_and_fail, args=(old,))
        writing.start()
        new = None
        while new is None:
            with suppress(InUseError):
                new = open_at(url)
        asyncio.run(new.commit(Change(pools=[POOL]), based_on=0))
        proxy.cut()
        writing.join()
        with pytest.raises(SupersededError):
            asyncio.run(old.hold())
        assert loaded(url) == new.fleet()
        for store in (old, new):
            store.close()


def commit_and_fail(store: PostgresStore) -> None:
    with pytest.raises(StoreError):
        asyncio.run(store.commit(Change(nodes=[NODE], events=[EVENT]), based_on=0))


def test_a_standby_follows_every_commit_and_leads_when_the_leader_ends(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    leader = open_at(url)
    with closing(standby_at(url)) as standby:

        async def story() -> None:
            assert await standby.take_over() is None
            assert standby.known == (leader.fleet(), {})
            for number in range(3):
                change = Change(nodes=[a_node(f"n-{number}")], cursors={"reader": number})
                await leader.commit(change, based_on=number)
            await leader.commit(Change(forget_nodes=[NodeId("n-1")]), based_on=3)
            assert (await leader.info()).standbys == [4]
            assert await standby.take_over() is None
            assert standby.known == (leader.fleet(), {"reader": 2})
            assert (await leader.info()).standbys == [0]
            await leader.commit(Change(pools=[POOL]), based_on=4)
            leader.close()
            store = await standby.take_over()
            assert store is not None
            assert (store.term, store.fleet(), store.cursor("reader")) == (2, loaded(url), 2)
            await store.commit(Change(nodes=[NODE]), based_on=5)
            store.close()

        asyncio.run(story())


def test_a_standby_is_woken_by_a_commit(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    leader = open_at(url)
    with closing(standby_at(url)) as standby:
        asyncio.run(standby.take_over())
        with ThreadPoolExecutor() as threads:
            began = time.monotonic()
            waiting = threads.submit(standby._follow, 20.0)
            asyncio.run(leader.commit(Change(pools=[POOL]), based_on=0))
            waiting.result()
        assert time.monotonic() < began + 10.0
        assert standby.known == (leader.fleet(), {})
    leader.close()


def test_a_standby_that_fell_too_far_behind_reads_everything_again(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    leader = open_at(url)
    with closing(standby_at(url)) as standby:
        asyncio.run(standby.take_over())
        for revision in range(3):
            asyncio.run(leader.commit(Change(nodes=[a_node(f"n-{revision}")]), based_on=revision))
        postgres.execute("DELETE FROM commits WHERE revision < 3", url)
        asyncio.run(standby.take_over())
        assert standby.known == (leader.fleet(), {})
    leader.close()


def test_a_standby_outlives_its_database_and_one_without_a_fleet(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    with closing(CuttingProxy(postgres.port)) as proxy:
        leader = open_at(through(proxy, url))
        with closing(standby_at(through(proxy, url))) as standby:
            assert asyncio.run(standby.take_over()) is None
            proxy.away = True
            proxy.cut()
            for _ in range(2):
                with pytest.raises(StoreAwayError):
                    asyncio.run(standby.take_over())
            proxy.away = False
            store = asyncio.run(standby.take_over())
            assert store is not None, "the session of the leader was lost, too"
            store.close()
        leader.close()
    with closing(standby_at(postgres.new_url())) as standby:
        first = asyncio.run(standby.take_over())
        assert first is not None
        assert first.term == 1
        first.close()


def test_a_server_that_has_taken_over_keeps_the_lock(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    with closing(standby_at(url)) as standby:
        store = asyncio.run(standby.take_over())
    assert store is not None
    with pytest.raises(InUseError):
        open_at(url)
    store.close()


def test_a_standby_outlives_a_connection_lost_at_any_message_of_its_take_over(
    postgres: PostgresServer,
) -> None:
    url = postgres.new_url()
    open_at(url).close()
    with closing(CuttingProxy(postgres.port)) as proxy:
        for number in count(1):
            with closing(standby_at(through(proxy, url))) as standby:
                taken = None
                proxy.arm(number)
                with suppress(StoreAwayError):
                    taken = asyncio.run(standby.take_over())
                reached = proxy.messages
                proxy.arm(None)
                while taken is None:
                    taken = asyncio.run(standby.take_over())
                asyncio.run(taken.hold())
                taken.close()
            if reached < number:
                break
        assert number > 10


def test_a_standby_leaves_no_errors_in_the_log_of_its_database() -> None:
    with postgres_server() as server:
        leader = open_at(server.url)
        with closing(standby_at(server.url)) as standby:
            assert asyncio.run(standby.take_over()) is None
        leader.close()
        assert "ERROR" not in server.log.read_text()


def standby_at(url: str) -> PostgresStandby:
    address = PostgresAddress(url)
    return PostgresStandby(SystemClock(), address, InlineOffload(), SeededEntropy("1"))


def test_a_database_that_was_emptied_or_exchanged_is_no_new_cluster(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url, other = postgres.new_url(), postgres.new_url()
    entropy = SystemEntropy()
    means = Means(SystemClock(), entropy, InlineOffload())
    place = store_place(tmp_path / "state", url)
    store = asyncio.run(place.open(means))
    place.remember(store.cluster.id)
    store.close()
    asyncio.run(place.open(means)).close()
    asyncio.run(store_place(tmp_path / "other", other).open(means)).close()
    for lost, why in ((postgres.new_url(), "holds no fleet"), (other, "is of cluster")):
        there = store_place(tmp_path / "state", lost)
        with pytest.raises(StoreError, match=f"{why}.*is of {store.cluster.id}"):
            asyncio.run(there.open(means))
        with closing(there.standby(means)) as standby, pytest.raises(StoreError, match=why):
            asyncio.run(standby.take_over())
    asyncio.run(store_place(tmp_path / "new", postgres.new_url()).open(means)).close()


def test_a_state_that_was_moved_is_not_opened(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    open_at(url).close()
    postgres.execute("UPDATE state SET moved_to = 'elsewhere'", url)
    with pytest.raises(MovedError, match="was moved to elsewhere"):
        open_at(url)
    assert postgres.execute("SELECT term FROM state", url) == [(1,)]


def test_a_server_stops_when_the_database_has_lost_its_commits(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    store = open_at(url)
    asyncio.run(store.commit(Change(pools=[POOL]), based_on=0))
    postgres.execute("UPDATE state SET revision = 0", url)
    with pytest.raises(SupersededError, match="at revision 0, this server at 1"):
        asyncio.run(store.commit(Change(nodes=[NODE]), based_on=1))
    store.close()


async def reconnect(proxy: CuttingProxy, store: PostgresStore) -> None:
    """Give the store a new session, on which the server has prepared no statement."""
    proxy.arm(None)
    proxy.cut()
    await store.hold()


def through(proxy: CuttingProxy, url: str) -> str:
    there = urlsplit(url)
    netloc = f"{there.username}@127.0.0.1:{proxy.port}"
    # Without encryption, which the proxy cannot read.
    return there._replace(netloc=netloc).geturl() + "&sslmode=disable&gssencmode=disable"
