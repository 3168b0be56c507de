"""A failing remediator delays its own pool, with a reason, and no other pool."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from navarch.control.health.remediation import RemediationController
from navarch.control.providers.guard import Providers
from navarch.core.alert import AlertCause
from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.instance import NoticeKind
from navarch.core.node import Node, Retirement
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.core.recovery import RecoveryStep, Remediation
from navarch.fleet.alerts.conditions import AlertInputs, find_conditions
from navarch.fleet.disruption.unhealthy import AUTOMATIC, CordonAndReplace
from navarch.ports.remediator import Remediator, Remedy, Treatment
from navarch.service.fleet import FleetService
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import NOW, ControllerDriver, a_node, a_pool, indexed

OURS, OTHER = PoolName("ours"), PoolName("other")
SICK, WELL, SPARED = NodeId("ours-0"), NodeId("ours-1"), NodeId("other-0")
FAULT = Condition(
    check="xid/79/GPU-0", health=Health.UNHEALTHY, reason="XID 79", since=NOW, fatal=True
)


def broken(name: str, pool: str) -> Node:
    return a_node(name, pool, health=Health.UNHEALTHY, conditions=(FAULT,))


class ScriptedRemediator:
    """A custom remediator with behaviour that the test sets."""

    def __init__(self, answer: Callable[[Node], object]) -> None:
        self.answer = answer
        self.asked: list[NodeId] = []

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        del pool
        self.asked.append(node.id)
        answer: Any = self.answer(node)
        return answer  # type: ignore[no-any-return]


def boom(node: Node) -> object:
    raise ValueError(f"no rack for {node.id}")


def replaced(node: Node) -> object:
    del node
    return Treatment(remedy=Remedy.REPLACE, reason="unhealthy: XID 79")


class Site:
    """Two pools with one broken node each, one of them with a custom remediator."""

    def __init__(self, moody: ScriptedRemediator) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        self.moody = moody
        self.remediators: Mapping[PoolName, Remediator] = {OURS: moody, OTHER: CordonAndReplace()}
        self.loop = self.start()
        self.fleet = FleetService(
            self.clock,
            SeededEntropy("1"),
            self.store,
            TelemetryTable(self.clock, timeout=timedelta(seconds=90)),
        )

    def start(self) -> ControllerDriver[RemediationController]:
        """Return a control plane's loop that has just started."""
        controller = RemediationController(
            self.clock,
            self.store,
            indexed(self.store),
            Providers([]),
            remediator=lambda pool: self.remediators[pool.name],
        )
        return ControllerDriver(self.clock, self.store, controller)

    async def write(self, *nodes: Node, pools: tuple[Pool, ...] = ()) -> None:
        change = Change(pools=pools, nodes=nodes)
        await self.store.commit(change, based_on=self.store.fleet().revision)

    async def run(self, seconds: float) -> None:
        """Run the controller as the control plane does, for some time."""
        end = self.clock.now() + timedelta(seconds=seconds)
        while True:
            due_at = self.loop.due_at()
            if due_at is None or due_at > end:
                break
            await self.clock.sleep(max((due_at - self.clock.now()).total_seconds(), 0.0))
            await self.loop.reconcile()
        await self.clock.sleep((end - self.clock.now()).total_seconds())

    def node(self, name: NodeId) -> Node:
        return self.store.fleet().nodes[name]

    async def note(self, pool: PoolName) -> str:
        (found,) = [each for each in (await self.fleet.status()).pools if each.spec.name == pool]
        return found.note

    async def kinds(self) -> list[str]:
        return [entry.event.kind for entry in await self.store.events()]


def play(story: Callable[[Site], Awaitable[None]], moody: ScriptedRemediator) -> None:
    async def main() -> None:
        site = Site(moody)
        ours = a_pool(OURS, size=2, remediation=Remediation(strategy="mine:ScriptedRemediator"))
        await site.write(
            broken(SICK, OURS), broken(SPARED, OTHER), pools=(ours, a_pool(OTHER, size=2))
        )
        await story(site)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


async def coroutine() -> None:
    """Return a coroutine, as an `async` method does."""


def not_awaited(node: Node) -> object:
    del node
    late = coroutine()
    late.close()
    return late


def a_remediation(**fields: object) -> Callable[[Node], object]:
    known = {"remedy": Remedy.REPLACE, "reason": "why", **fields}
    return lambda _: Treatment(**known)  # type: ignore[arg-type]


