"""What people are told unasked, and how often."""

import asyncio

from navarch.control.housekeeping.alerts import READ_AGAIN_MAX, AlertController
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import NotifierError
from navarch.core.event import Event, Recorded, Subject
from navarch.core.fleet import Change
from navarch.core.ownership import Cluster
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.controllers import ControllerDriver
from navarch.testing.worlds import NOW


class Listener:
    """Somebody who is told, while things go on happening and not every word arrives."""

    name = "ears"

    def __init__(self, store: MemoryStore, *, meanwhile: list[str], fails: int = 0) -> None:
        self.store = store
        self.meanwhile = meanwhile
        self.fails = fails
        self.told: list[str] = []

    async def notify(self, event: Recorded) -> None:
        if self.told and self.fails:
            self.fails -= 1
            raise NotifierError("nobody answers")
        self.told.append(event.event.about)
        if self.meanwhile:
            await happens(self.store, self.meanwhile.pop(0))


async def happens(store: MemoryStore, about: str) -> None:
    event = Event(at=NOW, about=Subject(about), kind="node.gone", reason="so it is")
    await store.commit(Change(events=[event]), based_on=store.fleet().revision)


def told(*, meanwhile: list[str], fails: int = 0) -> list[str]:
    """Return what a listener hears when something happens to node a, and more `meanwhile`."""

    async def story() -> list[str]:
        store = MemoryStore(Cluster(id="cluster-1", secret=b"x" * 32))
        listener = Listener(store, meanwhile=meanwhile, fails=fails)
        clock = SimClock()
        async with asyncio.TaskGroup() as tasks:
            errands = OperationRunner(clock, SeededEntropy("1"), tasks, strict=True)
            controller = AlertController(clock, store, listener, errands)
            alerts = ControllerDriver(clock, store, controller)
            await alerts.reconcile()
            await asyncio.sleep(1)
            await happens(store, "node/a")
            for _ in range(5):
                await alerts.reconcile()
                await asyncio.sleep(60)
        return listener.told

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(story())


def test_what_happens_while_people_are_told_is_told_once() -> None:
    assert told(meanwhile=["node/b", "node/c"]) == ["node/a", "node/b", "node/c"]


def test_a_word_that_does_not_arrive_is_said_again_and_those_before_it_are_not() -> None:
    assert told(meanwhile=["node/b", "node/c"], fails=2) == ["node/a", "node/b", "node/c"]


class Reader:
    """A notifier and its reconciler, which may die and start again."""

    name = "ears"

    def __init__(self) -> None:
        self.store = MemoryStore(Cluster(id="cluster-1", secret=b"x" * 32))
        self.told: list[str] = []
        self.marked = 0
        self.store.subscribe(lambda done: self._count(done.change))

    def _count(self, change: Change) -> None:
        self.marked += len(change.cursors)

    async def notify(self, event: Recorded) -> None:
        self.told.append(event.event.about)

    async def live(self, *kinds: str) -> None:
        """Start, and read what happens meanwhile, each thing in a commit of its own."""
        clock = SimClock()
        async with asyncio.TaskGroup() as tasks:
            errands = OperationRunner(clock, SeededEntropy("1"), tasks, strict=True)
            controller = AlertController(clock, self.store, self, errands)
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
    """Return a reader who has lived through each of `lives`."""

    async def story() -> Reader:
        reader = Reader()
        for life in lives:
            await reader.live(*life)
        return reader

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(story())


def test_what_nobody_is_told_of_costs_no_commit() -> None:
    # The first is where a notifier that is new here begins.
    assert read(["node.registered"] * 9).marked == 1
    assert read(["node.registered", "node.gone", "node.registered"]).marked == 2


def test_what_was_told_is_not_told_again_after_a_restart() -> None:
    reader = read(["node.gone", "node.registered"], ["node.registered", "node.retiring"], [])
    assert reader.told == ["node/node.gone", "node/node.retiring"]


def test_a_restart_does_not_read_the_whole_past_again() -> None:
    reader = read(["node.registered"] * (READ_AGAIN_MAX + 5))
    assert reader.marked == 2
