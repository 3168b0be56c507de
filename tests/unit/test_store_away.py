"""The start of a leader, and what runs beside its controllers, outlive a store that is away."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from navarch.app.leadership import AGAIN_S, record_policies, until_store_answers
from navarch.app.telemetry import PauseWatch, TimeoutMigration
from navarch.config.policy import default_policy
from navarch.control.pools.ledger import Ledger
from navarch.core.errors import StoreAwayError, StoreError, SupersededError
from navarch.core.fleet import Change, Fleet
from navarch.core.launch import Launch
from navarch.core.ownership import Cluster
from navarch.health.policy.engine import compile_policies
from navarch.ports.api import CostBy
from navarch.service.agents import Timing
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.commit_queue import InDoubtError
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable

TIMING = Timing(heartbeat_interval=timedelta(seconds=5))
LONGER = 3 * TIMING.silence


class AwayStore(MemoryStore):
    """A store that can be away."""

    away = True

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        self._check()
        return await super().commit(change, based_on=based_on)

    async def launches(self, **given: object) -> list[Launch]:
        self._check()
        return list(await super().launches(**given))  # type: ignore[arg-type]

    def _check(self) -> None:
        if self.away:
            raise StoreAwayError("the store is away")


Build = Callable[[SimClock, AwayStore], PauseWatch | TimeoutMigration]


def run_beside(store: AwayStore, build: Build) -> None:
    """Run something for a while with the store away, and for a while with it back."""

    async def story() -> None:
        clock = SimClock()
        running = asyncio.ensure_future(build(clock, store).run())
        await clock.sleep(10 * LONGER.total_seconds())
        assert not running.done()
        store.away = False
        await clock.sleep(10 * LONGER.total_seconds())
        running.cancel()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(story())


def a_store() -> AwayStore:
    return AwayStore(Cluster(id="c", secret=b"x" * 32))


class PausedTable(TelemetryTable):
    """A table of a process that was paused twice."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__(clock, timeout=TIMING.silence)
        self._pauses = [timedelta(seconds=7), timedelta(seconds=5)]

    def pulse(self) -> timedelta:
        return self._pauses.pop() if self._pauses else timedelta(0)


class LostReply(MemoryStore):
    """A store whose reply to the first commit is lost, with or without its effect."""

    def __init__(self, *, written: bool) -> None:
        super().__init__(Cluster(id="c", secret=b"x" * 32))
        self._written = written
        self._lost = False

    async def commit(self, change: Change, *, based_on: int) -> Fleet:
        if self._lost:
            return await super().commit(change, based_on=based_on)
        self._lost = True
        if self._written:
            await super().commit(change, based_on=based_on)
        raise InDoubtError("the connection was lost")


@pytest.mark.parametrize("written", [True, False])
def test_a_leader_that_starts_while_the_database_goes_away_records_its_policies_once(
    written: bool,
) -> None:
    async def story() -> None:
        clock, store = SimClock(), LostReply(written=written)
        policies = compile_policies(default_policy())
        await until_store_answers(clock, lambda: record_policies(clock, store, policies))
        kinds = [x.event.kind for x in await store.events()]
        assert kinds == ["policy.loaded"]
        assert clock.monotonic() == AGAIN_S

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(story())


@pytest.mark.parametrize("error", [SupersededError("another leads"), StoreError("damaged")])
def test_a_leader_that_starts_ends_for_every_other_reason(error: StoreError) -> None:
    async def fail() -> None:
        raise error

    with (
        asyncio.Runner(loop_factory=SimLoop) as runner,
        pytest.raises(type(error), match=str(error)),
    ):
        runner.run(until_store_answers(SimClock(), fail))


def test_a_pause_is_recorded_once_the_store_is_back() -> None:
    store = a_store()
    run_beside(store, lambda clock, store: PauseWatch(clock, store, PausedTable(clock)))
    reasons = [x.event.reason for x in asyncio.run(store.events())]
    assert len(reasons) == 1
    assert "did not run for 12 s" in reasons[0]


def test_a_longer_timeout_ends_once_the_store_is_back() -> None:
    tables: list[TelemetryTable] = []

    def build(clock: SimClock, store: AwayStore) -> TimeoutMigration:
        tables.append(TelemetryTable(clock, timeout=LONGER))
        return TimeoutMigration(
            clock, store, tables[0], timing=lambda: TIMING, request_registrations=lambda: None
        )

    run_beside(a_store(), build)
    assert tables[0].timeout == TIMING.silence


def test_the_ledger_is_read_by_the_first_query_if_the_store_was_away() -> None:
    async def story() -> None:
        clock, store = SimClock(), a_store()
        ledger = Ledger(clock, store)
        await ledger.read()
        with pytest.raises(StoreAwayError):
            await ledger.accounts(CostBy.POOL, since=None, until=clock.now())
        store.away = False
        assert await ledger.accounts(CostBy.POOL, since=None, until=clock.now()) == {}

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(story())
