"""What operators and agents may do, in-process."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from navarch.core.autoscaling import Autoscaling, CostAwareSettings, ScheduledSettings
from navarch.core.command import CommandKind, CommandStatus
from navarch.core.disruption import Disruption, DisruptionBudget
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import Event, about
from navarch.core.evolve import evolve
from navarch.core.fleet import Change, Fleet
from navarch.core.health import HEARTBEAT, CheckResult, Condition, Health, HealthReport
from navarch.core.ids import NodeId, PoolName, ProviderName, Token
from navarch.core.inventory import Gpu, Inventory
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.node import NodeStatus, Phase
from navarch.core.offering import Offering
from navarch.core.ownership import Cluster
from navarch.core.schedule import Window
from navarch.ports.agents import Registration
from navarch.ports.api import Capacity, Query
from navarch.service.agents import AgentService
from navarch.service.fleet import FleetService
from navarch.service.views import pool_spec, pool_view, standing
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import H100, NOW, a_node, a_pool

TRAINING = PoolName("training")


class Desk:
    """A fleet, an operator's and an agent's way to it, and no loops that move it."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        self.columns = TelemetryTable(self.clock, timeout=timedelta(seconds=90))
        self.fleet = FleetService(
            self.clock,
            SeededEntropy("1"),
            self.store,
            self.columns,
            offerings=self.offerings,
            obstacle=lambda _: "the budget has no room",
        )
        self.agents = AgentService(self.clock, self.store, self.columns)

    async def offerings(self) -> list[Offering]:
        return [
            evolve(H100, region="dear", price_per_hour=Decimal(100)),
            H100,
            evolve(H100, instance_type="h100-1x", gpus=1, price_per_hour=Decimal(14)),
            evolve(H100, gpu_type="a100", instance_type="a100-8x", price_per_hour=Decimal(30)),
        ]

    async def put(self, *names: str, **facts: object) -> None:
        nodes = [a_node(name, **facts) for name in names]  # type: ignore[arg-type]
        change = Change(pools=[a_pool()], nodes=nodes)
        await self.store.commit(change, based_on=self.store.fleet().revision)


