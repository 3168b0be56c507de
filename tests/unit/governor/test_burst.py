"""Bursts: actions on nodes with the same new fault wait until a common cause may show."""

from datetime import datetime, timedelta

import pytest
from governor_faults import faulty

from navarch.core.disruption import DeferredBy, GovernorSettings
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.core.witness import Testimony as ATestimony
from navarch.fleet.disruption.governor.burst import TOGETHER, WAIT, find_bursts
from navarch.fleet.disruption.governor.domain_stats import DomainStats
from navarch.fleet.disruption.governor.governor import (
    GovernorDecision,
    Obstacles,
    ProposedAction,
    govern,
)
from navarch.testing.worlds import NOW, a_node

SETTINGS = GovernorSettings()


def fleet(count: int) -> list[Node]:
    return [a_node(f"n-{i}", f"pool-{i % 50}") for i in range(count)]


def bursts_of(nodes: list[Node], now: datetime = NOW) -> frozenset[str]:
    return find_bursts(DomainStats(nodes), SETTINGS, now=now)


def decide(nodes: list[Node], now: datetime = NOW) -> dict[NodeId, GovernorDecision]:
    stats = DomainStats(nodes)
    proposals = [
        ProposedAction(node=node, action="replace", reason="unhealthy")
        for node in nodes
        if node.health is Health.UNHEALTHY and node.counts
    ]
    obstacles = Obstacles(bursts=find_bursts(stats, SETTINGS, now=now))
    decisions = govern(proposals, stats, SETTINGS, obstacles, now=now)
    return {decision.proposal.node.id: decision for decision in decisions}


def passed(decisions: dict[NodeId, GovernorDecision]) -> list[NodeId]:
    return [name for name, decision in decisions.items() if decision.held is None]


def test_two_nodes_with_the_same_fault_do_not_wait() -> None:
    nodes = fleet(100)
    nodes[:2] = [faulty(node) for node in nodes[:2]]
    assert passed(decide(nodes)) == ["n-0", "n-1"]


def test_the_third_node_with_the_same_new_fault_waits_for_two_minutes() -> None:
    nodes = fleet(100)
    nodes[:3] = [faulty(node) for node in nodes[:3]]
    decisions = decide(nodes)
    assert passed(decisions) == []
    assert {x.held.by for x in decisions.values() if x.held} == {DeferredBy.BURST}
    assert decisions[NodeId("n-0")].held is not None
    assert len(passed(decide(nodes, NOW + WAIT))) == 3


def test_a_node_that_was_replaced_for_the_fault_counts_for_the_burst() -> None:
    nodes = fleet(100)
    nodes[:3] = [faulty(node) for node in nodes[:3]]
    nodes[:2] = [evolve(node, phase=Phase.GONE, acted_at=NOW) for node in nodes[:2]]
    assert passed(decide(nodes)) == []


def test_a_node_with_a_fault_of_its_own_does_not_wait() -> None:
    nodes = fleet(100)
    nodes[:3] = [faulty(node) for node in nodes[:3]]
    nodes[0] = faulty(nodes[0], code=48)
    nodes[3] = faulty(nodes[3], code=95)
    assert sorted(passed(decide(nodes))) == ["n-0", "n-3"]


def test_a_machine_that_is_proven_dead_does_not_wait() -> None:
    nodes = fleet(100)
    nodes[:3] = [faulty(node) for node in nodes[:3]]
    dead = ATestimony(witness="provider", alive=False, reason="terminated", since=NOW)
    nodes[1] = evolve(nodes[1], testimonies=(dead,))
    assert passed(decide(nodes)) == ["n-1"]


@pytest.mark.parametrize(("nodes", "faults"), [(5000, 3), (20000, 5)])
def test_faults_that_a_large_fleet_shows_by_itself_are_no_burst(nodes: int, faults: int) -> None:
    several = fleet(nodes)
    several[:faults] = [faulty(node) for node in several[:faults]]
    assert bursts_of(several) == frozenset()
    several[: faults + 3] = [faulty(node) for node in several[: faults + 3]]
    assert bursts_of(several) == {"xid 79"}


def test_a_fault_that_is_frequent_all_day_is_no_burst() -> None:
    nodes = fleet(1000)
    for i in range(144):
        nodes[i] = faulty(nodes[i], since=NOW - timedelta(minutes=10 * i + 5))
    nodes[200:203] = [faulty(node) for node in nodes[200:203]]
    assert bursts_of(nodes) == frozenset()
    nodes[203:210] = [faulty(node) for node in nodes[203:210]]
    assert bursts_of(nodes) == {"xid 79"}


def test_a_single_earlier_node_does_not_make_a_fault_frequent() -> None:
    nodes = fleet(100)
    nodes[0] = faulty(nodes[0], since=NOW - TOGETHER - timedelta(seconds=1))
    nodes[1:4] = [faulty(node) for node in nodes[1:4]]
    assert bursts_of(nodes) == {"xid 79"}
