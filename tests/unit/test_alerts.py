"""Alerts: each event is sent once, also after failures and restarts."""

import asyncio

from navarch.control.housekeeping import READ_AGAIN_MAX, AlertController
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import NotifierError
from navarch.core.event import Event, Recorded, Subject
from navarch.core.fleet import Change
from navarch.core.ownership import Cluster
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, ControllerDriver


class RecordingNotifier:
    """A notifier that fails now and then while further events are committed."""

    name = "recording"

    def __init__(self, store: MemoryStore, *, meanwhile: list[str], fails: int = 0) -> None:
        self.store = store
        self.meanwhile = meanwhile
        self.fails = fails
        self.sent: list[str] = []

    async def notify(self, event: Recorded) -> None:
        if self.sent and self.fails:
            self.fails -= 1
            raise NotifierError("no answer")
        self.sent.append(event.event.about)
        if self.meanwhile:
            await record_event(self.store, self.meanwhile.pop(0))


async def record_event(store: MemoryStore, about: str) -> None:
    event = Event(at=NOW, about=Subject(about), kind="node.gone", reason="so it is")
    await store.commit(Change(events=[event]), based_on=store.fleet().revision)


def sent(*, meanwhile: list[str], fails: int = 0) -> list[str]:
    """Return the alerts for an event of node a and further events `meanwhile`."""

    async def story() -> list[str]:
        store = MemoryStore(Cluster(id="cluster-1", secret=b"x" * 32))
        notifier = RecordingNotifier(store, meanwhile=meanwhile, fails=fails)
        clock = SimClock()
        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(clock, SeededEntropy("1"), tasks, strict=True)
            controller = AlertController(clock, store, notifier, operations)
            alerts = ControllerDriver(clock, store, controller)
            await alerts.reconcile()
            await asyncio.sleep(1)
            await record_event(store, "node/a")
            for _ in range(5):
                await alerts.reconcile()
                await asyncio.sleep(60)
        return notifier.sent

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(story())


def test_events_during_a_notification_are_sent_once() -> None:
    assert sent(meanwhile=["node/b", "node/c"]) == ["node/a", "node/b", "node/c"]


def test_a_failed_notification_is_retried_and_earlier_ones_are_not() -> None:
    assert sent(meanwhile=["node/b", "node/c"], fails=2) == ["node/a", "node/b", "node/c"]


class Reader:
    """A notifier and its reconciler, which may die and start again."""

    name = "recording"

    def __init__(self) -> None:
        self.store = MemoryStore(Cluster(id="cluster-1", secret=b"x" * 32))
        self.sent: list[str] = []
        self.marked = 0
        self.store.subscribe(lambda done: self._count(done.change))

    def _count(self, change: Change) -> None:
        self.marked += len(change.cursors)

    async def notify(self, event: Recorded) -> None:
        self.sent.append(event.event.about)

    async def live(self, *kinds: str) -> None:
        """Start, and process events of `kinds`, each in its own commit."""
        clock = SimClock()
        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(clock, SeededEntropy("1"), tasks, strict=True)
            controller = AlertController(clock, self.store, self, operations)
            alerts = ControllerDriver(clock, self.store, controller)
            for kind in (None, *kinds):
                if kind is not None:
                    event = Event(at=NOW, about=Subject(f"node/{kind}"), kind=kind, reason="so")
                    change = Change(events=[event])
                    await self.store.commit(change, based_on=self.store.fleet().revision)
                for _ in range(2):
                    await alerts.reconcile()
                    await asyncio.sleep(1)


def read(*lives: list[str]) -> Reader:
    """Return a reader that was started once for each of `lives`."""

    async def story() -> Reader:
        reader = Reader()
        for life in lives:
            await reader.live(*life)
        return reader

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(story())


def test_events_without_an_alert_cost_no_commit() -> None:
    # The first bookmark is the start of a new notifier.
    assert read(["node.registered"] * 9).marked == 1
    assert read(["node.registered", "node.gone", "node.registered"]).marked == 2


def test_alerts_are_not_sent_again_after_a_restart() -> None:
    reader = read(["node.gone", "node.registered"], ["node.registered", "node.retiring"], [])
    assert reader.sent == ["node/node.gone", "node/node.retiring"]


def test_a_restart_does_not_read_the_whole_journal_again() -> None:
    reader = read(["node.registered"] * (READ_AGAIN_MAX + 5))
    assert reader.marked == 2