FAILURES: dict[str, tuple[Callable[[Node], object], str]] = {
    "raises": (boom, "ValueError: no rack for ours-0"),
    "a word": (lambda _: "replace", "TypeError: 'replace' is no treatment"),
    "a node": (lambda node: node, "TypeError: "),
    "a node of another pool": (lambda _: SPARED, "TypeError: 'other-0' is no treatment"),
    "awaitable": (not_awaited, "TypeError: "),
    "a remedy that is a word": (a_remediation(remedy="replace"), "remedy"),
    "no reason": (a_remediation(reason=None), "reason"),
    "a step that is a word": (a_remediation(remedy=Remedy.RECOVER, step="reboot"), "step"),
    "a check that is none": (a_remediation(remedy=Remedy.RECOVER, check=FAULT), "check"),
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_remediator_that_fails_stops_no_other_pool_in_the_same_round(how: str) -> None:
    answer, words = FAILURES[how]

    async def story(site: Site) -> None:
        before = site.node(SICK)
        await site.loop.reconcile()

        assert site.node(SPARED).retiring is not None, "the other pool is decided and carried out"
        held = site.node(SICK).held
        assert evolve(site.node(SICK), held=None) == before, "nothing is done in its own"
        assert held is not None
        assert held.by is DeferredBy.REMEDIATOR
        assert held.because.startswith("remediator mine:ScriptedRemediator failed: ")
        assert words in held.because
        assert held.because in await site.note(OURS)
        assert await site.note(OTHER) != await site.note(OURS)

    play(story, ScriptedRemediator(answer))


def test_a_failure_is_recorded_for_node_and_pool_and_raises_an_alert() -> None:
    async def story(site: Site) -> None:
        await site.run(60)

        node = await site.fleet.why(about("node", SICK))
        assert "ValueError: no rack for ours-0" in node.steps[0].reason
        assert "unhealthy: XID 79" in node.steps[0].reason
        pool = await site.fleet.why(about("pool", OURS))
        assert "ValueError: no rack for ours-0" in pool.state
        (_,) = [x for x in await site.store.events() if x.event.kind == "pool.held"]
        inputs = AlertInputs(fleet=site.store.fleet(), now=site.clock.now())
        causes = [each.cause for each in find_conditions(inputs).values()]
        assert causes.count(AlertCause.AUTOMATION_PAUSED) == 1, "once, however often it fails"

    play(story, ScriptedRemediator(boom))


def test_a_failing_remediator_is_retried_with_growing_delays() -> None:
    async def story(site: Site) -> None:
        asked_at: list[float] = []
        start = site.clock.now()

        def answer(node: Node) -> object:
            asked_at.append((site.clock.now() - start).total_seconds())
            return boom(node)

        site.moody.answer = answer
        for second in range(1, 200):
            # The pool has another event every second.
            await site.write(evolve(site.node(SICK), labels={"second": str(second)}))
            await site.run(1)
        pauses = [round(b - a) for a, b in pairwise(asked_at)]
        assert pauses == [2, 4, 8, 16, 32, 60, 60]

    play(story, ScriptedRemediator(boom))


def test_the_failure_is_cleared_once_the_remediator_works_again() -> None:
    async def story(site: Site) -> None:
        await site.run(1)
        assert "failed" in await site.note(OURS)
        site.moody.answer = replaced
        await site.run(60)
        assert site.node(SICK).retiring is not None
        assert site.node(SICK).held is None
        assert "failed" not in await site.note(OURS)
        assert site.store.fleet().pools[OURS].held is None

    play(story, ScriptedRemediator(boom))


def test_a_node_without_an_action_is_no_longer_deferred_once_the_remediator_works() -> None:
    async def story(site: Site) -> None:
        await site.run(1)
        site.moody.answer = lambda _: None
        await site.run(60)
        assert (site.node(SICK).held, site.node(SICK).retiring) == (None, None)
        assert (
            "remediator works again" in (await site.fleet.why(about("node", SICK))).steps[0].reason
        )

    play(story, ScriptedRemediator(boom))


def test_another_remediator_is_called_at_once() -> None:
    async def story(site: Site) -> None:
        await site.run(60)
        site.remediators = {**site.remediators, OURS: CordonAndReplace()}
        pool = evolve(site.store.fleet().pools[OURS], remediation=Remediation())
        await site.write(pools=(pool,))
        await site.run(1)
        assert site.node(SICK).retiring is not None

    play(story, ScriptedRemediator(boom))


def test_only_nodes_that_are_unhealthy_wait_for_a_failing_remediator() -> None:
    async def story(site: Site) -> None:
        await site.run(60)
        asked = len(site.moody.asked)
        await site.write(broken(WELL, OURS))
        await site.write(evolve(site.node(SICK), health=Health.HEALTHY, conditions=()))
        await site.run(1)
        assert len(site.moody.asked) == asked, "it is not asked for that"
        held = site.node(WELL).held
        assert held is not None
        assert held.by is DeferredBy.REMEDIATOR
        assert site.node(SICK).held is None

    play(story, ScriptedRemediator(boom))


def test_notices_and_returns_do_not_wait_for_a_remediator_that_fails() -> None:
    async def story(site: Site) -> None:
        reclaimed = Condition(
            check=NoticeKind.RECLAIM, health=Health.DEGRADED, reason="in 2 min", since=NOW
        )
        well = a_node(WELL, OURS, health=Health.HEALTHY, cordoned=f"{AUTOMATIC}unhealthy: XID 79")
        leaving = a_node("ours-2", OURS, health=Health.DEGRADED, conditions=(reclaimed,))
        await site.write(well, leaving)
        await site.run(1)
        assert site.node(WELL).cordoned is None
        assert site.node(leaving.id).retiring is not None
        held = site.node(SICK).held
        assert held is not None
        assert held.by is DeferredBy.REMEDIATOR

    play(story, ScriptedRemediator(boom))


def test_what_was_released_by_hand_stays_released_while_the_remediator_fails() -> None:
    async def story(site: Site) -> None:
        released = Deferred(
            action="replace",
            reason="unhealthy",
            because="budget",
            by=DeferredBy.BUDGET,
            since=NOW,
            released="I looked at it",
        )
        await site.write(evolve(site.node(SICK), held=released))
        await site.run(1)
        assert site.node(SICK).held == released

    play(story, ScriptedRemediator(boom))


def test_a_restart_with_a_working_remediator_clears_the_failure() -> None:
    async def story(site: Site) -> None:
        await site.run(1)
        site.moody.answer = replaced
        site.loop = site.start()
        await site.loop.reconcile()
        assert site.node(SICK).retiring is not None
        assert site.store.fleet().pools[OURS].held is None

    play(story, ScriptedRemediator(boom))


def test_a_deleted_pool_is_not_retried() -> None:
    async def story(site: Site) -> None:
        await site.run(1)
        retiring = Retirement(reason="the pool is deleted", surplus=True)
        await site.write(
            evolve(site.node(SICK), retiring=retiring, cordoned="deleted"),
            pools=(evolve(site.store.fleet().pools[OURS], deleted=True),),
        )
        await site.run(600)
        asked = len(site.moody.asked)
        await site.run(600)
        assert len(site.moody.asked) == asked
        assert site.loop.due_at() is None

    play(story, ScriptedRemediator(boom))


@pytest.mark.parametrize("error", [asyncio.CancelledError("stop"), SystemExit(1)])
def test_a_remediator_that_cancels_or_exits_ends_no_round(error: BaseException) -> None:
    def answer(node: Node) -> object:
        del node
        raise error

    async def story(site: Site) -> None:
        await site.loop.reconcile()
        assert site.node(SPARED).retiring is not None
        held = site.node(SICK).held
        assert held is not None
        assert type(error).__name__ in held.because

    play(story, ScriptedRemediator(answer))


def test_a_message_that_changes_with_every_failure_is_recorded_once() -> None:
    async def story(site: Site) -> None:
        count = iter(range(1000))

        def answer(node: Node) -> object:
            raise KeyError(f"{node.id} for the {next(count)}th time")

        site.moody.answer = answer
        await site.run(600)
        assert len(site.moody.asked) > 5
        kinds = await site.kinds()
        assert (kinds.count("pool.held"), kinds.count("node.held")) == (1, 1)

    play(story, ScriptedRemediator(boom))


def test_a_long_or_unprintable_error_is_contained() -> None:
    class Silent(Exception):  # noqa: N818 - a third-party name
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def answer(node: Node) -> object:
        if node.id == SICK:
            raise Silent
        raise ValueError("x" * 100_000)

    async def story(site: Site) -> None:
        await site.loop.reconcile()
        held = site.node(SICK).held
        assert held is not None
        assert "Silent" in held.because
        await site.write(broken(WELL, OURS), evolve(site.node(SICK), conditions=(), held=None))
        await site.run(60)
        held = site.node(WELL).held
        assert held is not None
        assert "ValueError: xxx" in held.because
        assert len(held.because) < 500

    play(story, ScriptedRemediator(answer))


def test_a_ladder_step_is_a_valid_remediation() -> None:
    async def story(site: Site) -> None:
        await site.loop.reconcile()
        assert site.node(SICK).recovery is not None
        assert site.store.fleet().pools[OURS].held is None

    play(story, ScriptedRemediator(a_remediation(remedy=Remedy.RECOVER, step=RecoveryStep.REBOOT)))


def test_an_event_of_a_waiting_pool_does_not_call_its_remediator_again() -> None:
    async def story(site: Site) -> None:
        await site.run(1)
        asked = len(site.moody.asked)
        event = Event(at=NOW, about=about("pool", OURS), kind="some.news", reason="none")
        await site.store.commit(Change(events=[event]), based_on=site.store.fleet().revision)
        await site.run(0.5)
        assert len(site.moody.asked) == asked

    play(story, ScriptedRemediator(boom))
