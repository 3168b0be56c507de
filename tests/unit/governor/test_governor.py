"""Limits of automation, and the reasons it gives for deferring."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from governor_faults import faulty

from navarch.core.disruption import Deferred, DeferredBy, Domain, DomainBudget, GovernorSettings
from navarch.core.health import HEARTBEAT, Condition, Health
from navarch.core.ids import NodeId, PoolName, ProviderName
from navarch.core.node import AGENT, DRIVER, IMAGE, Node, Phase, Retirement, Silence, Trait
from navarch.core.records import evolve
from navarch.core.witness import Testimony as ATestimony
from navarch.fleet.disruption.governor.common_cause import PolicyChange, find_causes
from navarch.fleet.disruption.governor.domain_stats import DomainStats, fingerprints
from navarch.fleet.disruption.governor.governor import (
    GovernorDecision,
    Obstacles,
    ProposedAction,
    govern,
)
from navarch.fleet.disruption.governor.outage import find_outages, outage_of
from navarch.fleet.replacement_loop import ReplacementLoop
from navarch.fleet.silence import is_proven_dead
from navarch.testing.worlds import NOW, a_node

SETTINGS = GovernorSettings()
LONG_AGO = NOW - timedelta(days=30)


def trait(value: str, since: datetime = LONG_AGO, before: str = "") -> Trait:
    return Trait(value=value, since=since, before=before)


def each_faulty(nodes: list[Node], *, since: datetime = NOW) -> list[Node]:
    """Return the nodes, each with another fault, so that nothing looks like a common cause."""
    return [faulty(node, code=1000 + i, since=since) for i, node in enumerate(nodes)]


def fleet(count: int, *, pool: str = "training", **facts: object) -> list[Node]:
    return [a_node(f"{pool}-{i}", pool, **facts) for i in range(count)]  # type: ignore[arg-type]


def decide(
    nodes: list[Node],
    *,
    settings: GovernorSettings = SETTINGS,
    now: datetime = NOW,
    short_of_nodes: bool = True,
    loops: dict[PoolName, ReplacementLoop] | None = None,
) -> dict[NodeId, GovernorDecision]:
    stats = DomainStats(nodes)
    wishes = [
        ProposedAction(
            node=node,
            action="replace",
            reason="unhealthy",
            for_silence=all(x.check == HEARTBEAT for x in node.conditions)
            and not is_proven_dead(node),
        )
        for node in nodes
        if node.health is Health.UNHEALTHY and node.counts
    ]
    obstacles = Obstacles(
        causes=find_causes(stats, settings, now=now),
        outages=find_outages(stats, now=now),
        loops=loops or {},
    )
    verdicts = govern(
        wishes, stats, settings, obstacles, is_missed=lambda _: short_of_nodes, now=now
    )
    return {verdict.proposal.node.id: verdict for verdict in verdicts}


def passed(verdicts: dict[NodeId, GovernorDecision]) -> list[NodeId]:
    return [name for name, verdict in verdicts.items() if verdict.held is None]


def test_a_single_broken_node_is_always_acted_on_even_in_a_small_pool() -> None:
    assert passed(decide([faulty(a_node("training-0"))])) == ["training-0"]


def test_only_the_configured_share_of_a_pool_is_acted_on_at_once() -> None:
    nodes = fleet(100)
    nodes[:30] = each_faulty(nodes[:30])
    assert len(passed(decide(nodes))) == 5


def test_a_deferred_node_names_the_domain_that_defers_it() -> None:
    nodes = [faulty(node) for node in fleet(3)]
    (waiting, *_) = [v.held for v in decide(nodes).values() if v.held]
    assert waiting.by is DeferredBy.BUDGET
    assert waiting.because.startswith("pool training: automation may act on 5% of it, or 1 node")


def acted_on(name: str, *, minutes_ago: float, phase: Phase = Phase.GONE) -> Node:
    return evolve(
        faulty(a_node(name, phase=phase)),
        acted_at=NOW - timedelta(minutes=minutes_ago),
        retiring=Retirement(reason="unhealthy"),
    )


def test_nothing_passes_a_spent_budget_even_when_the_last_node_is_gone() -> None:
    gone = acted_on("training-0", minutes_ago=20)
    nodes = [gone, *[faulty(a_node(f"training-{i}")) for i in range(1, 4)]]
    assert passed(decide(nodes)) == []


def test_a_removed_node_counts_until_its_successor_is_in_service() -> None:
    out = [acted_on(f"training-{i}", minutes_ago=600) for i in range(5)]
    rest = each_faulty([a_node(f"training-{i}") for i in range(5, 100)])
    booting = [
        a_node(f"training-{i}", phase=Phase.BOOTING, replaces=NodeId(f"training-{i - 100}"))
        for i in range(100, 105)
    ]
    assert passed(decide([*out, *booting, *rest])) == []

    serving = [
        a_node(f"training-{i}", replaces=NodeId(f"training-{i - 100}")) for i in range(100, 105)
    ]
    yesterday = [evolve(node, acted_at=NOW - timedelta(hours=25)) for node in out]
    assert passed(decide([*yesterday, *booting, *rest])) == []
    assert len(passed(decide([*yesterday, *serving, *rest]))) == 5


def test_a_successor_of_the_successor_restores_the_budget() -> None:
    out = acted_on("training-0", minutes_ago=600)
    again = evolve(acted_on("training-1", minutes_ago=300), replaces=out.id)
    broken = faulty(a_node("training-3"), code=48)
    assert passed(decide([out, again, broken])) == []
    serving = a_node("training-2", replaces=again.id)
    assert passed(decide([out, again, serving, broken])) == ["training-3"]


@pytest.mark.parametrize(("well_min", "counts"), [(29, True), (31, False)])
def test_a_removed_node_counts_no_longer_once_its_successor_was_well_for_half_an_hour(
    well_min: int, *, counts: bool
) -> None:
    out = acted_on("training-0", minutes_ago=1400)
    registered_at = NOW - timedelta(hours=5)
    successor = a_node("training-1", replaces=out.id, registered_at=registered_at)
    ill = faulty(successor, since=registered_at + timedelta(minutes=well_min))
    hour_ago = NOW - timedelta(hours=1)
    assert bool(DomainStats([out, ill]).acted_since(hour_ago, lambda _: True)) is counts
    gone = evolve(ill, phase=Phase.GONE, acted_at=registered_at + timedelta(minutes=well_min))
    assert (out.id in DomainStats([out, gone]).acted_since(hour_ago, lambda _: True)) is counts


def test_a_successor_that_breaks_later_does_not_wait_for_the_node_that_it_replaced() -> None:
    out = acted_on("training-0", minutes_ago=1400)
    successor = a_node("training-1", replaces=out.id, registered_at=NOW - timedelta(hours=5))
    assert passed(decide([out, faulty(successor)])) == ["training-1"]


def test_a_pool_at_its_size_waits_for_no_successor() -> None:
    out = acted_on("training-0", minutes_ago=61)
    broken = faulty(a_node("training-1"))
    assert passed(decide([out, broken], short_of_nodes=True)) == []
    assert passed(decide([out, broken], short_of_nodes=False)) == ["training-1"]


def test_slow_failures_do_not_exceed_the_budget_of_a_day() -> None:
    out = [acted_on(f"training-{i}", minutes_ago=90 + i) for i in range(5)]
    new = [a_node(f"training-{i + 100}", replaces=out[i].id) for i in range(5)]
    rest = [
        faulty(a_node("training-50"), code=48),
        *[a_node(f"training-{i}") for i in range(5, 50)],
    ]
    others = [a_node(f"training-{i}") for i in range(51, 100)]
    verdicts = decide([*out, *new, *rest, *others])
    assert passed(verdicts) == []
    (held,) = [v.held for v in verdicts.values() if v.held]
    assert held.because == "pool training: automation may act on 5% of it, or 5 nodes, in 24 h"
    assert passed(decide([*out[1:], *new, *rest, *others])) == ["training-50"]


def test_a_small_pool_may_lose_five_nodes_in_a_day_one_an_hour() -> None:
    out = [acted_on(f"training-{i}", minutes_ago=61 * (i + 1)) for i in range(4)]
    new = [a_node(f"training-{i + 10}", replaces=out[i].id) for i in range(4)]
    broken = faulty(a_node("training-9"), code=48)
    assert passed(decide([*out, *new, broken])) == ["training-9"]
    fifth = acted_on("training-4", minutes_ago=300)
    assert passed(decide([*out, fifth, *new, broken])) == []


@pytest.mark.parametrize(("others", "passing"), [(30, []), (2000, ["training-1"])])
def test_a_fault_that_more_nodes_show_than_fail_by_themselves_has_no_floor_in_a_day(
    others: int, passing: list[str]
) -> None:
    out = acted_on("training-0", minutes_ago=90)
    training = [a_node(f"training-{i}") for i in range(20, 38)]
    training += [a_node("training-10", replaces=out.id), faulty(a_node("training-1"))]
    elsewhere = [acted_on(f"other-{i}", minutes_ago=120) for i in range(2)]
    elsewhere = [evolve(node, pool=PoolName("other"), labels={}) for node in elsewhere]
    rest = [a_node(f"other-{i}", "other") for i in range(3, others)]
    verdicts = decide([out, *training, *elsewhere, *rest], short_of_nodes=False)
    assert passed(verdicts) == passing
    assert {v.held.because for v in verdicts.values() if v.held} == (
        set()
        if passing
        else {
            "pool training: automation may act on 5% of it, or 5 nodes, in 24 h, less 4 kept for "
            "other faults than xid 79"
        }
    )


def test_a_replacement_that_fails_at_once_counts_in_the_day() -> None:
    out = [acted_on(f"training-{i}", minutes_ago=20 + 100 * i) for i in range(5)]
    young = NOW - timedelta(minutes=5)
    new = [a_node(f"training-{i + 10}", replaces=out[i].id) for i in (1, 2, 3, 4)]
    ill = faulty(a_node("training-10", replaces=out[0].id, registered_at=young), code=48)
    assert passed(decide([*out, *new, ill])) == []
    assert passed(decide([*out[:4], *new[:3], ill])) == ["training-10"]


@pytest.mark.parametrize(("size", "kept"), [(20, 4), (65, 2), (79, 2)])
def test_a_fourth_node_of_a_small_pool_is_acted_on_in_a_day_only_for_another_fault(
    size: int, kept: int
) -> None:
    out = [acted_on(f"training-{i}", minutes_ago=61 * (i + 1)) for i in range(3)]
    new = [a_node(f"training-{i + 100}", replaces=out[i].id) for i in range(3)]
    rest = [a_node(f"training-{i}") for i in range(3, size - 1)]
    same, other = faulty(a_node("training-99")), faulty(a_node("training-99"), code=48)
    verdicts = decide([*out, *new, *rest, same])
    assert passed(verdicts) == []
    (held,) = [v.held for v in verdicts.values() if v.held]
    assert held.because.endswith(
        f"or 5 nodes, in 24 h, less {kept} kept for other faults than xid 79"
    )
    assert passed(decide([*out, *new, *rest, other])) == ["training-99"]


def test_a_fault_without_a_floor_has_what_other_faults_left_of_the_share() -> None:
    out = [acted_on(f"training-{i}", minutes_ago=61 * (i + 1)) for i in range(3)]
    out[0] = faulty(evolve(out[0], conditions=()), code=48)
    new = [a_node(f"training-{i + 100}", replaces=out[i].id) for i in range(3)]
    rest = [a_node(f"training-{i}") for i in range(3, 59)]
    assert passed(decide([*out, *new, *rest, faulty(a_node("training-99"))])) == []
    assert passed(decide([*out[1:], *new, *rest, faulty(a_node("training-99"))])) == ["training-99"]


@pytest.mark.parametrize(("acted", "passing"), [(3, ["training-99"]), (4, [])])
def test_a_fifth_node_of_a_pool_is_kept_for_other_faults_even_if_a_large_fleet_shows_it_often(
    acted: int, passing: list[str]
) -> None:
    out = [acted_on(f"training-{i}", minutes_ago=61 * (i + 1)) for i in range(acted)]
    new = [a_node(f"training-{i + 100}", replaces=out[i].id) for i in range(acted)]
    rest = [a_node(f"training-{i}") for i in range(5, 64)]
    others = [a_node(f"other-{i}", f"other-{i % 40}") for i in range(3000)]
    shown = [evolve(faulty(node), phase=Phase.GONE) for node in others[:6]]
    same = faulty(a_node("training-99"))
    nodes = [*out, *new, *rest, *shown, *others[6:], same]
    assert passed(decide(nodes, short_of_nodes=False)) == passing


def test_a_faulty_successor_of_a_counted_node_needs_no_further_budget() -> None:
    out = acted_on("training-0", minutes_ago=20)
    ill = faulty(
        a_node("training-1", replaces=out.id, registered_at=NOW - timedelta(minutes=5)),
    )
    other = faulty(a_node("training-2"), code=48)
    assert passed(decide([out, ill, other])) == ["training-1"]

    later = evolve(ill, registered_at=NOW - timedelta(minutes=31))
    assert passed(decide([out, later, other])) == []


def test_faulty_replacements_are_limited() -> None:
    nodes = fleet(100)
    nodes[:5] = each_faulty(nodes[:5])
    loop = loop_with(*(f"xid {1000 + i}" for i in range(5)))
    verdicts = decide(nodes, loops={PoolName("training"): loop})
    assert passed(verdicts) == []
    assert {v.held.by for v in verdicts.values() if v.held} == {DeferredBy.REPLACEMENT_LOOP}
    one = replace(loop, allowance=1)
    assert len(passed(decide(nodes, loops={PoolName("training"): one}))) == 1


def test_a_fault_that_no_replacement_showed_is_treated_during_a_replacement_loop() -> None:
    nodes = fleet(100)
    nodes[0], nodes[1] = faulty(nodes[0], code=79), faulty(nodes[1], code=48)
    verdicts = decide(nodes, loops={PoolName("training"): loop_with("xid 79")})
    assert passed(verdicts) == ["training-1"]


def test_a_replacement_with_another_fault_waits_for_the_end_of_the_loop() -> None:
    nodes = fleet(100)
    new = evolve(
        nodes[0], replaces=NodeId("training-old"), registered_at=NOW - timedelta(minutes=5)
    )
    nodes[0] = faulty(new, code=48)
    verdicts = decide(nodes, loops={PoolName("training"): loop_with("xid 79")})
    assert passed(verdicts) == []


def loop_with(*faults: str) -> ReplacementLoop:
    return ReplacementLoop(reason="they fall ill", until=NOW, allowance=0, faults=frozenset(faults))


# Silence


def mute(node: Node) -> Node:
    return silent(evolve(node, health=Health.UNHEALTHY), since=NOW)


def mute_since(node: Node, since: datetime) -> Node:
    return silent(evolve(node, health=Health.UNHEALTHY), since=since)


@pytest.mark.parametrize(("silent_nodes", "of", "replaced"), [(1, 3, 1), (2, 20, 1), (10, 100, 4)])
def test_nodes_that_became_silent_one_after_another_are_replaced(
    silent_nodes: int, of: int, replaced: int
) -> None:
    nodes = fleet(of)
    for i in range(silent_nodes):
        nodes[i] = mute_since(nodes[i], NOW - timedelta(minutes=16 * i))
    assert len(passed(decide(nodes))) == replaced


@pytest.mark.parametrize("size", [288, 1000])
def test_two_nodes_that_became_silent_together_are_doubted_for_two_hours(size: int) -> None:
    nodes = fleet(size)
    nodes[:2] = [mute_since(node, NOW - timedelta(minutes=i)) for i, node in enumerate(nodes[:2])]
    assert passed(decide(nodes)) == []
    assert passed(decide(nodes, now=NOW + timedelta(minutes=119))) == []
    assert len(passed(decide(nodes, now=NOW + timedelta(minutes=121)))) == 2


def test_more_nodes_that_became_silent_together_are_doubted_until_they_report() -> None:
    nodes = fleet(5000)
    nodes[:3] = [mute(node) for node in nodes[:3]]
    assert passed(decide(nodes, now=NOW + timedelta(days=3))) == []


def with_testimony(node: Node, *, alive: bool | None) -> Node:
    testimony = ATestimony(witness="provider", alive=alive, reason="status checks", since=NOW)
    return evolve(node, testimonies=(*node.testimonies, testimony))


def test_a_machine_that_a_witness_proves_dead_is_replaced_during_an_outage() -> None:
    nodes = [mute(node) for node in fleet(100)]
    nodes[7] = with_testimony(nodes[7], alive=False)
    nodes[8] = with_testimony(nodes[8], alive=None)
    nodes[9] = with_testimony(with_testimony(nodes[9], alive=False), alive=True)
    assert passed(decide(nodes)) == ["training-7"]


def test_a_node_that_fell_silent_with_one_that_was_replaced_since_is_doubted() -> None:
    nodes = fleet(288)
    nodes[0] = evolve(
        with_testimony(mute(nodes[0]), alive=False),
        phase=Phase.GONE,
        acted_at=NOW,
        retiring=Retirement(reason="dead"),
    )
    nodes[1] = mute_since(nodes[1], NOW - timedelta(minutes=3))
    assert passed(decide(nodes, now=NOW + timedelta(hours=1), short_of_nodes=False)) == []
    later = decide(nodes, now=NOW + timedelta(hours=2), short_of_nodes=False)
    assert passed(later) == ["training-1"]


def test_a_node_that_fell_silent_when_another_machine_ended_is_doubted() -> None:
    nodes = fleet(288)
    ended = evolve(
        nodes[0],
        phase=Phase.GONE,
        since=NOW - timedelta(minutes=9),
        retiring=Retirement(reason="the provider ended the machine"),
    )
    nodes[1] = mute_since(nodes[1], NOW - timedelta(minutes=10))
    assert passed(decide([ended, *nodes[1:]], short_of_nodes=False)) == []
    decided = evolve(ended, retiring=Retirement(reason="surplus", decided_at=NOW))
    assert passed(decide([decided, *nodes[1:]], short_of_nodes=False)) == ["training-1"]


def test_a_node_that_fell_silent_with_one_that_reports_again_is_doubted() -> None:
    nodes = fleet(288)
    stopped_at = NOW - timedelta(minutes=20)
    nodes[0] = evolve(nodes[0], past_silences=(Silence(since=stopped_at, until=NOW),))
    nodes[1] = mute_since(nodes[1], stopped_at + timedelta(seconds=20))
    assert passed(decide(nodes)) == []
    assert passed(decide(nodes, now=stopped_at + timedelta(hours=3))) == ["training-1"]


@pytest.mark.parametrize("place", ["rack", "nvlink_domain", "switch", "network_path"])
def test_two_nodes_of_a_rack_that_stop_together_are_doubted_until_they_report(place: str) -> None:
    nodes = fleet(288)
    nodes[:18] = [evolve(node, labels={place: "r1"}) for node in nodes[:18]]
    stopped_at, a_day = NOW - timedelta(minutes=20), NOW + timedelta(days=1)
    nodes[1] = mute_since(nodes[1], stopped_at + timedelta(seconds=20))
    returned = evolve(nodes[0], past_silences=(Silence(since=stopped_at, until=NOW),))
    assert passed(decide([returned, *nodes[1:]], now=a_day)) == []
    assert passed(decide([mute_since(nodes[0], stopped_at), *nodes[1:]], now=a_day)) == []
    assert passed(decide(nodes, now=a_day)) == ["training-1"]


def test_two_nodes_of_a_power_feed_that_stop_together_are_doubted_for_two_hours() -> None:
    nodes = fleet(288)
    nodes[:18] = [evolve(node, labels={"power_feed": "f1"}) for node in nodes[:18]]
    stopped_at = NOW - timedelta(minutes=20)
    nodes[0] = evolve(nodes[0], past_silences=(Silence(since=stopped_at, until=NOW),))
    nodes[1] = mute_since(nodes[1], stopped_at)
    assert passed(decide(nodes, now=NOW + timedelta(hours=1))) == []
    assert passed(decide(nodes, now=NOW + timedelta(hours=2))) == ["training-1"]


def test_a_node_is_doubted_though_the_one_that_stopped_with_it_stopped_again_since() -> None:
    nodes = fleet(288)
    first, later = NOW - timedelta(hours=9), NOW - timedelta(hours=3)
    past = [Silence(since=x, until=x + timedelta(minutes=5)) for x in (first, later)]
    nodes[0] = evolve(nodes[0], labels={"rack": "r1"}, past_silences=tuple(past))
    nodes[1] = mute_since(evolve(nodes[1], labels={"rack": "r1"}), first)
    assert passed(decide(nodes)) == []
    nodes[0] = evolve(nodes[0], past_silences=(past[1],))
    assert passed(decide(nodes)) == ["training-1"]


def test_a_node_that_stops_twice_is_no_outage() -> None:
    nodes = fleet(288)
    first = NOW - timedelta(minutes=30)
    past = Silence(since=first, until=first + timedelta(minutes=2))
    node = evolve(nodes[1], labels={"rack": "r1"}, past_silences=(past,))
    nodes[1] = mute_since(node, first + timedelta(minutes=5))
    assert passed(decide(nodes)) == ["training-1"]


def test_short_silences_that_are_common_do_not_excuse_a_dead_node_elsewhere() -> None:
    nodes = fleet(288)
    for i in range(2, 32):
        since = NOW - timedelta(minutes=30) * (i - 1)
        past = Silence(since=since, until=since + timedelta(minutes=4))
        nodes[i] = evolve(nodes[i], past_silences=(past,))
    nodes[1] = mute_since(nodes[1], NOW - timedelta(minutes=20))
    assert passed(decide(nodes)) == ["training-1"]


def test_a_machine_that_a_witness_proves_alive_is_not_replaced_for_silence() -> None:
    nodes = fleet(100)
    nodes[7] = with_testimony(mute(nodes[7]), alive=True)
    (held,) = [verdict.held for verdict in decide(nodes).values()]
    assert held is not None
    assert held.by is DeferredBy.SILENCE
    assert held.because == "its agent does not report, but provider: status checks"


@pytest.mark.parametrize(("silent_nodes", "of"), [(2, 3), (3, 20), (11, 100), (100, 100)])
def test_no_node_is_replaced_for_silence_while_many_are_silent(silent_nodes: int, of: int) -> None:
    nodes = [mute(x) if i < silent_nodes else x for i, x in enumerate(fleet(of))]
    verdicts = decide(nodes)
    assert passed(verdicts) == []
    assert {v.held.by for v in verdicts.values() if v.held} == {DeferredBy.SILENCE}
    (because,) = {v.held.because for v in verdicts.values() if v.held}
    assert because.startswith("unreachable: nodes of pool training stopped reporting together")


def test_a_large_share_of_silent_nodes_is_an_outage_even_if_they_stopped_one_by_one() -> None:
    nodes = fleet(100)
    for i in range(11):
        nodes[i] = mute_since(nodes[i], NOW - timedelta(hours=12 - i))
    assert passed(decide(nodes)) == []
    more = [a_node(f"more-{i}", "training") for i in range(20)]
    assert len(passed(decide([*nodes, *more]))) > 0


def test_a_machine_that_is_proven_dead_is_no_part_of_an_outage() -> None:
    nodes = [mute(node) for node in fleet(100)]
    stats = DomainStats(nodes)
    outages, attributes = find_outages(stats, now=NOW), stats.attributes[nodes[0].id]
    assert outage_of(nodes[0], attributes, outages) is not None
    assert outage_of(with_testimony(nodes[0], alive=False), attributes, outages) is None


def test_a_silent_zone_defers_the_nodes_of_every_pool_in_it() -> None:
    def at(node: Node, zone: str) -> Node:
        assert node.launch is not None
        launch = evolve(node.launch, offering=evolve(node.launch.offering, zone=zone))
        return evolve(node, launch=launch)

    far = [at(a_node(f"p{i}-{j}", f"p{i}"), "a") for i in range(20) for j in range(20)]
    near = [mute(at(a_node(f"p{i}-20", f"p{i}"), "b")) for i in range(20)]
    verdicts = decide([*far, *near])
    assert passed(verdicts) == []
    (because,) = {v.held.because for v in verdicts.values() if v.held}
    assert because.startswith(
        "unreachable: nodes of zone sim/region-1/b stopped reporting together"
    )


def sold_by(provider: str, pool: int, number: int) -> Node:
    node = a_node(f"p{pool}-{number}", f"p{pool}")
    assert node.launch is not None
    place = evolve(
        node.launch.offering, provider=ProviderName(provider), region=f"r{pool}-{number}"
    )
    return evolve(node, launch=evolve(node.launch, offering=place))


@pytest.mark.parametrize(
    ("sellers", "scope"), [(1, "provider cloud-0"), (20, "the fleet")], ids=["provider", "fleet"]
)
def test_silence_across_pools_and_zones_is_an_outage_of_their_provider_or_the_fleet(
    sellers: int, scope: str
) -> None:
    nodes = [sold_by(f"cloud-{i % sellers}", i, j) for i in range(20) for j in range(8)]
    last = [mute(sold_by(f"cloud-{i % sellers}", i, 8)) for i in range(20)]
    verdicts = decide([*nodes, *last])
    assert passed(verdicts) == []
    (because,) = {v.held.because for v in verdicts.values() if v.held}
    assert because.startswith(f"unreachable: nodes of {scope} stopped reporting together")


def test_a_silent_node_that_is_broken_as_well_is_replaced_during_an_outage() -> None:
    nodes = [mute(x) if i < 50 else x for i, x in enumerate(fleet(100))]
    nodes[7] = faulty(nodes[7])
    assert passed(decide(nodes)) == ["training-7"]


@pytest.mark.parametrize(
    ("label", "value"), [("rack", "r7"), ("nvlink_domain", "d1")], ids=["rack", "nvlink"]
)
def test_a_rack_that_fails_as_a_whole_is_not_replaced_as_a_whole(label: str, value: str) -> None:
    rack = [faulty(node) for node in fleet(18, labels={label: value})]
    others = [a_node(f"training-{i}") for i in range(18, 1000)]
    assert len(passed(decide([*rack, *others]))) == 4


def test_the_budget_of_a_rack_does_not_shrink_with_the_node_that_it_lost() -> None:
    rack = [a_node(f"training-{i}", labels={"rack": "r1"}) for i in range(8)]
    others = [a_node(f"training-{i}") for i in range(8, 100)]
    rack[0] = evolve(acted_on("training-0", minutes_ago=5), labels={"rack": "r1"})
    rack[1] = faulty(rack[1], code=48)
    assert passed(decide([*rack, *others])) == ["training-1"], "the second of 25 % of eight"
    elsewhere = a_node("training-100", replaces=rack[0].id)
    assert passed(decide([*rack, *others, elsewhere])) == ["training-1"]
    rack[2] = faulty(rack[2], code=95)
    assert len(passed(decide([*rack, *others]))) == 1


def test_small_pools_do_not_wait_for_one_another() -> None:
    nodes = [
        node
        for pool in ("a", "b", "c")
        for node in (faulty(a_node(f"{pool}-0", pool)), a_node(f"{pool}-1", pool))
    ]
    assert len(passed(decide(nodes))) == 3


def test_a_driver_that_pools_share_is_one_domain() -> None:
    nodes = each_faulty(
        [a_node(f"p{i}-0", f"p{i}", traits={DRIVER: trait("550")}) for i in range(10)]
    )
    budgets = {Domain.DRIVER: DomainBudget(nodes_min=2, share_max=0.0)}
    assert len(passed(decide(nodes, settings=GovernorSettings(budgets=budgets)))) == 2


def test_a_released_action_is_carried_out() -> None:
    held = Deferred(
        action="replace",
        reason="unhealthy",
        because="budget",
        by=DeferredBy.BUDGET,
        since=NOW,
        released="looked at it",
    )
    leaving = evolve(
        faulty(a_node("training-0")), acted_at=NOW, retiring=Retirement(reason="unhealthy")
    )
    waiting = evolve(faulty(a_node("training-1")), held=held)
    assert passed(decide([leaving, waiting])) == ["training-1"]


# Suspected changes


def upgraded(count: int, *, of: int, **more: Trait) -> list[Node]:
    new = trait("570", since=NOW - timedelta(minutes=30), before="550")
    old = trait("550")
    return [
        faulty(a_node(f"training-{i}", traits={DRIVER: new, **more}), code=119)
        if i < count
        else a_node(f"training-{i}", traits={DRIVER: old})
        for i in range(of)
    ]


def test_a_fault_that_follows_a_change_stops_automation_and_names_the_change() -> None:
    verdicts = decide(upgraded(20, of=288))
    assert passed(verdicts) == []
    (because,) = {v.held.because for v in verdicts.values() if v.held}
    assert because == (
        "xid 119 on nodes with driver 570 (was 550): 20 of 20, and 0 of 268 others; "
        "driver suspected, not the nodes"
    )


def test_a_suspected_change_defers_every_affected_node() -> None:
    nodes = upgraded(20, of=288)
    assert all(v.held and v.held.by is DeferredBy.CHANGE for v in decide(nodes).values())


def test_the_third_node_with_a_new_driver_makes_the_driver_a_suspect() -> None:
    assert len(passed(decide(upgraded(2, of=288)))) == 2
    verdicts = decide(upgraded(3, of=288))
    assert passed(verdicts) == []
    assert {v.held.by for v in verdicts.values() if v.held} == {DeferredBy.CHANGE}


def test_nodes_that_were_replaced_for_the_fault_count_as_evidence() -> None:
    nodes = upgraded(3, of=288)
    nodes[:2] = [
        evolve(
            node,
            phase=Phase.GONE,
            acted_at=NOW - timedelta(hours=2),
            retiring=Retirement(reason="unhealthy"),
        )
        for node in nodes[:2]
    ]
    verdicts = decide(nodes, short_of_nodes=False)
    assert passed(verdicts) == []
    (held,) = [v.held for v in verdicts.values() if v.held]
    assert "driver 570 (was 550): 3 of 3, and 0 of 285 others" in held.because


def test_a_fault_on_far_more_nodes_than_fail_independently_makes_the_check_a_suspect() -> None:
    nodes = fleet(288, traits={DRIVER: trait("550")})
    nodes[:4] = [faulty(node) for node in nodes[:4]]
    assert len(passed(decide(nodes))) == 4
    nodes[4:60] = [faulty(node) for node in nodes[4:60]]
    verdicts = decide(nodes)
    assert passed(verdicts) == []
    (because,) = {v.held.because for v in verdicts.values() if v.held}
    assert because == (
        "xid 79 on 60 of 288 nodes within 1 h, more than fail independently; "
        "the check or a shared cause suspected, not the nodes"
    )


def test_a_fleet_whose_machines_fail_often_is_still_healed() -> None:
    # Ten times the worst published rate, all with one code: a bad batch, and no storm.
    nodes = fleet(1000)
    for i in range(9):
        nodes[i] = faulty(nodes[i], since=NOW - timedelta(minutes=6 * i))
    assert len(passed(decide(nodes))) == 9


def test_a_pool_whose_machines_fail_more_often_than_others_is_still_healed() -> None:
    nodes = [*fleet(200), *fleet(800, pool="other")]
    for i in range(15):
        nodes[i] = faulty(nodes[i], since=NOW - timedelta(minutes=90 * i))
    decisions = decide(nodes)
    assert len(passed(decisions)) == 7, "the budget of the pool, less what is kept"
    assert not any(v.held.by is DeferredBy.CHANGE for v in decisions.values() if v.held)


def test_faults_of_one_day_that_hardware_shows_by_itself_are_no_common_cause() -> None:
    # Seven a day in a thousand nodes is the worst published rate.
    nodes = fleet(1000)
    for i in range(7):
        nodes[i] = faulty(nodes[i], since=NOW - timedelta(hours=3 * i))
    assert len(passed(decide(nodes))) == 7


def test_a_change_that_came_to_every_node_is_not_suspected_for_a_few() -> None:
    rolled_out = {DRIVER: trait("570.86", NOW - timedelta(hours=1), "550.90")}
    nodes = fleet(100, traits=rolled_out)
    nodes[:4] = [faulty(node) for node in nodes[:4]]
    assert find_causes(DomainStats(nodes), SETTINGS, now=NOW) == {}
    # More than hardware shows by itself, and less than a bad driver for all would break.
    nodes[:30] = [faulty(node) for node in nodes[:30]]
    causes = find_causes(DomainStats(nodes), SETTINGS, now=NOW).get("xid 79", ())
    assert not any(cause.suspects for cause in causes)
    nodes[:60] = [faulty(node) for node in nodes[4:64]]
    (cause,) = find_causes(DomainStats(nodes), SETTINGS, now=NOW)["xid 79"]
    assert cause.suspects == ("driver=570.86",)


def test_an_old_change_that_every_node_has_explains_nothing() -> None:
    old = trait("570", since=NOW - timedelta(days=3), before="550")
    nodes = [
        faulty(node) if i < 60 else node for i, node in enumerate(fleet(288, traits={DRIVER: old}))
    ]
    because = {v.held.because for v in decide(nodes).values() if v.held}
    assert not any("driver" in words for words in because)


@pytest.mark.parametrize("share", [0.5, 1.0], ids=["half of the fleet", "the whole fleet"])
def test_a_rack_that_died_after_a_good_rollout_is_suspected_and_not_the_rollout(
    share: float,
) -> None:
    new = trait("570", since=NOW - timedelta(hours=1), before="550")
    nodes = [
        a_node(
            f"training-{i}",
            labels={"rack": f"r{i // 18}"},
            traits={DRIVER: new if i % 288 < 18 or i % 10 < 10 * share else trait("550")},
        )
        for i in range(288)
    ]
    nodes[:18] = [faulty(node, code=64) for node in nodes[:18]]
    verdicts = decide(nodes)
    assert len(passed(verdicts)) == 4, "the budget of the rack"
    held = {v.held.by for v in verdicts.values() if v.held}
    assert held == {DeferredBy.BUDGET}
    for verdict in verdicts.values():
        assert "rack sim/region-1/r0: 18 of 18, and 0 of 270 others" in verdict.evidence
        assert "driver" not in verdict.evidence


def in_rack(node: Node, rack: int) -> Node:
    return evolve(node, labels={"rack": f"r{rack}"})


def test_more_false_alarms_in_one_rack_than_elsewhere_do_not_clear_the_check() -> None:
    nodes = [in_rack(node, i // 20) for i, node in enumerate(fleet(200))]
    ill = {i for i in range(200) if i // 20 == 3 or i % 4 == 0}
    nodes = [faulty(node) if i in ill else node for i, node in enumerate(nodes)]
    (cause,) = find_causes(DomainStats(nodes), SETTINGS, now=NOW)["xid 79"]
    assert "the check or a shared cause suspected" in cause.words
    assert passed(decide(nodes)) == []


def test_more_nodes_must_share_one_of_many_racks_before_it_is_suspected() -> None:
    nodes = [in_rack(node, i // 18) for i, node in enumerate(fleet(288))]
    nodes[:3] = [faulty(node) for node in nodes[:3]]
    assert find_causes(DomainStats(nodes), SETTINGS, now=NOW) == {}
    nodes[3] = faulty(nodes[3])
    (cause,) = find_causes(DomainStats(nodes), SETTINGS, now=NOW)["xid 79"]
    assert cause.words.endswith("4 of 18, and 0 of 270 others; rack suspected")


def test_machines_behind_a_switch_that_failed_are_kept() -> None:
    nodes = [a_node(f"training-{i}", labels={"switch": f"s{i // 18}"}) for i in range(288)]
    down = Condition(
        check="infiniband/mlx5_0",
        health=Health.UNHEALTHY,
        reason="the port is down",
        since=NOW,
        fatal=True,
    )
    nodes[:18] = [evolve(x, conditions=(down,), health=Health.UNHEALTHY) for x in nodes[:18]]
    verdicts = decide(nodes)
    assert passed(verdicts) == []
    (because,) = {v.held.because for v in verdicts.values() if v.held}
    assert "switch sim/region-1/s0: 18 of 18" in because


def test_two_bad_drivers_with_the_same_fault_are_both_named() -> None:
    drivers = ["570", "580", "550"]
    nodes = [
        a_node(
            f"training-{i}",
            traits={DRIVER: trait(drivers[min(i // 40, 2)], NOW - timedelta(hours=1))},
        )
        for i in range(288)
    ]
    nodes[:80] = [faulty(node, code=119) for node in nodes[:80]]
    because = {v.held.because for v in decide(nodes).values() if v.held}
    assert len(because) == 2
    assert any("driver 570: 40 of 40" in words for words in because)
    assert any("driver 580: 40 of 40" in words for words in because)


def test_faults_that_few_nodes_show_are_acted_on_first() -> None:
    nodes = fleet(200)
    nodes[:4] = [faulty(node, since=NOW - timedelta(hours=1)) for node in nodes[:4]]
    nodes[150] = faulty(nodes[150], code=48)
    assert passed(decide(nodes))[0] == "training-150"


def test_a_third_of_the_budget_is_kept_for_faults_that_few_nodes_show() -> None:
    nodes = fleet(288)
    for i in range(40):  # Too slow for the check to be a suspect.
        nodes[i] = faulty(nodes[i], since=NOW - timedelta(hours=i + 2))
    assert len(passed(decide(nodes))) == 10, "of 14"
    nodes[200:204] = each_faulty(nodes[200:204])
    assert set(passed(decide(nodes))) > {f"training-{i}" for i in range(200, 204)}


def test_other_faults_during_a_bad_driver_rollout_are_still_acted_on() -> None:
    nodes = upgraded(200, of=288)
    nodes[3] = faulty(nodes[3], code=79)
    nodes[250] = faulty(nodes[250], code=48)
    assert passed(decide(nodes)) == ["training-250", "training-3"]


def test_the_change_that_separates_faulty_from_sound_nodes_is_named() -> None:
    image = trait("img-2", since=NOW - timedelta(minutes=40), before="img-1")
    nodes = [evolve(node, traits={**node.traits, IMAGE: image}) for node in upgraded(20, of=288)]
    (because,) = {v.held.because for v in decide(nodes).values() if v.held}
    assert "driver 570" in because
    assert "img-2" not in because


def test_changes_that_came_together_are_named_together() -> None:
    agent = trait("0.2", since=NOW - timedelta(minutes=30), before="0.1")
    nodes = upgraded(20, of=288, **{AGENT: agent})
    (because,) = {v.held.because for v in decide(nodes).values() if v.held}
    assert "driver 570 (was 550), agent 0.2 (was 0.1): 20 of 20" in because


def test_the_image_is_suspected_if_new_nodes_with_it_fail() -> None:
    old = fleet(100, traits={IMAGE: trait("img-1")})
    new = [
        faulty(a_node(f"training-{i}", traits={IMAGE: trait("img-2", NOW - timedelta(hours=1))}))
        for i in range(100, 110)
    ]
    (because,) = {v.held.because for v in decide([*old, *new]).values() if v.held}
    assert "image img-2" in because


def test_new_rules_are_suspected_for_the_faults_they_find() -> None:
    nodes = [faulty(node) if i < 60 else node for i, node in enumerate(fleet(288))]
    policy = PolicyChange(revision="7", since=NOW - timedelta(minutes=1))
    (cause,) = find_causes(DomainStats(nodes), SETTINGS, policy=policy, now=NOW)["xid 79"]
    assert cause.attributes == (("policy", "7"),)
    assert cause.excuses


def held_back(nodes: list[Node], suspects: tuple[str, ...] = ("driver=570",)) -> list[Node]:
    """Return the nodes after the governor has deferred those with a fault."""
    held = Deferred(
        action="replace",
        reason="x",
        because="driver 570 (was 550) suspected",
        by=DeferredBy.CHANGE,
        since=NOW,
        suspects=suspects,
    )
    return [
        evolve(node, held=evolve(held, faults=tuple(fingerprints(node))))
        if node.conditions
        else node
        for node in nodes
    ]


def rolled_back(node: Node, *, seen_again: bool = False) -> Node:
    """Return a node with the old driver before the boot check of its new boot."""
    at = NOW + timedelta(hours=2)
    traits = {DRIVER: node.traits[DRIVER].followed_by("550", at=at)}
    conditions = tuple(evolve(c, boot_id="new" if seen_again else "old") for c in node.conditions)
    return evolve(node, traits=traits, conditions=conditions, boot_id="new", booted_at=at)


def test_a_suspicion_lasts_while_a_deferred_node_shows_the_fault() -> None:
    assert passed(decide(held_back(upgraded(2, of=50)))) == []
    assert len(passed(decide(upgraded(2, of=50)))) == 2, "never suspected"


def test_a_suspicion_ends_with_the_last_deferred_node_that_is_there() -> None:
    first, second, *sound = upgraded(2, of=50)
    (gone,) = held_back([first])
    gone = evolve(gone, phase=Phase.GONE, acted_at=NOW - timedelta(days=2))
    assert passed(decide([gone, second, *sound], short_of_nodes=False)) == [second.id]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.0])
def test_a_driver_stays_suspected_during_its_rollback(share: float) -> None:
    nodes = held_back(upgraded(40, of=288))
    nodes = [rolled_back(x) if i < 40 * share else x for i, x in enumerate(nodes)]

    verdicts = decide(nodes, now=NOW + timedelta(hours=2))

    assert passed(verdicts) == []
    (because,) = {v.held.because for v in verdicts.values() if v.held}
    assert "driver 570 (was 550)" in because, "not the one that was put back"


def test_a_fault_that_persists_after_the_rollback_belongs_to_the_machine() -> None:
    nodes = held_back(upgraded(40, of=288))
    nodes[:2] = [rolled_back(node, seen_again=True) for node in nodes[:2]]

    verdicts = decide(nodes, now=NOW + timedelta(hours=2))

    assert passed(verdicts) == ["training-0", "training-1"]


def test_a_node_that_never_had_the_change_is_not_excused_by_it() -> None:
    nodes = upgraded(40, of=288)
    nodes[200] = faulty(nodes[200], code=119)
    assert passed(decide(nodes)) == ["training-200"]


def test_another_fault_of_a_deferred_node_is_not_excused() -> None:
    nodes = held_back(upgraded(40, of=288))
    nodes[7] = faulty(nodes[7], code=79)
    assert passed(decide(nodes)) == ["training-7"]


def silent(node: Node, since: datetime) -> Node:
    silence = Condition(
        check=HEARTBEAT, health=Health.UNHEALTHY, reason="not heard of", since=since, times=3
    )
    return evolve(node, conditions=(*node.conditions, silence))


def test_a_node_broken_by_a_change_may_be_silent_during_a_reboot() -> None:
    nodes = held_back(upgraded(40, of=288))
    nodes[0] = silent(nodes[0], since=NOW)
    assert passed(decide(nodes, now=NOW + timedelta(minutes=29))) == []
    assert passed(decide(nodes, now=NOW + timedelta(minutes=31))) == ["training-0"]


def test_silence_alone_is_not_excused_by_a_change_of_other_nodes() -> None:
    nodes = held_back(upgraded(40, of=288))
    dead = silent(evolve(nodes[200], health=Health.UNHEALTHY), since=NOW)
    assert passed(decide([*nodes[:200], dead, *nodes[201:]])) == ["training-200"]


def test_rules_stay_suspected_after_their_rollback() -> None:
    bad = PolicyChange(revision="bad", since=NOW - timedelta(minutes=1))
    good = PolicyChange(revision="good", since=NOW + timedelta(hours=1), past=bad)
    nodes = [faulty(node) if i < 60 else node for i, node in enumerate(fleet(288))]
    nodes = held_back(nodes, suspects=("policy=bad",))
    (cause,) = find_causes(DomainStats(nodes), SETTINGS, policy=good, now=NOW)["xid 79"]
    assert cause.attributes == (("policy", "bad"),)
