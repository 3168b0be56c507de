"""Requests of operators and agents to the services, in-process."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from navarch.core.autoscaling import Autoscaling, CostAwareSettings, ScheduledSettings, Window
from navarch.core.disruption import Disruption, DisruptionBudget
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.health import HEARTBEAT, CheckResult, Condition, Health, HealthReport
from navarch.core.ids import NodeId, PoolName, ProviderName, RecoveryId, Token
from navarch.core.instance import Gpu, Inventory
from navarch.core.launch import Offering
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.node import LINK, NodeStatus, Phase
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.core.recovery import CommandKind, CommandStatus
from navarch.ports.agents import Registration
from navarch.ports.api import Capacity, Query
from navarch.service.agents import MOVE_EVERY, AgentService
from navarch.service.fleet import FleetService
from navarch.service.views import pool_spec, pool_view, standing
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import H100, NOW, a_node, a_pool, indexed

TRAINING = PoolName("training")


class Services:
    """A fleet with its fleet service and agent service, and no running controllers."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        self.telemetry = TelemetryTable(self.clock, timeout=timedelta(seconds=90))
        self.fleet = FleetService(
            self.clock,
            SeededEntropy("1"),
            self.store,
            self.telemetry,
            offerings=self.offerings,
            obstacle=lambda _: "the budget has no room",
        )
        self.agents = AgentService(self.clock, self.store, indexed(self.store), self.telemetry)

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