def at(story: Callable[[Desk], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Desk())

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_a_cordon_is_set_and_lifted_and_changes_nothing_else() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", health=Health.DEGRADED)
        cordoned = await desk.fleet.cordon(NodeId("training-0"), reason="looking")
        assert (cordoned.status, cordoned.cordoned) == (NodeStatus.CORDONED, "looking")
        lifted = await desk.fleet.uncordon(NodeId("training-0"))
        assert (lifted.status, lifted.health) == (NodeStatus.ACTIVE, Health.DEGRADED)

    at(story)


def test_cordoning_a_node_that_is_drained_by_hand_calls_the_drain_off() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0")
        drained = await desk.fleet.drain(NodeId("training-0"), reason="moving house")
        assert drained.status is NodeStatus.DRAINING
        cordoned = await desk.fleet.cordon(NodeId("training-0"), reason="not yet")
        assert cordoned.status is NodeStatus.CORDONED

    at(story)


def test_a_node_that_is_being_terminated_cannot_be_uncordoned() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0")
        await desk.fleet.retire(NodeId("training-0"), reason="too old")
        with pytest.raises(NotPossibleError, match="being terminated: too old"):
            await desk.fleet.uncordon(NodeId("training-0"))

    at(story)


def test_an_override_needs_a_reason() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", health=Health.UNHEALTHY)
        with pytest.raises(InvalidError, match="reason"):
            await desk.fleet.declare_healthy(NodeId("training-0"), reason=" ")

    at(story)


def test_a_request_for_an_unknown_name_fails_and_writes_nothing() -> None:
    async def story(desk: Desk) -> None:
        for request in (
            desk.fleet.cordon(NodeId("nope"), reason="x"),
            desk.fleet.scale(PoolName("nope"), 3, reason="x"),
            desk.fleet.issue(NodeId("nope"), CommandKind.DRAIN),
            desk.fleet.get_instance("nope"),
            desk.fleet.why(about("node", "nope")),
            desk.agents.report_health(NodeId("nope"), HealthReport(results=())),
        ):
            with pytest.raises(NotFoundError, match="nope"):
                await request
        with pytest.raises(NotFoundError):
            desk.agents.heartbeat(NodeId("nope"))
        assert desk.store.fleet().revision == 0

    at(story)


def test_why_shows_the_state_of_a_pool_and_the_outcome_of_a_launch() -> None:
    async def story(desk: Desk) -> None:
        spec = replace(pool_spec(a_pool()), nodes_min=0, nodes_max=4)
        await desk.fleet.put_pool(spec, reason="a test")
        await desk.fleet.scale(TRAINING, 3, reason="a test")
        short = await desk.fleet.why(about("pool", TRAINING))
        assert short.state == "at 0 of 3 nodes: 3 to be requested: the budget has no room"
        assert [step.kind for step in short.steps] == ["pool.scaled", "pool.created"]

        node = a_node("training-0")
        assert node.launch is not None
        asked = Event(
            at=NOW, about=about("launch", node.launch.token), kind="launch.asked", reason="so"
        )
        change = Change(nodes=[node], events=[asked])
        await desk.store.commit(change, based_on=desk.store.fleet().revision)
        bought = await desk.fleet.why(asked.about)
        assert bought.state == f"bought, as {node.instance} for training-0"
        with pytest.raises(NotFoundError, match="also found by the name of its node"):
            await desk.fleet.why(about("launch", "training-7"))

    at(story)


def at_hours(*, nodes_min: int | None = None, nodes_max: int | None = None) -> Autoscaling:
    window = Window(start=9, end=17, nodes_min=nodes_min, nodes_max=nodes_max)
    return Autoscaling(scheduled=ScheduledSettings(windows=(window,)))


def limited(**budget: object) -> Disruption:
    return Disruption(budgets=(replace(DisruptionBudget(), **budget),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"name": "Bad Name"}, "name"),
        ({"name": "a" * 41}, "name"),
        ({"offerings": ()}, "offerings"),
        ({"nodes_min": -1}, "min_nodes must be >= 0"),
        ({"nodes_max": 0}, "max_nodes must be > 0"),
        ({"nodes_min": 9}, "min_nodes cannot exceed max_nodes"),
        ({"nodes_wanted": 99}, "nodes_wanted"),
        ({"nodes_max": NODES_PER_POOL_MAX + 1}, "nodes_max: 100001 is above the limit of 100000"),
        ({"nodes_max": 2**53}, "limit of 100000 nodes per pool.*several pools"),
        ({"nodes_min": 10**9, "nodes_max": 10**9}, "nodes_min: 1000000000 is above the limit"),
        ({"nodes_wanted": 10**9, "nodes_max": 10**9}, "above the limit of 100000 nodes per pool"),
        ({"spares": 10**9}, "spares: 1000000000 is above the limit"),
        ({"gang": 10**9, "nodes_max": 10**9}, "above the limit of 100000 nodes per pool"),
        (
            {"autoscaling": at_hours(nodes_max=100_001)},
            r"windows\[0\].nodes_max: must be 0 to 100000",
        ),
        (
            {"autoscaling": at_hours(nodes_min=100_001)},
            r"windows\[0\].nodes_min: must be 0 to 100000",
        ),
        (
            {"autoscaling": Autoscaling(cost_aware=CostAwareSettings(off_peak_nodes=100_001))},
            "off_peak_nodes: must be 0 to 100000",
        ),
        ({"unhealthy_after": 0}, "unhealthy_after"),
        ({"drain_timeout": timedelta(seconds=-1)}, "drain_timeout"),
        ({"disruption": Disruption(lifetime_max=timedelta(0))}, "disruption.lifetime_max"),
        ({"disruption": Disruption(savings_min=1.0)}, "disruption.savings_min"),
        ({"disruption": Disruption(empty_after=timedelta(seconds=5))}, "disruption.empty_after"),
        ({"disruption": limited(share_max=1.5)}, "disruption.budgets"),
        ({"disruption": limited(days=(7,))}, "disruption.budgets.days"),
        ({"disruption": limited(hours="9 to 5")}, "disruption.budgets.hours"),
        ({"disruption": limited(time_zone="Mars/Olympus")}, "disruption.budgets.time_zone"),
    ],
)
def test_an_invalid_pool_is_refused_with_the_name_of_the_field(
    change: dict[str, object], complaint: str
) -> None:
    async def story(desk: Desk) -> None:
        spec = replace(pool_spec(a_pool()), **change)  # type: ignore[arg-type]
        with pytest.raises(InvalidError, match=complaint):
            await desk.fleet.put_pool(spec, reason="x")
        assert desk.store.fleet().revision == 0

    at(story)


