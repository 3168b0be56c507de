"""Peers: which nodes probe a silent one, and what their results prove."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from datetime import datetime, timedelta

import pytest

from navarch.core.health import HEARTBEAT, CheckResult, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node, Phase, Silence
from navarch.core.records import evolve
from navarch.core.witness import Reach, Testimony
from navarch.fleet.disruption.governor.attributes import Attribute, attributes_of
from navarch.fleet.disruption.governor.domain_stats import DomainStats
from navarch.fleet.peers import (
    DOUBTED_FOR,
    NAME,
    TARGETS_MAX,
    Peers,
    Probe,
    ProbeResult,
    address_of,
    can_probe,
    judge,
    unexplained_silences,
    with_patience,
)
from navarch.fleet.verdicts import with_results
from navarch.ports.witness import Observation
from navarch.testing.worlds import H100, NOW, a_node

SILENT = CheckResult(check=HEARTBEAT, health=Health.UNHEALTHY, reason="no report")
LOST, GOOD = Reach.NO_RESPONSE, Reach.CONNECTED


def node(name: str, rack: str = "r1", *, address: str | None = None) -> Node:
    number = sum(name.encode()) * 7 + len(name)
    made = a_node(name, labels={"rack": rack} if rack else {}, probes=True)
    own = f"10.0.{number // 250}.{number % 250 + 1}" if address is None else address
    return evolve(made, health=Health.HEALTHY, address=own)


def silent(name: str, rack: str = "r1", *, address: str | None = None) -> Node:
    return with_results(node(name, rack, address=address), [SILENT], now=NOW)[0]


def peers_of(nodes: Sequence[Node], others: Sequence[Node] = ()) -> Peers:
    addresses = Counter(address_of(each) for each in (*nodes, *others))
    return Peers(nodes, {each.id: attributes_of(each) for each in nodes}, addresses)


def planned(target: Node, nodes: Sequence[Node], **given: object) -> list[Probe]:
    load: Mapping[NodeId, int] = given.get("load", {})  # type: ignore[assignment]
    avoided: Set[NodeId] = given.get("avoided", set())  # type: ignore[assignment]
    return peers_of(nodes, [target]).plan([target], load, avoided)


FLEET = [node(f"near-{n}") for n in range(5)] + [node(f"far-{n}", "r2") for n in range(5)]


def test_nodes_of_the_same_rack_and_of_others_probe_a_silent_node() -> None:
    probes = planned(silent("x"), FLEET)
    assert sorted(probe.peer.partition("-")[0] for probe in probes) == ["far"] * 2 + ["near"] * 3
    assert all(probe.is_near == probe.peer.startswith("near") for probe in probes)
    controls = {address_of(each): each.id for each in FLEET}
    for probe in probes:
        assert controls[probe.control].startswith("near"), "what is compared is in the same place"
        assert controls[probe.control] != probe.peer


def test_the_same_input_gives_the_same_plan() -> None:
    assert planned(silent("x"), FLEET) == planned(silent("x"), FLEET[::-1])


def test_a_node_of_another_network_probes_nothing() -> None:
    elsewhere = evolve(H100, region="region-2")
    other = node("y")
    assert other.launch is not None
    moved = evolve(other, launch=evolve(other.launch, offering=elsewhere))
    assert planned(silent("x"), [moved]) == []


def test_the_compared_node_is_of_the_same_pool() -> None:
    others = [evolve(each, pool=PoolName("other")) for each in FLEET]
    assert {probe.control for probe in planned(silent("x"), others)} == {""}


def test_the_load_is_spread_and_bounded() -> None:
    crowd = [silent(f"s-{n}", address=f"10.9.{n // 200}.{n % 200 + 1}") for n in range(40)]
    probes = peers_of(FLEET, crowd).plan(crowd, {}, set())
    load = Counter(probe.peer for probe in probes)
    assert max(load.values()) == TARGETS_MAX
    busy = dict.fromkeys([each.id for each in FLEET], TARGETS_MAX)
    assert planned(silent("x"), FLEET, load=busy) == []


def test_nodes_that_returned_no_result_come_last() -> None:
    unresponsive = {NodeId(f"near-{n}") for n in range(3)}
    probes = planned(silent("x"), FLEET, avoided=unresponsive)
    asked = {probe.peer for probe in probes}
    assert {NodeId("near-3"), NodeId("near-4")} <= asked


@pytest.mark.parametrize(
    "address",
    ["", "not-an-address", "127.0.0.1", "::1", "169.254.169.254", "224.0.0.1", "0.0.0.0"],
)
def test_an_address_that_is_no_other_machines_is_not_probed(address: str) -> None:
    assert address_of(node("x", address=address)) == ""
    assert planned(silent("x", address=address), FLEET) == []


def test_the_address_from_the_provider_comes_before_that_of_the_agent() -> None:
    claimed = node("x", address="10.0.0.66")
    assert address_of(claimed) == "10.0.0.66"
    assert claimed.launch is not None
    listed = evolve(claimed, launch=evolve(claimed.launch, private_address="10.1.1.1"))
    assert address_of(listed) == "10.1.1.1"


def test_an_address_that_two_nodes_have_is_not_probed() -> None:
    target, twin = silent("x"), node("twin", address=address_of(node("x")))
    assert peers_of(FLEET, [target, twin]).plan([target], {}, set()) == []


@pytest.mark.parametrize(
    "change",
    [{"probes": False}, {"health": Health.UNHEALTHY}, {"health": Health.UNKNOWN}, {"launch": None}],
)
def test_only_healthy_nodes_that_can_probe_do_so(change: dict[str, object]) -> None:
    assert can_probe(node("x"))
    assert not can_probe(evolve(node("x"), **change))  # type: ignore[arg-type]


# What the results prove

TARGET = silent("x")
ALL_LOST = [("near-1", LOST, GOOD), ("near-2", LOST, GOOD), ("far-1", LOST, GOOD)]

Row = tuple[str, Reach, Reach]


def judged(
    rows: Sequence[Row],
    *,
    target: Node = TARGET,
    silences: Mapping[Attribute, Set[NodeId]] | None = None,
) -> Observation:
    results = [
        ProbeResult(
            probe=Probe(
                peer=NodeId(name),
                target=target.id,
                address="10.0.0.9",
                control="10.0.0.1",
                is_near=name.startswith("near"),
            ),
            target=reach,
            control=control,
        )
        for name, reach, control in rows
    ]
    return judge(target, results, silences or {}, port=22)


def test_a_machine_that_nodes_near_it_and_elsewhere_cannot_connect_to_is_dead() -> None:
    found = judged(ALL_LOST)
    assert found.alive is False
    assert found.reason == (
        "no node of rack sim/region-1/r1 or elsewhere can connect to it (port 22), "
        "but to others there"
    )
    assert judged([(name, Reach.NO_ROUTE, GOOD) for name, _, _ in ALL_LOST]).alive is False


def test_one_greeting_proves_life() -> None:
    assert judged([*ALL_LOST, ("far-2", Reach.GREETED, LOST)]).alive is True


@pytest.mark.parametrize("response", [Reach.CONNECTED, Reach.REFUSED])
def test_a_kernel_that_responds_proves_neither_life_nor_death(response: Reach) -> None:
    found = judged([*ALL_LOST, ("far-2", response, LOST)])
    assert found.alive is None
    assert found.reason == "its kernel responds to other nodes, but no program does (port 22)"


@pytest.mark.parametrize(
    "rows",
    [
        [],
        ALL_LOST[:2],
        ALL_LOST[1:],
        [*ALL_LOST[1:], ("far-2", LOST, GOOD)],
        [(name, reach, LOST) for name, reach, _ in ALL_LOST],
        [(name, reach, Reach.FAILED) for name, reach, _ in ALL_LOST],
        [*ALL_LOST[:2], ("far-1", LOST, LOST)],
        [("near-1", LOST, LOST), *ALL_LOST[1:]],
        [(name, Reach.FAILED, GOOD) for name, _, _ in ALL_LOST],
        [("near-1", Reach.FAILED, GOOD), *ALL_LOST[1:]],
    ],
)
def test_anything_less_proves_nothing(rows: Sequence[Row]) -> None:
    assert judged(rows).alive is None


def test_a_refused_connection_to_the_compared_node_is_a_response() -> None:
    assert judged([(name, reach, Reach.REFUSED) for name, reach, _ in ALL_LOST]).alive is False


def test_a_node_without_a_known_rack_is_never_dead() -> None:
    assert judged(ALL_LOST, target=silent("x", rack="")).alive is None


def test_a_node_is_not_dead_while_others_near_it_are_silent() -> None:
    rack = ("rack", "sim/region-1/r1")
    assert judged(ALL_LOST, silences={rack: {TARGET.id}}).alive is False
    assert judged(ALL_LOST, silences={rack: {TARGET.id, NodeId("y")}}).alive is None
    assert judged(ALL_LOST, silences={("rack", "r9"): {NodeId("y")}}).alive is False


def unexplained(stopped: Sequence[Node], *, now: datetime = NOW) -> Set[NodeId]:
    """Return what the silences of the nodes of one rack show, as the index holds them."""
    domains = DomainStats(stopped)
    in_rack = domains.stopped["rack", "sim/region-1/r1"].values()
    assert list(in_rack) == list(stopped)
    return unexplained_silences(in_rack, domains.showing[HEARTBEAT], now=now)


def proof_of(witness: str, *, alive: bool = False) -> tuple[Testimony, ...]:
    return (Testimony(witness=witness, alive=alive, reason="so", since=NOW),)


def test_only_a_proof_from_elsewhere_explains_a_silence() -> None:
    plain = silent("y")
    assert unexplained([plain]) == {"y"}
    assert unexplained([evolve(plain, testimonies=proof_of("provider/sim"))]) == set()
    assert unexplained([evolve(plain, testimonies=proof_of(NAME))]) == {"y"}


def test_a_silent_node_that_works_is_no_evidence_against_the_network() -> None:
    works = evolve(silent("y"), testimonies=proof_of(NAME, alive=True))
    assert unexplained([works]) == set()


def test_a_node_that_left_silent_counts_for_two_hours() -> None:
    gone = evolve(silent("y"), phase=Phase.GONE)
    assert unexplained([gone], now=NOW + DOUBTED_FOR) == {"y"}
    assert unexplained([gone], now=NOW + 2 * DOUBTED_FOR) == set()


def test_a_node_that_stopped_with_another_and_came_back_is_evidence_against_the_network() -> None:
    def was_silent(since: datetime) -> Node:
        return evolve(node("y"), past_silences=(Silence(since=since, until=NOW),))

    a_day = NOW + timedelta(days=1)
    assert unexplained([silent("x"), was_silent(NOW)], now=a_day) == {"x", "y"}
    much_earlier = was_silent(NOW - timedelta(hours=1))
    assert unexplained([silent("x"), much_earlier]) == {"x"}
    gone = evolve(silent("x"), phase=Phase.GONE)
    assert unexplained([gone, was_silent(NOW)]) == {"x"}


DEAD = Observation(alive=False, reason="nobody connects")
PATIENCE = timedelta(minutes=10)


def test_a_machine_is_dead_only_after_it_could_have_rebooted() -> None:
    first = with_patience(DEAD, None, patience=PATIENCE, now=NOW)
    assert (first.alive, first.since) == (None, NOW)
    before = Testimony(witness=NAME, alive=None, reason=DEAD.reason, since=NOW)
    early = with_patience(
        DEAD, before, patience=PATIENCE, now=NOW + PATIENCE - timedelta(seconds=1)
    )
    assert early.alive is None
    late = with_patience(DEAD, before, patience=PATIENCE, now=NOW + PATIENCE)
    assert (late.alive, late.since) == (False, NOW)


def test_another_result_in_between_starts_the_patience_anew() -> None:
    before = Testimony(witness=NAME, alive=None, reason="something else", since=NOW)
    after = with_patience(DEAD, before, patience=PATIENCE, now=NOW + 2 * PATIENCE)
    assert (after.alive, after.since) == (None, NOW + 2 * PATIENCE)