def run(story: Callable[[Services], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(Services())

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_a_cordon_is_set_and_lifted_and_changes_nothing_else() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", health=Health.DEGRADED)
        cordoned = await services.fleet.cordon(NodeId("training-0"), reason="looking")
        assert (cordoned.status, cordoned.cordoned) == (NodeStatus.CORDONED, "looking")
        lifted = await services.fleet.uncordon(NodeId("training-0"))
        assert (lifted.status, lifted.health) == (NodeStatus.ACTIVE, Health.DEGRADED)

    run(story)


def test_cordoning_a_node_that_is_drained_by_hand_calls_the_drain_off() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0")
        drained = await services.fleet.drain(NodeId("training-0"), reason="moving house")
        assert drained.status is NodeStatus.DRAINING
        cordoned = await services.fleet.cordon(NodeId("training-0"), reason="not yet")
        assert cordoned.status is NodeStatus.CORDONED

    run(story)


def test_uncordoning_a_node_that_is_drained_by_hand_returns_it_to_service() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0")
        await services.fleet.drain(NodeId("training-0"), reason="moving house")
        lifted = await services.fleet.uncordon(NodeId("training-0"))
        assert (lifted.status, lifted.cordoned) == (NodeStatus.ACTIVE, None)
        assert services.store.fleet().nodes[NodeId("training-0")].phase is Phase.READY

    run(story)


def test_a_node_that_drains_without_a_cordon_can_be_uncordoned() -> None:
    """Earlier versions left such nodes behind."""

    async def story(services: Services) -> None:
        await services.put("training-0", phase=Phase.DRAINING)
        lifted = await services.fleet.uncordon(NodeId("training-0"))
        assert lifted.status is NodeStatus.ACTIVE

    run(story)


def test_a_node_that_is_drained_for_a_repair_cannot_be_uncordoned() -> None:
    async def story(services: Services) -> None:
        recovery = RecoveryId("recovery-1")
        await services.put("training-0", phase=Phase.DRAINING, cordoned="repair", recovery=recovery)
        with pytest.raises(NotPossibleError, match="training-0 is drained for a repair"):
            await services.fleet.uncordon(NodeId("training-0"))
        node = services.store.fleet().nodes[NodeId("training-0")]
        assert (node.phase, node.cordoned) == (Phase.DRAINING, "repair")

    run(story)


def test_a_node_that_is_being_terminated_cannot_be_uncordoned() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0")
        await services.fleet.retire(NodeId("training-0"), reason="too old")
        with pytest.raises(NotPossibleError, match="being terminated: too old"):
            await services.fleet.uncordon(NodeId("training-0"))

    run(story)


def test_an_override_needs_a_reason() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", health=Health.UNHEALTHY)
        with pytest.raises(InvalidError, match="reason"):
            await services.fleet.declare_healthy(NodeId("training-0"), reason=" ")

    run(story)


def test_a_request_for_an_unknown_name_fails_and_writes_nothing() -> None:
    async def story(services: Services) -> None:
        for request in (
            services.fleet.cordon(NodeId("nope"), reason="x"),
            services.fleet.scale(PoolName("nope"), 3, reason="x"),
            services.fleet.issue(NodeId("nope"), CommandKind.DRAIN),
            services.fleet.get_instance("nope"),
            services.fleet.why(about("node", "nope")),
            services.agents.report_health(NodeId("nope"), HealthReport(results=())),
        ):
            with pytest.raises(NotFoundError, match="nope"):
                await request
        with pytest.raises(NotFoundError):
            services.agents.heartbeat(NodeId("nope"))
        assert services.store.fleet().revision == 0

    run(story)


def test_why_shows_the_state_of_a_pool_and_the_outcome_of_a_launch() -> None:
    async def story(services: Services) -> None:
        spec = replace(pool_spec(a_pool()), nodes_min=0, nodes_max=4)
        await services.fleet.put_pool(spec, reason="a test")
        await services.fleet.scale(TRAINING, 3, reason="a test")
        short = await services.fleet.why(about("pool", TRAINING))
        assert short.state == "at 0 of 3 nodes: 3 to be requested: the budget has no room"
        assert [step.kind for step in short.steps] == ["pool.scaled", "pool.created"]

        node = a_node("training-0")
        assert node.launch is not None
        asked = Event(
            at=NOW, about=about("launch", node.launch.token), kind="launch.asked", reason="so"
        )
        change = Change(nodes=[node], events=[asked])
        await services.store.commit(change, based_on=services.store.fleet().revision)
        bought = await services.fleet.why(asked.about)
        assert bought.state == f"bought, as {node.instance} for training-0"
        with pytest.raises(NotFoundError, match="also found by the name of its node"):
            await services.fleet.why(about("launch", "training-7"))

    run(story)


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
    async def story(services: Services) -> None:
        spec = replace(pool_spec(a_pool()), **change)  # type: ignore[arg-type]
        with pytest.raises(InvalidError, match=complaint):
            await services.fleet.put_pool(spec, reason="x")
        assert services.store.fleet().revision == 0

    run(story)


def test_changing_a_pool_keeps_its_counter_and_its_size() -> None:
    async def story(services: Services) -> None:
        await services.fleet.put_pool(pool_spec(a_pool(size=1, nodes_max=9)), reason="new")
        await services.fleet.scale(TRAINING, 5, reason="busy")
        changed = await services.fleet.put_pool(
            pool_spec(a_pool(size=2, nodes_max=4)), reason="less"
        )
        assert changed.size == 4
        again = await services.fleet.put_pool(pool_spec(a_pool(size=2, nodes_max=4)), reason="same")
        assert again == changed
        assert services.store.fleet().revision == 3, "what changes nothing is not written"

    run(story)


def test_a_pool_of_exactly_the_limit_is_allowed() -> None:
    async def story(services: Services) -> None:
        spec = replace(pool_spec(a_pool(size=0)), nodes_max=NODES_PER_POOL_MAX)
        await services.fleet.put_pool(spec, reason="large")
        scaled = await services.fleet.scale(TRAINING, NODES_PER_POOL_MAX, reason="all of it")
        assert scaled.size == NODES_PER_POOL_MAX

    run(story)


def test_a_pool_cannot_scale_above_the_limit_even_with_a_larger_stored_maximum() -> None:
    async def story(services: Services) -> None:
        old = a_pool(size=0, nodes_max=2**53, nodes_wanted=4)
        await services.store.commit(Change(pools=[old]), based_on=0)
        with pytest.raises(InvalidError, match="nodes: 100001 is above the limit of 100000 nodes"):
            await services.fleet.scale(TRAINING, NODES_PER_POOL_MAX + 1, reason="more")
        assert services.store.fleet().revision == 1
        assert services.store.fleet().pools[TRAINING] == old

    run(story)


def test_a_request_for_more_gpus_than_one_pool_can_hold_is_refused() -> None:
    async def story(services: Services) -> None:
        wish = Capacity(name=PoolName("demo"), gpus=1_000_000, gpu_type="h100")
        with pytest.raises(InvalidError, match="gpus: 1000000 GPUs take 125000 nodes"):
            await services.fleet.up(wish)
        with pytest.raises(InvalidError, match="limit of 100000 nodes per pool"):
            await services.fleet.up(replace(wish, gpus=8, gang=10**9))
        assert services.store.fleet().revision == 0
        most = await services.fleet.up(replace(wish, gpus=8 * NODES_PER_POOL_MAX))
        assert (most.size, most.spec.nodes_max) == (NODES_PER_POOL_MAX, NODES_PER_POOL_MAX)

    run(story)


def test_a_stored_pool_above_the_limit_is_shown_as_paused_with_the_remedy() -> None:
    async def story(services: Services) -> None:
        old = a_pool(size=0, nodes_max=2**53, nodes_wanted=10**9)
        await services.store.commit(Change(pools=[old]), based_on=0)
        note = (
            "paused: 1000000000 nodes are above the limit of 100000 nodes per pool; "
            "scale it to 100000 nodes or fewer: navarch pool scale training NODES"
        )
        assert (await services.fleet.get_pool(TRAINING)).note == note
        assert [pool.note for pool in (await services.fleet.status()).pools] == [note]
        scaled = await services.fleet.scale(TRAINING, 2, reason="as meant")
        assert (scaled.size, scaled.note) == (2, "2 to be requested")

    run(story)


def test_a_stored_pool_with_a_minimum_above_the_limit_names_the_minimum() -> None:
    async def story(services: Services) -> None:
        old = a_pool(size=10**9, nodes_max=2**53)
        await services.store.commit(Change(pools=[old]), based_on=0)
        note = (await services.fleet.get_pool(TRAINING)).note
        assert note.startswith("paused: 1000000000 nodes are above the limit")
        assert "set its minimum to 100000 nodes or fewer" in note
        put = await services.fleet.put_pool(
            replace(pool_spec(old), nodes_min=1, nodes_max=3), reason=""
        )
        assert (put.size, put.note) == (1, "1 to be requested")

    run(story)


def test_capacity_is_bought_in_whole_machines_of_the_cheapest_kind() -> None:
    async def story(services: Services) -> None:
        wish = Capacity(name=PoolName("demo"), gpus=16, gpu_type="h100")
        pool = await services.fleet.up(wish)
        assert (pool.size, pool.spec.nodes_max) == (2, 3)
        assert [x.region for x in pool.spec.offerings] == ["region-1", "dear"]
        small = await services.fleet.up(replace(wish, name=PoolName("small"), gpus=3))
        assert (small.size, small.spec.offerings[0].instance_type) == (3, "h100-1x")
        grown = await services.fleet.up(replace(wish, gpus=17))
        assert grown.size == 3

    run(story)


def test_a_type_that_is_not_for_sale_is_refused_with_the_available_types() -> None:
    async def story(services: Services) -> None:
        with pytest.raises(InvalidError, match="available: a100, h100"):
            await services.fleet.up(Capacity(name=PoolName("x"), gpus=8, gpu_type="b200"))

    run(story)


def test_lists_are_filtered_ordered_and_continued_where_they_ended() -> None:
    async def story(services: Services) -> None:
        await services.put(*(f"training-{i}" for i in (10, 9, 1, 2)))
        await services.fleet.cordon(NodeId("training-9"), reason="x")
        page = await services.fleet.list_nodes(Query(page_size=3))
        assert [n.id for n in page.items] == ["training-1", "training-2", "training-9"]
        rest = await services.fleet.list_nodes(Query(page_size=3, page_token=page.next_page_token))
        assert [n.id for n in rest.items] == ["training-10"]
        assert (rest.next_page_token, rest.total) == ("", 4)
        down = await services.fleet.list_nodes(Query(order_by="-name", page_size=2))
        assert [n.id for n in down.items] == ["training-10", "training-9"]
        more = await services.fleet.list_nodes(
            Query(order_by="-name", page_size=2, page_token=down.next_page_token)
        )
        assert [n.id for n in more.items] == ["training-2", "training-1"]
        found = await services.fleet.list_nodes(Query(status=NodeStatus.CORDONED))
        assert [n.id for n in found.items] == ["training-9"]
        assert (await services.fleet.list_nodes(Query(labels={"pool": "other"}))).items == ()

    run(story)


@pytest.mark.parametrize(
    "query",
    [Query(order_by="colour"), Query(page_size=0), Query(page_size=9999), Query(page_token="%%")],
)
def test_an_invalid_list_request_is_refused(query: Query) -> None:
    async def story(services: Services) -> None:
        await services.put("training-0")
        with pytest.raises(InvalidError):
            await services.fleet.list_nodes(query)

    run(story)


def test_a_watch_returns_every_past_and_new_revision() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", "training-1")
        await services.fleet.cordon(NodeId("training-0"), reason="one")
        updates = services.fleet.watch(after_revision=0)
        assert [(await anext(updates)).revision for _ in range(2)] == [1, 2]
        await services.fleet.cordon(NodeId("training-1"), reason="two")
        await services.store.commit(Change(forget_nodes=[NodeId("training-0")]), based_on=3)
        live = await anext(updates)
        assert [(n.id, n.cordoned) for n in live.nodes] == [("training-1", "two")]
        assert [e.event.kind for e in live.events] == ["node.cordoned"]
        assert (await anext(updates)).revision == 4

    run(story)


def test_a_watch_keeps_a_large_revision_in_one_piece() -> None:
    async def story(services: Services) -> None:
        events = [
            Event(at=NOW, about=about("node", f"n-{i}"), kind="node.health", reason=str(i))
            for i in range(2500)
        ]
        await services.store.commit(Change(events=events), based_on=0)
        await services.store.commit(Change(events=events[:1]), based_on=1)
        updates = services.fleet.watch(after_revision=0)
        sizes = [len((await anext(updates)).events) for _ in range(2)]
        assert sizes == [2500, 1]

    run(story)


def test_a_watch_from_before_the_journal_or_after_the_present_is_refused() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0")
        await services.fleet.cordon(NodeId("training-0"), reason="one")
        await services.clock.sleep(10)
        await services.store.prune(services.clock.now())
        with pytest.raises(NotPossibleError, match="too old"):
            await anext(services.fleet.watch(after_revision=1))
        with pytest.raises(NotPossibleError, match="in the future"):
            await anext(services.fleet.watch(after_revision=99))

    run(story)


def test_a_watch_ends_when_what_it_has_not_read_is_pruned() -> None:
    async def story(services: Services) -> None:
        event = Event(at=NOW, about=about("node", "n"), kind="node.health", reason="")
        for revision in range(3):
            await services.store.commit(Change(events=[event] * 900), based_on=revision)
        updates = services.fleet.watch(after_revision=0)
        assert len((await anext(updates)).events) == 900
        while await services.store.prune(NOW + timedelta(days=1)):
            pass
        with pytest.raises(NotPossibleError, match="too old"):
            await anext(updates)

    run(story)


def test_why_follows_the_reasons_behind_the_reasons() -> None:
    async def story(services: Services) -> None:
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
        await services.store.commit(Change(events=events), based_on=0)
        why = await services.fleet.why(about("node", "b"))
        (step,) = why.steps
        (behind,) = step.because
        assert [s.reason for s in behind.steps] == ["unhealthy", "XID 79"]

    run(story)


def test_a_machine_that_navarch_did_not_buy_may_register_but_is_never_terminated() -> None:
    async def story(services: Services) -> None:
        place = Offering(provider=ProviderName("rack"), instance_type="dgx")
        inventory = Inventory(gpus=(Gpu(index=0, uuid="g"),), labels={"rack": "7"})
        name = NodeId("dgx-1")
        await services.agents.register(Registration(node=name, place=place, inventory=inventory))
        detail = await services.fleet.get_node(name)
        assert (detail.node.status, detail.node.provider) == (NodeStatus.ACTIVE, "rack")
        assert (detail.node.gpus, detail.node.labels) == (1, {"rack": "7"})
        with pytest.raises(NotPossibleError, match="was not bought by Navarch"):
            await services.fleet.retire(name, reason="x")

    run(story)


def test_an_agent_may_register_under_the_name_of_its_machine() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", phase=Phase.BOOTING)
        welcome = await services.agents.register(Registration(node=NodeId("i-training-0")))
        assert welcome.node == "training-0"
        assert services.store.fleet().nodes[NodeId("training-0")].phase is Phase.READY

    run(story)


def test_registering_twice_writes_once() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", phase=Phase.BOOTING)
        registration = Registration(node=NodeId("training-0"), boot_id="b1")
        await services.agents.register(registration)
        revision = services.store.fleet().revision
        await services.agents.register(registration)
        assert services.store.fleet().revision == revision

    run(story)


def test_a_registration_at_another_listener_is_recorded_and_a_heartbeat_is_not() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", phase=Phase.BOOTING)
        name = NodeId("training-0")
        registration = Registration(node=name, boot_id="b1")
        for link in ("a:8080/http", "a:8080/http", "b:50052/grpc"):
            await services.agents.register(registration, link=link)
        recorded = services.store.fleet().nodes[name].traits[LINK]
        assert (recorded.value, recorded.before) == ("b:50052/grpc", "a:8080/http")
        revision = services.store.fleet().revision
        services.agents.heartbeat(name)
        assert services.store.fleet().revision == revision

    run(story)


def test_agents_that_registered_elsewhere_register_again_one_by_one_after_a_move() -> None:
    async def story(services: Services) -> None:
        links = {"there": "a:1/http", "moved": "b:1/http", "too": "b:1/http", "unknown": ""}
        for name, link in links.items():
            await services.put(name, phase=Phase.BOOTING)
            await services.agents.register(Registration(node=NodeId(name)), link=link)

        def has_moved(name: str) -> bool:
            try:
                services.agents.heartbeat(NodeId(name))
            except NotFoundError:
                return True
            return False

        services.agents.note_links(["a:1/http", "a:2/grpc"])
        assert [has_moved(name) for name in links] == [False, True, False, False]
        await services.clock.sleep(MOVE_EVERY.total_seconds())
        assert [has_moved(name) for name in links] == [False, False, True, False]
        await services.clock.sleep(MOVE_EVERY.total_seconds())
        assert not any(has_moved(name) for name in links), "each registers again once"

    run(story)


BROKEN = HealthReport(
    results=(
        CheckResult(check="boot", health=Health.HEALTHY),
        CheckResult(check="xid/79/g", health=Health.UNHEALTHY, fatal=True, lasting=True),
    ),
    stream="s",
    number=1,
)


def test_a_machine_that_boots_with_a_fault_never_counts_as_healthy() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", phase=Phase.BOOTING)
        commits: list[list[str]] = []
        services.store.subscribe(lambda done: commits.append([e.kind for e in done.change.events]))
        registration = Registration(node=NodeId("i-training-0"), boot_id="b1", report=BROKEN)
        welcome = await services.agents.register(registration)

        assert (welcome.node, welcome.status) == ("training-0", NodeStatus.UNHEALTHY)
        assert commits == [["node.registered", "health.finding", "incident.opened", "node.health"]]
        (incident,) = services.store.fleet().incidents.values()
        assert incident.nodes == ("training-0",)

        assert await services.agents.register(registration) == welcome
        await services.agents.report_health(NodeId("training-0"), BROKEN)
        assert len(commits) == 1, "said again, it changes nothing"

    run(story)


def test_a_registration_without_a_report_returns_no_status() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", phase=Phase.BOOTING)
        welcome = await services.agents.register(Registration(node=NodeId("training-0")))
        assert welcome.status == ""

    run(story)


def test_the_report_of_a_refused_machine_is_not_evaluated() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", phase=Phase.BOOTING)
        with pytest.raises(NotPossibleError, match="runs on another machine"):
            await services.agents.register(
                Registration(node=NodeId("training-0"), token=Token("older"), report=BROKEN)
            )
        fleet = services.store.fleet()
        assert fleet.nodes[NodeId("training-0")].conditions == ()
        assert not fleet.incidents

    run(story)


def test_a_registration_with_a_report_is_retried_after_a_conflict() -> None:
    class Busy(MemoryStore):
        async def commit(self, change: Change, *, based_on: int) -> Fleet:
            """Commit a cordon by an operator first, once."""
            if change.inventories and not self.fleet().nodes[NodeId("training-0")].cordoned:
                node = evolve(self.fleet().nodes[NodeId("training-0")], cordoned="by hand")
                await super().commit(Change(nodes=[node]), based_on=based_on)
            return await super().commit(change, based_on=based_on)

    async def story(services: Services) -> None:
        store = Busy(Cluster(id="c", secret=b"x" * 32))
        agents = AgentService(services.clock, store, indexed(store), services.telemetry)
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

    run(story)


def test_a_node_that_registers_is_no_longer_silent() -> None:
    async def story(services: Services) -> None:
        silence = Condition(
            check=HEARTBEAT, health=Health.UNHEALTHY, reason="not heard of", since=NOW, times=2
        )
        other = Condition(check="disk", health=Health.DEGRADED, reason="full", since=NOW)
        await services.put("training-0", conditions=(silence, other), health=Health.UNHEALTHY)
        launch = services.store.fleet().nodes[NodeId("training-0")].launch
        assert launch is not None

        await services.agents.register(
            Registration(node=NodeId("training-0"), token=launch.token, inventory=Inventory())
        )

        node = services.store.fleet().nodes[NodeId("training-0")]
        assert (node.health, node.conditions) == (Health.DEGRADED, (other,))
        assert NodeId("training-0") not in services.telemetry.silent()

    run(story)


def test_the_machine_of_an_older_launch_may_not_report_for_the_node() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", phase=Phase.BOOTING)
        with pytest.raises(NotPossibleError, match="runs on another machine"):
            await services.agents.register(
                Registration(node=NodeId("training-0"), token=Token("older"))
            )
        assert services.store.fleet().nodes[NodeId("training-0")].phase is Phase.BOOTING

    run(story)


def test_a_node_that_is_gone_cannot_register_again() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", phase=Phase.GONE)
        with pytest.raises(NotPossibleError, match="is gone"):
            await services.agents.register(Registration(node=NodeId("training-0")))

    run(story)


def test_a_repeated_report_counts_once() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0")
        name = NodeId("training-0")
        bad = (CheckResult(check="gpu", health=Health.UNHEALTHY, reason="lost"),)
        first = HealthReport(results=bad, stream="s1", number=1)
        for _ in range(3):
            await services.agents.report_health(name, first)
        assert services.store.fleet().nodes[name].conditions[0].times == 1
        await services.agents.report_health(name, evolve(first, number=2))
        assert services.store.fleet().nodes[name].conditions[0].times == 2
        await services.agents.report_health(name, evolve(first, stream="s2"))
        assert services.store.fleet().nodes[name].conditions[0].times == 3

    run(story)


def test_commands_are_delivered_until_they_are_acknowledged() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", "training-1")
        name = NodeId("training-0")
        command = await services.fleet.issue(name, CommandKind.RUN_DIAGNOSTIC, {"test": "all"})
        for _ in range(2):
            assert [c.id for c in services.agents.heartbeat(name)] == [command.id]
        assert list(services.agents.heartbeat(NodeId("training-1"))) == []
        await services.agents.acknowledge(name, command.id)
        assert list(services.agents.heartbeat(name)) == []
        await services.agents.finish(name, command.id, succeeded=False, result="no dcgmi")
        await services.agents.finish(name, command.id, succeeded=True)
        done = await services.fleet.get_command(command.id)
        assert (done.status, done.result) == (CommandStatus.FAILED, "no dcgmi")

    run(story)


def test_a_node_cannot_acknowledge_the_command_of_another() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", "training-1")
        command = await services.fleet.issue(NodeId("training-0"), CommandKind.RUN_DIAGNOSTIC)
        with pytest.raises(NotFoundError):
            await services.agents.finish(NodeId("training-1"), command.id, succeeded=True)

    run(story)


def test_the_status_counts_nodes_and_pools() -> None:
    async def story(services: Services) -> None:
        await services.put("training-0", "training-1")
        await services.fleet.cordon(NodeId("training-1"), reason="x")
        status = await services.fleet.status()
        assert status.nodes_by_status == {"active": 1, "cordoned": 1}
        assert (status.gpus, status.price_per_hour) == (16, 2 * H100.price_per_hour)
        assert [entry.event.kind for entry in status.recent] == ["node.cordoned"]

    run(story)


def test_a_pool_with_spares_shows_how_many_nodes_are_spare() -> None:
    pool = a_pool(size=2, nodes_max=5, spares=2)
    nodes = [a_node(f"training-{index}") for index in range(3)]

    assert standing(pool_view(pool, nodes)) == "at 3 of 2 nodes: 1 of them spare"
    assert standing(pool_view(a_pool(size=3, nodes_max=5), nodes)) == "at 3 of 3 nodes"