def test_a_pool_that_is_changed_keeps_its_counter_and_its_size() -> None:
    async def story(desk: Desk) -> None:
        await desk.fleet.put_pool(pool_spec(a_pool(size=1, nodes_max=9)), reason="new")
        await desk.fleet.scale(TRAINING, 5, reason="busy")
        changed = await desk.fleet.put_pool(pool_spec(a_pool(size=2, nodes_max=4)), reason="less")
        assert changed.size == 4
        again = await desk.fleet.put_pool(pool_spec(a_pool(size=2, nodes_max=4)), reason="same")
        assert again == changed
        assert desk.store.fleet().revision == 3, "what changes nothing is not written"

    at(story)


def test_a_pool_of_just_the_limit_is_allowed() -> None:
    async def story(desk: Desk) -> None:
        spec = replace(pool_spec(a_pool(size=0)), nodes_max=NODES_PER_POOL_MAX)
        await desk.fleet.put_pool(spec, reason="large")
        scaled = await desk.fleet.scale(TRAINING, NODES_PER_POOL_MAX, reason="all of it")
        assert scaled.size == NODES_PER_POOL_MAX

    at(story)


def test_a_pool_cannot_scale_above_the_limit_even_with_a_larger_stored_maximum() -> None:
    async def story(desk: Desk) -> None:
        old = a_pool(size=0, nodes_max=2**53, nodes_wanted=4)
        await desk.store.commit(Change(pools=[old]), based_on=0)
        with pytest.raises(InvalidError, match="nodes: 100001 is above the limit of 100000 nodes"):
            await desk.fleet.scale(TRAINING, NODES_PER_POOL_MAX + 1, reason="more")
        assert desk.store.fleet().revision == 1
        assert desk.store.fleet().pools[TRAINING] == old

    at(story)


def test_a_request_for_more_gpus_than_one_pool_can_hold_is_refused() -> None:
    async def story(desk: Desk) -> None:
        wish = Capacity(name=PoolName("demo"), gpus=1_000_000, gpu_type="h100")
        with pytest.raises(InvalidError, match="gpus: 1000000 GPUs take 125000 nodes"):
            await desk.fleet.up(wish)
        with pytest.raises(InvalidError, match="limit of 100000 nodes per pool"):
            await desk.fleet.up(replace(wish, gpus=8, gang=10**9))
        assert desk.store.fleet().revision == 0
        most = await desk.fleet.up(replace(wish, gpus=8 * NODES_PER_POOL_MAX))
        assert (most.size, most.spec.nodes_max) == (NODES_PER_POOL_MAX, NODES_PER_POOL_MAX)

    at(story)


