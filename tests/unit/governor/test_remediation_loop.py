"""Decisions of the remediation controller, with and without dry run."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import pytest

from navarch.control.health.remediation import RemediationController
from navarch.control.providers.guard import Providers
from navarch.core.disruption import Deferred, DeferredBy, Domain, DomainBudget, GovernorSettings
from navarch.core.errors import InvariantError
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.health import HEARTBEAT, CheckResult, Condition, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import DRIVER, IMAGE, Node, Phase, Retirement, Trait
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.core.recovery import Remediation
from navarch.fleet.disruption.unhealthy import AUTOMATIC, CordonAndReplace, Ladder
from navarch.fleet.plan import Plan, Terminate
from navarch.health.conditions import evaluate, worst
from navarch.health.learning.lemons import MACHINE
from navarch.ports.remediator import Remediator, Remedy, Treatment
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import H100, NOW, ControllerDriver, a_node, a_pool, indexed


class CordonOnly:
    """A custom remediator that cordons nodes and replaces none."""

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        del pool
        if node.health is not Health.UNHEALTHY:
            return None
        return Treatment(remedy=Remedy.CORDON, reason="unhealthy")


def fault(check: str = "xid/79/GPU-0", action: str = "reset_gpu") -> Condition:
    return Condition(
        check=check,
        health=Health.UNHEALTHY,
        reason="broken",
        since=NOW,
        fatal=True,
        action=action,
    )


def broken(node: Node, *faults: Condition) -> Node:
    return evolve(node, health=Health.UNHEALTHY, conditions=faults or (fault(),))


def decide(
    pools: Sequence[Pool],
    nodes: Sequence[Node],
    remediator: Remediator,
    settings: GovernorSettings | None = None,
) -> tuple[dict[NodeId, Node], list[str]]:
    """Return `nodes` after one round, and the new events of the journal."""
    store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
    how = settings or GovernorSettings()

    async def main() -> list[str]:
        await store.commit(Change(pools=pools, nodes=nodes), based_on=0)
        clock = SimClock()
        controller = RemediationController(
            clock,
            store,
            indexed(store),
            Providers([]),
            remediator=lambda _: remediator,
            settings=lambda: how,
        )
        loop = ControllerDriver(clock, store, controller)
        await loop.reconcile()
        return [f"{e.event.kind}: {e.event.reason}" for e in await store.events()]

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        lines = runner.run(main())
    return dict(store.fleet().nodes.items()), lines


ACTIONS = [
    (CordonOnly(), "cordon", "would have cordoned it"),
    (CordonAndReplace(), "replace", "would have replaced it"),
    (Ladder(), "recover", "would have repaired it"),
]
IDS = [action for _, action, _ in ACTIONS]


@pytest.mark.parametrize(("remediator", "action", "words"), ACTIONS, ids=IDS)
@pytest.mark.parametrize("check", ["xid/79/GPU-0", HEARTBEAT, MACHINE])
def test_a_dry_run_only_records_the_action_it_would_take(
    remediator: Remediator, action: str, words: str, check: str
) -> None:
    sick = broken(a_node("training-0"), evolve(fault(check), since=NOW - timedelta(days=1)))
    dry = a_pool(size=1, remediation=Remediation(dry_run=True))

    after, lines = decide([dry], [sick], remediator)

    node = after[sick.id]
    assert node.held is not None
    assert (node.held.by, node.held.action) == (DeferredBy.DRY_RUN, action)
    assert evolve(node, held=None) == sick, "nothing else about it has changed"
    assert any(line.startswith(f"node.would_have: {words}") for line in lines), lines


@pytest.mark.parametrize(("remediator", "action", "words"), ACTIONS, ids=IDS)
def test_without_a_dry_run_the_same_action_is_taken(
    remediator: Remediator, action: str, words: str
) -> None:
    del words
    after, _ = decide([a_pool(size=1)], [broken(a_node("training-0"))], remediator)

    node = after[NodeId("training-0")]
    done = {
        "cordon": node.cordoned is not None and node.retiring is None and node.recovery is None,
        "replace": node.retiring is not None,
        "recover": node.recovery is not None and node.retiring is None,
    }
    assert done[action]
    assert node.held is None


class ReplaceAll:
    """A remediator that replaces every node it is called for."""

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        del pool, node
        return Treatment(remedy=Remedy.REPLACE, reason="something is wrong with it")


def test_no_remediator_is_called_for_a_node_of_unknown_health() -> None:
    doubt = Condition(
        check="policy/xid/31/GPU-0",
        health=Health.UNKNOWN,
        reason="policy house cannot judge xid/31/GPU-0",
        since=NOW,
    )
    unknown = a_node("training-0", health=Health.UNKNOWN, conditions=(doubt,))
    sick = broken(a_node("training-1"), fault(), doubt)

    after, _ = decide([a_pool(size=2)], [unknown, sick], ReplaceAll())

    assert after[unknown.id] == unknown
    assert after[sick.id].retiring is not None


def in_domain(domain: Domain, number: int, value: str) -> Node:
    """Return a node that shares only one domain with other nodes of the same value."""
    pool = value if domain is Domain.POOL else f"pool-{number}"
    node = a_node(f"n-{number}", pool)
    assert node.launch is not None
    zone = value if domain is Domain.ZONE else f"zone-{number}"
    place = evolve(node.launch, offering=evolve(H100, zone=zone))
    labels = {
        "rack": value if domain is Domain.RACK else f"rack-{number}",
        "nvlink_domain": value if domain is Domain.NVLINK else f"nvlink-{number}",
    }
    if domain in (Domain.RACK, Domain.NVLINK):
        place = evolve(node.launch, offering=evolve(H100, zone="zone"))
    traits = {
        DRIVER: Trait(value=value if domain is Domain.DRIVER else f"d{number}", since=NOW),
        IMAGE: Trait(value=value if domain is Domain.IMAGE else f"i{number}", since=NOW),
    }
    return evolve(node, launch=place, labels=labels, traits=traits)


@pytest.mark.parametrize("domain", list(Domain))
def test_each_kind_of_domain_has_its_own_budget_and_names_it_when_spent(
    domain: Domain,
) -> None:
    nodes = [broken(in_domain(domain, number, "shared")) for number in range(6)]
    pools = [a_pool(name, size=6) for name in dict.fromkeys(str(node.pool) for node in nodes)]
    budgets = {domain: DomainBudget(nodes_min=2, share_max=0.0)}

    after, _ = decide(
        pools, nodes, CordonAndReplace(), GovernorSettings(budgets=budgets, suspect_nodes=99)
    )

    held = [node.held for node in after.values() if node.held is not None]
    assert len(held) == 4, "two of six may be acted on"
    assert {each.by for each in held} == {DeferredBy.BUDGET}
    name = "the fleet" if domain is Domain.FLEET else "shared"
    assert all(name in each.because for each in held), held[0].because


@pytest.mark.parametrize("domain", list(Domain))
def test_one_node_of_the_smallest_domain_is_always_allowed(domain: Domain) -> None:
    budgets = {domain: DomainBudget(nodes_min=1, share_max=0.001)}
    node = broken(in_domain(domain, 0, "alone"))

    after, _ = decide(
        [a_pool(str(node.pool), size=1)],
        [node],
        CordonAndReplace(),
        GovernorSettings(budgets=budgets),
    )

    assert after[node.id].retiring is not None


def test_a_recovered_node_returns_to_service_while_others_are_deferred() -> None:
    well = evolve(
        a_node("training-0"), health=Health.HEALTHY, cordoned=f"{AUTOMATIC}unhealthy: XID 79"
    )
    changed = {DRIVER: Trait(value="570", since=NOW - timedelta(minutes=5), before="550")}
    sick = [broken(a_node(f"training-{i}", traits=changed)) for i in range(1, 40)]
    leaving = evolve(
        broken(a_node("training-99")), acted_at=NOW, retiring=Retirement(reason="unhealthy")
    )

    after, _ = decide([a_pool(size=41)], [well, *sick, leaving], CordonAndReplace())

    held = [after[node.id].held for node in sick]
    assert all(each is not None and each.by is DeferredBy.CHANGE for each in held)
    assert all("driver 570 (was 550)" in each.because for each in held if each is not None)
    assert after[well.id].cordoned is None, "recoveries always pass"


def test_automation_does_not_lift_a_cordon_by_an_operator() -> None:
    theirs = evolve(a_node("training-0"), health=Health.HEALTHY, cordoned="I am looking at it")

    after, _ = decide([a_pool(size=1)], [theirs], CordonAndReplace())

    assert after[theirs.id].cordoned == "I am looking at it"


def test_a_released_action_is_carried_out_although_the_budget_is_spent() -> None:
    released = Deferred(
        action="replace",
        reason="unhealthy",
        because="budget",
        by=DeferredBy.BUDGET,
        since=NOW,
        released="I looked at it",
    )
    busy = evolve(
        broken(a_node("training-9", phase=Phase.READY)),
        acted_at=NOW,
        retiring=Retirement(reason="unhealthy"),
    )
    one, other = broken(a_node("training-0")), broken(a_node("training-1"))

    after, _ = decide(
        [a_pool(size=3)], [evolve(one, held=released), other, busy], CordonAndReplace()
    )

    assert after[one.id].retiring is not None
    assert after[other.id].retiring is None


VAGUE = CheckResult(check="gpu", health=Health.UNHEALTHY, reason="cannot be read")
FINE = CheckResult(check="gpu", health=Health.HEALTHY)
FATAL = evolve(VAGUE, fatal=True)


@pytest.mark.parametrize(
    ("verdicts", "replaced"),
    [
        ([FATAL], True),
        ([VAGUE], False),
        ([VAGUE, VAGUE], False),
        ([VAGUE, VAGUE, VAGUE], True),
        ([VAGUE, VAGUE, FINE, VAGUE, VAGUE], False),
        ([VAGUE, FATAL], True),
    ],
    ids=["fatal", "once", "twice", "three times", "not in a row", "fatal after all"],
)
def test_fatal_results_act_at_once_and_others_after_several_in_a_row(
    verdicts: list[CheckResult], replaced: bool
) -> None:
    conditions: tuple[Condition, ...] = ()
    for verdict in verdicts:
        conditions = evaluate(conditions, [verdict], now=NOW - timedelta(days=1), boot_id="")
    node = evolve(a_node("training-0"), conditions=conditions, health=worst(conditions))

    after, _ = decide([a_pool(size=1, unhealthy_after=3)], [node], CordonAndReplace())

    assert (after[node.id].retiring is not None) is replaced


def test_only_deferred_nodes_make_another_round_due() -> None:
    pool = a_pool(size=2, remediation=Remediation(dry_run=True))
    store, clock = MemoryStore(Cluster(id="c", secret=b"x" * 32)), SimClock()

    async def another_round_is_due(node: Node) -> bool:
        """Return whether another round is due once `node` has been retired."""
        await store.commit(Change(nodes=[node]), based_on=store.fleet().revision)
        controller = RemediationController(
            clock,
            store,
            indexed(store),
            Providers([]),
            remediator=lambda _: CordonAndReplace(),
        )
        loop = ControllerDriver(clock, store, controller)
        while loop.due_at() is not None:
            await clock.sleep(1)
            await loop.reconcile()
        leaving = Retirement(reason="by hand")
        after = evolve(store.fleet().nodes[node.id], retiring=leaving, held=None)
        await store.commit(Change(nodes=[after]), based_on=store.fleet().revision)
        return loop.due_at() is not None

    async def main() -> None:
        await store.commit(Change(pools=[pool]), based_on=0)
        worn = evolve(fault(), health=Health.DEGRADED, fatal=False)
        assert not await another_round_is_due(a_node("training-0", conditions=(worn,)))
        assert await another_round_is_due(broken(a_node("training-1")))

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_the_commit_after_new_limits_queues_the_pools_with_deferred_nodes() -> None:
    store, clock = MemoryStore(Cluster(id="c", secret=b"x" * 32)), SimClock()
    bounds = [GovernorSettings()]

    async def is_queued(loop: ControllerDriver[RemediationController]) -> bool:
        """Return whether a commit that touches no node makes a round due."""
        assert loop.due_at() is None
        event = Event(
            at=NOW, about=about("fleet", "all"), kind="some.news", reason="of nodes there are none"
        )
        await store.commit(Change(events=[event]), based_on=store.fleet().revision)
        return loop.due_at() is not None

    async def main() -> None:
        pool = a_pool(size=1, remediation=Remediation(dry_run=True))
        await store.commit(Change(pools=[pool]), based_on=0)
        controller = RemediationController(
            clock,
            store,
            indexed(store),
            Providers([]),
            remediator=lambda _: CordonAndReplace(),
            settings=lambda: bounds[0],
        )
        loop = ControllerDriver(clock, store, controller)
        await loop.reconcile()
        bounds[0] = GovernorSettings(window=timedelta(hours=2))
        assert not await is_queued(loop), "nobody waits for room"
        sick = broken(a_node("training-0"))
        await store.commit(Change(nodes=[sick]), based_on=store.fleet().revision)
        while loop.due_at() is not None:
            await clock.sleep(1)
            await loop.reconcile()
        assert not await is_queued(loop), "the bounds are those by which it was held back"
        bounds[0] = GovernorSettings(window=timedelta(hours=3))
        assert await is_queued(loop)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_room_that_one_pool_makes_is_given_to_a_deferred_node_of_another() -> None:
    store, clock = MemoryStore(Cluster(id="c", secret=b"x" * 32)), SimClock()
    one_per_zone = {Domain.ZONE: DomainBudget(nodes_min=1, share_max=0.0)}

    async def main() -> None:
        now = clock.now()
        lost = a_node(
            "first-0",
            "first",
            phase=Phase.TERMINATING,
            registered_at=now,
            acted_at=now - timedelta(hours=2),
            retiring=Retirement(reason="XID 79"),
        )
        successor = a_node("first-1", "first", phase=Phase.BOOTING, replaces=lost.id)
        sick = broken(a_node("second-0", "second", registered_at=now))
        pools = [a_pool("first", size=1), a_pool("second", size=1)]
        await store.commit(Change(pools=pools, nodes=[lost, successor, sick]), based_on=0)
        controller = RemediationController(
            clock,
            store,
            indexed(store),
            Providers([]),
            remediator=lambda _: CordonAndReplace(),
            settings=lambda: GovernorSettings(budgets=one_per_zone),
        )
        loop = ControllerDriver(clock, store, controller)
        await loop.reconcile()
        held = store.fleet().nodes[sick.id].held
        assert held is not None
        assert held.by is DeferredBy.BUDGET
        await clock.sleep(1)

        serving = a_node("first-1", "first", registered_at=now, replaces=lost.id)
        await store.commit(Change(nodes=[serving]), based_on=store.fleet().revision)
        await loop.reconcile()
        assert store.fleet().nodes[sick.id].retiring is not None

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


class CarelessRemediation(RemediationController):
    """A controller whose planner has a bug: it terminates a node that should stay."""

    def _plan(self, fleet: Fleet, names: Iterable[PoolName], now: datetime) -> list[Plan]:
        del now
        return [
            Plan(pool=name, actions=(Terminate(node=node, reason="a bug"),))
            for name in names
            for node in fleet.in_pool(name)
        ]


def test_a_plan_that_breaks_a_law_is_not_committed() -> None:
    store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
    sound = a_node("training-0")

    async def main() -> None:
        await store.commit(Change(pools=[a_pool(size=1)], nodes=[sound]), based_on=0)
        clock = SimClock()
        controller = CarelessRemediation(
            clock, store, indexed(store), Providers([]), remediator=lambda _: CordonOnly()
        )
        with pytest.raises(InvariantError, match="is terminated though it should stay"):
            await ControllerDriver(clock, store, controller).reconcile()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())
    assert store.fleet().nodes[sound.id] == sound
