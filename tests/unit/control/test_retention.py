"""History is dropped in pieces, from the start of the process on."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from navarch.control.retention import LOOK_EVERY, PAUSE, RetentionController
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import Token
from navarch.core.launch import Launch
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.core.retention import LEAST, Retention
from navarch.ports.store import PRUNED_AT_ONCE
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import EPOCH, SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import ControllerDriver, a_node


class Site:
    """A store with a journal, and the controller that prunes it."""

    def __init__(self, retention: Retention) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        self.retention = retention
        self.start()

    def start(self) -> None:
        """Start the controller, as a new process does."""
        controller = RetentionController(self.clock, self.store, lambda: self.retention)
        self.driver = ControllerDriver(self.clock, self.store, controller)

    async def record(self, count: int, *, age: timedelta) -> None:
        event = Event(at=self.clock.now() - age, about=about("pool", "p"), kind="k", reason="r")
        for _ in range(count):
            revision = self.store.fleet().revision
            await self.store.commit(Change(events=[event]), based_on=revision)

    async def kept(self) -> int:
        return len(await self.store.events(limit=1_000_000))


def played(retention: Retention, story: Callable[[Site], Awaitable[None]]) -> None:
    async def play() -> None:
        await story(Site(retention))

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(play())


def test_a_restart_prunes_at_once_in_pieces_with_a_pause_after_each() -> None:
    async def story(site: Site) -> None:
        await site.record(2 * PRUNED_AT_ONCE + 1, age=timedelta(days=91))
        await site.record(5, age=timedelta(days=89))
        site.start()
        kept = []
        while (due := await site.driver.reconcile()) and due <= site.clock.now() + PAUSE:
            kept.append(await site.kept())
            await site.clock.sleep((due - site.clock.now()).total_seconds())
        assert kept[:3] == [PRUNED_AT_ONCE + 6, 6, 5]
        assert await site.kept() == 5
        assert due == EPOCH + LOOK_EVERY

    played(Retention(), story)


def test_events_that_come_of_age_are_pruned_within_an_hour() -> None:
    async def story(site: Site) -> None:
        await site.record(3, age=timedelta(days=89, hours=23))
        for _ in range(3):
            due = await site.driver.reconcile()
            assert due is not None
            await site.clock.sleep((due - site.clock.now()).total_seconds())
        assert await site.kept() == 0

    played(Retention(), story)


def test_events_that_controllers_still_read_are_kept_whatever_the_setting() -> None:
    async def story(site: Site) -> None:
        await site.record(3, age=LEAST - timedelta(hours=1))
        await site.record(3, age=timedelta(hours=2))
        await site.driver.reconcile()
        assert await site.kept() == 6

    played(Retention(events=timedelta(hours=1)), story)


def a_launch(number: int, *, asked: timedelta, ended: timedelta | None) -> Launch:
    """Return a launch of so long ago whose machine runs, or ended so long ago."""
    now = EPOCH
    launch = a_node("training-1").launch
    assert launch is not None
    return evolve(
        launch,
        token=Token(f"t-{number}"),
        asked_at=now - asked,
        launched_at=now - asked,
        ended_at=None if ended is None else now - ended,
    )


def test_launches_are_dropped_page_by_page_once_their_machine_has_long_ended() -> None:
    years = timedelta(days=1000)
    runs = [a_launch(number, asked=years, ended=None) for number in range(PRUNED_AT_ONCE)]
    over = [a_launch(number + 1000, asked=years, ended=years) for number in range(PRUNED_AT_ONCE)]
    lately = a_launch(5000, asked=years, ended=timedelta(days=729))
    refused = evolve(
        a_launch(6000, asked=years, ended=None), launched_at=None, instance=None, refused="none"
    )
    opened = evolve(refused, token=Token("t-7000"), refused=None)
    young = a_launch(8000, asked=timedelta(days=1), ended=timedelta(days=1))

    async def story(site: Site) -> None:
        await site.store.commit(
            Change(launches=[*runs, *over, lately, refused, opened, young]), based_on=0
        )
        site.start()
        while (due := await site.driver.reconcile()) and due <= site.clock.now() + PAUSE:
            await site.clock.sleep((due - site.clock.now()).total_seconds())
        kept = {launch.token for launch in await site.store.launches()}
        assert kept == {launch.token for launch in (*runs, lately, opened, young)}

    played(Retention(), story)


def test_launches_that_budgets_still_read_are_kept_whatever_the_setting() -> None:
    async def story(site: Site) -> None:
        age = LEAST - timedelta(hours=1)
        await site.store.commit(Change(launches=[a_launch(1, asked=age, ended=age)]), based_on=0)
        site.start()
        await site.driver.reconcile()
        assert len(await site.store.launches()) == 1

    played(Retention(launches=timedelta(hours=1)), story)


def test_files_are_pruned_by_their_own_settings() -> None:
    given: list[tuple[str, timedelta, int]] = []

    class Files:
        def __init__(self, name: str, clock: SimClock) -> None:
            self.name, self.clock = name, clock

        async def prune(self, before: datetime, *, bytes_max: int) -> bool:
            given.append((self.name, self.clock.now() - before, bytes_max))
            return False

    async def story(site: Site) -> None:
        controller = RetentionController(
            site.clock,
            site.store,
            lambda: site.retention,
            evidence=Files("evidence", site.clock),
            logs=Files("logs", site.clock),
        )
        await ControllerDriver(site.clock, site.store, controller).reconcile()
        assert given == [
            ("evidence", timedelta(days=10), 7_000_000),
            ("logs", timedelta(days=20), 7_000_000),
        ]

    retention = Retention(evidence=timedelta(days=10), logs=timedelta(days=20), files_mb=7)
    played(retention, story)