def test_a_stored_pool_above_the_limit_is_shown_as_paused_with_the_remedy() -> None:
    async def story(desk: Desk) -> None:
        old = a_pool(size=0, nodes_max=2**53, nodes_wanted=10**9)
        await desk.store.commit(Change(pools=[old]), based_on=0)
        note = (
            "paused: 1000000000 nodes are above the limit of 100000 nodes per pool; "
            "scale it to 100000 nodes or fewer: navarch pool scale training NODES"
        )
        assert (await desk.fleet.get_pool(TRAINING)).note == note
        assert [pool.note for pool in (await desk.fleet.status()).pools] == [note]
        scaled = await desk.fleet.scale(TRAINING, 2, reason="as meant")
        assert (scaled.size, scaled.note) == (2, "2 to be requested")

    at(story)


def test_a_stored_pool_with_a_minimum_above_the_limit_names_the_minimum() -> None:
    async def story(desk: Desk) -> None:
        old = a_pool(size=10**9, nodes_max=2**53)
        await desk.store.commit(Change(pools=[old]), based_on=0)
        note = (await desk.fleet.get_pool(TRAINING)).note
        assert note.startswith("paused: 1000000000 nodes are above the limit")
        assert "set its minimum to 100000 nodes or fewer" in note
        put = await desk.fleet.put_pool(
            replace(pool_spec(old), nodes_min=1, nodes_max=3), reason=""
        )
        assert (put.size, put.note) == (1, "1 to be requested")

    at(story)


def test_capacity_is_bought_in_whole_machines_of_the_cheapest_kind() -> None:
    async def story(desk: Desk) -> None:
        wish = Capacity(name=PoolName("demo"), gpus=16, gpu_type="h100")
        pool = await desk.fleet.up(wish)
        assert (pool.size, pool.spec.nodes_max) == (2, 3)
        assert [x.region for x in pool.spec.offerings] == ["region-1", "dear"]
        small = await desk.fleet.up(replace(wish, name=PoolName("small"), gpus=3))
        assert (small.size, small.spec.offerings[0].instance_type) == (3, "h100-1x")
        grown = await desk.fleet.up(replace(wish, gpus=17))
        assert grown.size == 3

    at(story)


def test_a_type_that_is_not_for_sale_is_refused_with_the_available_types() -> None:
    async def story(desk: Desk) -> None:
        with pytest.raises(InvalidError, match="available: a100, h100"):
            await desk.fleet.up(Capacity(name=PoolName("x"), gpus=8, gpu_type="b200"))

    at(story)


def test_lists_are_filtered_ordered_and_continued_where_they_ended() -> None:
    async def story(desk: Desk) -> None:
        await desk.put(*(f"training-{i}" for i in (10, 9, 1, 2)))
        await desk.fleet.cordon(NodeId("training-9"), reason="x")
        page = await desk.fleet.list_nodes(Query(page_size=3))
        assert [n.id for n in page.items] == ["training-1", "training-2", "training-9"]
        rest = await desk.fleet.list_nodes(Query(page_size=3, page_token=page.next_page_token))
        assert [n.id for n in rest.items] == ["training-10"]
        assert (rest.next_page_token, rest.total) == ("", 4)
        down = await desk.fleet.list_nodes(Query(order_by="-name", page_size=2))
        assert [n.id for n in down.items] == ["training-10", "training-9"]
        more = await desk.fleet.list_nodes(
            Query(order_by="-name", page_size=2, page_token=down.next_page_token)
        )
        assert [n.id for n in more.items] == ["training-2", "training-1"]
        found = await desk.fleet.list_nodes(Query(status=NodeStatus.CORDONED))
        assert [n.id for n in found.items] == ["training-9"]
        assert (await desk.fleet.list_nodes(Query(labels={"pool": "other"}))).items == ()

    at(story)


@pytest.mark.parametrize(
    "query",
    [Query(order_by="colour"), Query(page_size=0), Query(page_size=9999), Query(page_token="%%")],
)
def test_an_invalid_list_request_is_refused(query: Query) -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0")
        with pytest.raises(InvalidError):
            await desk.fleet.list_nodes(query)

    at(story)


