"""The table of replicas, on a real PostgreSQL server."""

from collections.abc import Iterator
from datetime import UTC, datetime
from threading import Thread

import msgspec
import pytest
from tests.support.postgres_server import PostgresServer

from navarch.clock import SystemClock
from navarch.core.errors import StoreAwayError
from navarch.core.version import VERSION
from navarch.ports.store import Replica
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy
from navarch.stores.postgres import PostgresStore
from navarch.stores.postgres_connection import PostgresAddress
from navarch.stores.postgres_replicas import PostgresReplicas
from navarch.stores.postgres_standby import PostgresStandby


def a_replica(id: str, port: int) -> Replica:  # noqa: A002
    return Replica(
        id=id,
        http=f"10.0.0.7:{port}",
        grpc=f"10.0.0.7:{port + 1}",
        version=VERSION,
        started=datetime(2026, 11, 19, 12, port % 60, tzinfo=UTC),
    )


ONE, TWO = a_replica("one", 50051), a_replica("two", 50061)


class Database:
    """A database, and what is opened at it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.address = PostgresAddress(url)
        self.tables: list[PostgresReplicas] = []

    def table(self) -> PostgresReplicas:
        table = PostgresReplicas(SystemClock(), self.address)
        self.tables.append(table)
        return table

    def lead(self) -> PostgresStore:
        return PostgresStore.open(SystemClock(), self.address, InlineOffload(), SeededEntropy("1"))

    def standby(self) -> PostgresStandby:
        return PostgresStandby(SystemClock(), self.address, InlineOffload(), SeededEntropy("2"))


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    database = Database(postgres.new_url())
    yield database
    for table in database.tables:
        table.close()


def ids(table: PostgresReplicas, own: Replica) -> list[str]:
    view = table.round(own, wait_s=0.0)
    assert view is not None
    return [each.id for each in view.replicas]


def until(table: PostgresReplicas, own: Replica, leader: str | None) -> None:
    """Return when `own` follows that leader."""
    for _ in range(100):
        view = table.round(own)
        assert view is not None
        if (view.leader.id if view.leader else None) == leader:
            return
    raise AssertionError(f"{leader} does not lead")


def test_nothing_is_registered_before_there_is_a_fleet(database: Database) -> None:
    table = database.table()
    assert table.secret() is None
    assert table.round(ONE, wait_s=0.0) is None
    store = database.lead()
    assert table.secret() == store.cluster.secret
    assert ids(table, ONE) == ["one"]
    store.close()


def test_replicas_learn_of_each_other_and_of_one_that_leaves(database: Database) -> None:
    store = database.lead()
    first, second = database.table(), database.table()
    assert ids(first, ONE) == ["one"]
    assert ids(second, TWO) == ["one", "two"]
    # Announced: no interval has to pass before the first one reads it.
    while ids(first, ONE) != ["one", "two"]:
        pass
    second.leave(TWO)
    while ids(first, ONE) != ["one"]:
        pass
    store.close()


def test_the_leader_is_the_one_of_the_present_term(database: Database) -> None:
    first, second = database.table(), database.table()
    store = database.lead()
    ids(first, msgspec.structs.replace(ONE, term=store.term))
    until(second, TWO, "one")
    store.close()
    later = database.lead()
    # The row of the former leader says what it was; the term has moved on.
    until(second, TWO, None)
    ids(second, msgspec.structs.replace(TWO, term=later.term))
    until(first, ONE, "two")
    later.close()


def test_a_replica_replaces_the_one_that_was_killed_at_its_address(database: Database) -> None:
    store = database.lead()
    first, second = database.table(), database.table()
    ids(first, ONE)
    assert ids(second, msgspec.structs.replace(TWO, http=ONE.http)) == ["two"]
    store.close()


def test_replicas_that_start_at_once_create_the_table_once(database: Database) -> None:
    store = database.lead()
    tables = [database.table() for _ in range(6)]
    found: list[object] = []
    threads = [
        Thread(target=lambda t=table, n=n: found.append(ids(t, a_replica(str(n), 1000 + 10 * n))))
        for n, table in enumerate(tables)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6, "no replica failed"
    store.close()


def test_a_database_that_is_away_is_an_error_and_the_replica_registers_again(
    database: Database, postgres: PostgresServer
) -> None:
    store = database.lead()
    table = database.table()
    ids(table, ONE)
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'navarch replica'"
    )
    with pytest.raises(StoreAwayError):
        table.round(msgspec.structs.replace(ONE, term=store.term))
    assert ids(table, ONE) == ["one"]
    store.close()


def test_a_replica_of_an_older_version_follows_the_leader_but_never_leads(
    database: Database, postgres: PostgresServer
) -> None:
    store = database.lead()
    standby, table = database.standby(), database.table()
    assert standby._round() is None
    postgres.execute("UPDATE navarch_format SET number = 999", database.url)
    ids(database.table(), msgspec.structs.replace(TWO, term=store.term))
    until(table, ONE, "two")
    view = table.round(ONE)
    assert view is not None
    assert "has format 999" in view.obstacle
    assert "cannot lead; upgrade it" in view.obstacle
    store.close()
    for _ in range(3):
        assert standby._round() is None, "the lock is free, but the format is unknown"
    assert postgres.execute("SELECT term FROM state", database.url) == [(store.term,)]
    standby.close()


def test_a_standby_that_took_over_keeps_the_lock_when_it_is_closed(database: Database) -> None:
    """Otherwise another standby takes over from it at once."""
    database.lead().close()
    standby, other = database.standby(), database.standby()
    store = standby._round()
    assert store is not None
    standby.close()
    assert other._round() is None
    other.close()
    store.close()


def test_the_local_address_is_that_of_the_way_to_the_database(database: Database) -> None:
    assert database.table().local_host() == "127.0.0.1"