def test_a_watch_shows_every_revision_past_and_present() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", "training-1")
        await desk.fleet.cordon(NodeId("training-0"), reason="one")
        updates = desk.fleet.watch(after_revision=0)
        assert [(await anext(updates)).revision for _ in range(2)] == [1, 2]
        await desk.fleet.cordon(NodeId("training-1"), reason="two")
        await desk.store.commit(Change(forget_nodes=[NodeId("training-0")]), based_on=3)
        live = await anext(updates)
        assert [(n.id, n.cordoned) for n in live.nodes] == [("training-1", "two")]
        assert [e.event.kind for e in live.events] == ["node.cordoned"]
        assert (await anext(updates)).revision == 4

    at(story)


def test_a_watch_keeps_a_large_revision_in_one_piece() -> None:
    async def story(desk: Desk) -> None:
        events = [
            Event(at=NOW, about=about("node", f"n-{i}"), kind="node.health", reason=str(i))
            for i in range(2500)
        ]
        await desk.store.commit(Change(events=events), based_on=0)
        await desk.store.commit(Change(events=events[:1]), based_on=1)
        updates = desk.fleet.watch(after_revision=0)
        sizes = [len((await anext(updates)).events) for _ in range(2)]
        assert sizes == [2500, 1]

    at(story)


def test_a_watch_from_before_the_journal_or_after_the_present_is_refused() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0")
        await desk.fleet.cordon(NodeId("training-0"), reason="one")
        await desk.clock.sleep(10)
        await desk.store.prune(desk.clock.now())
        with pytest.raises(NotPossibleError, match="too old"):
            await anext(desk.fleet.watch(after_revision=1))
        with pytest.raises(NotPossibleError, match="in the future"):
            await anext(desk.fleet.watch(after_revision=99))

    at(story)


def test_why_follows_the_reasons_behind_the_reasons() -> None:
    async def story(desk: Desk) -> None:
        def event(subject: str, kind: str, reason: str, *because: str) -> Event:
            causes = tuple(about("node", x) for x in because)
            return Event(
                at=NOW, about=about("node", subject), kind=kind, reason=reason, because=causes
            )

        events = [
            event("a", "node.health", "XID 79"),
            event("a", "node.retiring", "unhealthy"),
            event("b", "node.requested", "replaces a", "a"),
            event("a", "node.gone", "later, and no reason for b"),
        ]
        await desk.store.commit(Change(events=events), based_on=0)
        why = await desk.fleet.why(about("node", "b"))
        (step,) = why.steps
        (behind,) = step.because
        assert [s.reason for s in behind.steps] == ["unhealthy", "XID 79"]

    at(story)


def test_a_machine_that_navarch_did_not_buy_may_register_but_is_never_terminated() -> None:
    async def story(desk: Desk) -> None:
        place = Offering(provider=ProviderName("rack"), instance_type="dgx")
        inventory = Inventory(gpus=(Gpu(index=0, uuid="g"),), labels={"rack": "7"})
        name = NodeId("dgx-1")
        await desk.agents.register(Registration(node=name, place=place, inventory=inventory))
        detail = await desk.fleet.get_node(name)
        assert (detail.node.status, detail.node.provider) == (NodeStatus.ACTIVE, "rack")
        assert (detail.node.gpus, detail.node.labels) == (1, {"rack": "7"})
        with pytest.raises(NotPossibleError, match="was not bought by Navarch"):
            await desk.fleet.retire(name, reason="x")

    at(story)


def test_an_agent_may_register_under_the_name_of_its_machine() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", phase=Phase.BOOTING)
        welcome = await desk.agents.register(Registration(node=NodeId("i-training-0")))
        assert welcome.node == "training-0"
        assert desk.store.fleet().nodes[NodeId("training-0")].phase is Phase.READY

    at(story)


def test_registering_twice_writes_once() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", phase=Phase.BOOTING)
        registration = Registration(node=NodeId("training-0"), boot_id="b1")
        await desk.agents.register(registration)
        revision = desk.store.fleet().revision
        await desk.agents.register(registration)
        assert desk.store.fleet().revision == revision

    at(story)


BROKEN = HealthReport(
    results=(
        CheckResult(check="boot", health=Health.HEALTHY),
        CheckResult(check="xid/79/g", health=Health.UNHEALTHY, fatal=True, lasting=True),
    ),
    stream="s",
    number=1,
)


def test_a_machine_that_boots_with_a_fault_never_counts_as_healthy() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", phase=Phase.BOOTING)
        commits: list[list[str]] = []
        desk.store.subscribe(lambda done: commits.append([e.kind for e in done.change.events]))
        registration = Registration(node=NodeId("i-training-0"), boot_id="b1", report=BROKEN)
        welcome = await desk.agents.register(registration)

        assert (welcome.node, welcome.status) == ("training-0", NodeStatus.UNHEALTHY)
        assert commits == [["node.registered", "health.finding", "incident.opened", "node.health"]]
        (incident,) = desk.store.fleet().incidents.values()
        assert incident.nodes == ("training-0",)

        assert await desk.agents.register(registration) == welcome
        await desk.agents.report_health(NodeId("training-0"), BROKEN)
        assert len(commits) == 1, "said again, it changes nothing"

    at(story)


def test_a_registration_without_a_report_returns_no_status() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", phase=Phase.BOOTING)
        welcome = await desk.agents.register(Registration(node=NodeId("training-0")))
        assert welcome.status == ""

    at(story)


def test_the_report_of_a_refused_machine_is_not_evaluated() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", phase=Phase.BOOTING)
        with pytest.raises(NotPossibleError, match="runs on another machine"):
            await desk.agents.register(
                Registration(node=NodeId("training-0"), token=Token("older"), report=BROKEN)
            )
        fleet = desk.store.fleet()
        assert fleet.nodes[NodeId("training-0")].conditions == ()
        assert not fleet.incidents

    at(story)


def test_a_registration_with_a_report_is_retried_after_a_conflict() -> None:
    class Busy(MemoryStore):
        async def commit(self, change: Change, *, based_on: int) -> Fleet:
            """Let an operator be quicker, once."""
            if change.inventories and not self.fleet().nodes[NodeId("training-0")].cordoned:
                node = evolve(self.fleet().nodes[NodeId("training-0")], cordoned="by hand")
                await super().commit(Change(nodes=[node]), based_on=based_on)
            return await super().commit(change, based_on=based_on)

    async def story(desk: Desk) -> None:
        store = Busy(Cluster(id="c", secret=b"x" * 32))
        agents = AgentService(desk.clock, store, desk.columns)
        booting = a_node("training-0", phase=Phase.BOOTING)
        await store.commit(Change(pools=[a_pool()], nodes=[booting]), based_on=0)
        await agents.register(Registration(node=NodeId("training-0"), report=BROKEN))

        node = store.fleet().nodes[NodeId("training-0")]
        assert (node.cordoned, node.phase, node.health) == (
            "by hand",
            Phase.READY,
            Health.UNHEALTHY,
        )
        assert len(store.fleet().incidents) == 1
        kinds = [entry.event.kind for entry in await store.events()]
        assert kinds.count("incident.opened") == 1

    at(story)


def test_a_node_that_registers_is_no_longer_silent() -> None:
    async def story(desk: Desk) -> None:
        silence = Condition(
            check=HEARTBEAT, health=Health.UNHEALTHY, reason="not heard of", since=NOW, times=2
        )
        other = Condition(check="disk", health=Health.DEGRADED, reason="full", since=NOW)
        await desk.put("training-0", conditions=(silence, other), health=Health.UNHEALTHY)
        launch = desk.store.fleet().nodes[NodeId("training-0")].launch
        assert launch is not None

        await desk.agents.register(
            Registration(node=NodeId("training-0"), token=launch.token, inventory=Inventory())
        )

        node = desk.store.fleet().nodes[NodeId("training-0")]
        assert (node.health, node.conditions) == (Health.DEGRADED, (other,))
        assert NodeId("training-0") not in desk.columns.silent()

    at(story)


def test_the_machine_of_an_older_launch_may_not_report_for_the_node() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", phase=Phase.BOOTING)
        with pytest.raises(NotPossibleError, match="runs on another machine"):
            await desk.agents.register(
                Registration(node=NodeId("training-0"), token=Token("older"))
            )
        assert desk.store.fleet().nodes[NodeId("training-0")].phase is Phase.BOOTING

    at(story)


def test_a_gone_node_cannot_come_back() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", phase=Phase.GONE)
        with pytest.raises(NotPossibleError, match="is gone"):
            await desk.agents.register(Registration(node=NodeId("training-0")))

    at(story)


def test_a_repeated_report_counts_once() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0")
        name = NodeId("training-0")
        bad = (CheckResult(check="gpu", health=Health.UNHEALTHY, reason="lost"),)
        first = HealthReport(results=bad, stream="s1", number=1)
        for _ in range(3):
            await desk.agents.report_health(name, first)
        assert desk.store.fleet().nodes[name].conditions[0].times == 1
        await desk.agents.report_health(name, evolve(first, number=2))
        assert desk.store.fleet().nodes[name].conditions[0].times == 2
        await desk.agents.report_health(name, evolve(first, stream="s2"))
        assert desk.store.fleet().nodes[name].conditions[0].times == 3

    at(story)


def test_commands_are_delivered_until_they_are_acknowledged() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", "training-1")
        name = NodeId("training-0")
        command = await desk.fleet.issue(name, CommandKind.RUN_DIAGNOSTIC, {"test": "all"})
        for _ in range(2):
            assert [c.id for c in desk.agents.heartbeat(name)] == [command.id]
        assert list(desk.agents.heartbeat(NodeId("training-1"))) == []
        await desk.agents.acknowledge(name, command.id)
        assert list(desk.agents.heartbeat(name)) == []
        await desk.agents.finish(name, command.id, succeeded=False, result="no dcgmi")
        await desk.agents.finish(name, command.id, succeeded=True)
        done = await desk.fleet.get_command(command.id)
        assert (done.status, done.result) == (CommandStatus.FAILED, "no dcgmi")

    at(story)


def test_a_node_cannot_acknowledge_the_command_of_another() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", "training-1")
        command = await desk.fleet.issue(NodeId("training-0"), CommandKind.RUN_DIAGNOSTIC)
        with pytest.raises(NotFoundError):
            await desk.agents.finish(NodeId("training-1"), command.id, succeeded=True)

    at(story)


def test_the_status_counts_what_there_is() -> None:
    async def story(desk: Desk) -> None:
        await desk.put("training-0", "training-1")
        await desk.fleet.cordon(NodeId("training-1"), reason="x")
        status = await desk.fleet.status()
        assert status.nodes_by_status == {"active": 1, "cordoned": 1}
        assert (status.gpus, status.price_per_hour) == (16, 2 * H100.price_per_hour)
        assert [entry.event.kind for entry in status.recent] == ["node.cordoned"]

    at(story)


def test_a_pool_with_spares_shows_how_many_nodes_are_spare() -> None:
    pool = a_pool(size=2, nodes_max=5, spares=2)
    nodes = [a_node(f"training-{index}") for index in range(3)]

    assert standing(pool_view(pool, nodes)) == "at 3 of 2 nodes: 1 of them spare"
    assert standing(pool_view(a_pool(size=3, nodes_max=5), nodes)) == "at 3 of 3 nodes"
