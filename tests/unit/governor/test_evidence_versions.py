"""Versions of checks and listeners of the server as common causes of faults."""

from datetime import timedelta

import pytest

from navarch.core.disruption import DeferredBy, GovernorSettings
from navarch.core.health import CHECK_VERSION, HEARTBEAT, CheckResult, Condition, Health
from navarch.core.instance import Inventory
from navarch.core.node import CHECK_TRAIT, LINK, Node, Trait
from navarch.core.records import evolve
from navarch.fleet.disruption.governor.attributes import attributes_of, domains_of
from navarch.fleet.disruption.governor.common_cause import find_causes
from navarch.fleet.disruption.governor.domain_stats import DomainStats
from navarch.fleet.disruption.governor.governor import Obstacles, ProposedAction, govern
from navarch.fleet.disruption.governor.outage import find_outages
from navarch.fleet.verdicts import (
    VERSIONED_CHECKS_MAX,
    traits_after,
    with_check_versions,
    with_results,
)
from navarch.testing.worlds import NOW, a_node

SETTINGS = GovernorSettings()
LONG_AGO = NOW - timedelta(days=30)
LUSTRE = f"{CHECK_TRAIT}lustre"


def versioned(version: str, *, before: str = "", since: timedelta = timedelta(0)) -> Trait:
    return Trait(value=version, since=NOW - since if before else LONG_AGO, before=before)


def failing(node: Node, check: str = "lustre", since: timedelta = timedelta(0)) -> Node:
    condition = Condition(check=check, health=Health.UNHEALTHY, reason="x", since=NOW - since)
    return evolve(node, conditions=(condition,), health=Health.UNHEALTHY)


def held_back(nodes: list[Node], *, for_silence: bool = False) -> dict[str, tuple[DeferredBy, str]]:
    """Return why actions are deferred, by node."""
    stats = DomainStats(nodes)
    wishes = [
        ProposedAction(node=node, action="replace", reason="x", for_silence=for_silence)
        for node in nodes
        if node.health is Health.UNHEALTHY
    ]
    causes = find_causes(stats, SETTINGS, now=NOW)
    obstacles = Obstacles(causes=causes, outages=find_outages(stats, now=NOW))
    decisions = govern(wishes, stats, SETTINGS, obstacles, now=NOW)
    return {x.proposal.node.id: (x.held.by, x.held.because) for x in decisions if x.held}


def fleet(trait: str, new: Trait, old: Trait, *, check: str = "lustre") -> list[Node]:
    """Return 288 nodes, 20 of them with the new value, of which four show a fault."""
    nodes = [a_node(f"n{i}", traits={trait: new if i < 20 else old}) for i in range(288)]
    nodes[:4] = [failing(node, check) for node in nodes[:4]]
    return nodes


def test_a_new_version_of_a_check_is_suspected_of_its_own_findings() -> None:
    new = versioned("2.0", before="1.9", since=timedelta(hours=1))
    held = held_back(fleet(LUSTRE, new, versioned("1.9")))
    assert len(held) == 4
    (because,) = {why for _, why in held.values()}
    assert because == (
        "lustre on nodes with version of check lustre 2.0 (was 1.9): 4 of 20, and 0 of 268 others; "
        "version of check lustre suspected, not the nodes"
    )


def test_the_version_of_a_check_explains_no_finding_of_another_check() -> None:
    new = versioned("2.0", before="1.9", since=timedelta(hours=1))
    nodes = fleet(LUSTRE, new, versioned("1.9"), check="ecc")
    assert find_causes(DomainStats(nodes), SETTINGS, now=NOW) == {}


def test_nodes_that_registered_at_one_listener_are_doubted_if_they_fall_silent_together() -> None:
    """Thirty nodes in ten pools: no pool and no zone loses enough nodes to be doubted."""
    nodes = [
        a_node(
            f"p{i % 10}-{i}",
            f"p{i % 10}",
            traits={LINK: versioned("10.0.0.5:8080/http" if i % 10 == 0 else "b:8080/http")},
        )
        for i in range(300)
    ]
    silent = [
        failing(node, HEARTBEAT, since=timedelta(minutes=20 * i)) if i % 2 else node
        for i, node in enumerate(x for x in nodes if x.pool == "p0")
    ]
    others = [evolve(x, pool=silent[0].pool) for x in nodes if x.pool != "p0"]
    held = held_back([*silent, *others], for_silence=True)
    assert {by for by, _ in held.values()} == {DeferredBy.SILENCE}
    (because,) = {why for _, why in held.values()}
    assert because.startswith(
        "unreachable: nodes of server address 10.0.0.5:8080/http stopped reporting together"
    )


@pytest.mark.parametrize("check", ["ecc", "xid/79/g"])
def test_the_listener_explains_no_fault_but_silence(check: str) -> None:
    nodes = fleet(LINK, versioned("a:1/http"), versioned("b:1/http"), check=check)
    assert find_causes(DomainStats(nodes), SETTINGS, now=NOW) == {}
    assert find_outages(DomainStats(nodes), now=NOW) == {}


def test_no_budget_limits_a_listener_or_a_version_of_a_check() -> None:
    node = a_node("n", traits={LINK: versioned("a:1/http"), LUSTRE: versioned("2.0")})
    assert {(LINK, "a:1/http"), (LUSTRE, "2.0")} <= {*attributes_of(node)}
    assert {kind for kind, _ in domains_of(node)}.isdisjoint({LINK, LUSTRE})


def result(check: str, version: str, health: Health = Health.HEALTHY) -> CheckResult:
    return CheckResult(check=check, health=health, facts={CHECK_VERSION: version})


def test_a_passing_check_records_its_version_once_and_without_an_event() -> None:
    node = evolve(a_node("n"), health=Health.HEALTHY)
    after, events = with_results(node, [result("lustre/mnt", "2.0")], now=NOW)
    assert (after.traits[LUSTRE].value, events) == ("2.0", [])
    again, events = with_results(after, [result("lustre/mnt", "2.0")], now=NOW)
    assert (again is after, events) == (True, [])
    newer, _ = with_results(after, [result("lustre/mnt", "2.1")], now=NOW)
    assert (newer.traits[LUSTRE].value, newer.traits[LUSTRE].before) == ("2.1", "2.0")


@pytest.mark.parametrize("version", ["", "2 0", "x" * 65, "2.0\n", "a=b", "é"])
def test_a_version_that_is_no_plain_word_is_ignored(version: str) -> None:
    assert with_check_versions({}, [result("lustre", version)], now=NOW) == {}


def test_a_node_has_versions_of_few_checks_whatever_its_agent_reports() -> None:
    results = [result(f"check{i}", "1") for i in range(VERSIONED_CHECKS_MAX + 9)]
    traits = with_check_versions({}, results, now=NOW)
    assert len(traits) == VERSIONED_CHECKS_MAX
    assert with_check_versions(traits, [result("other", "1")], now=NOW) is traits
    changed = with_check_versions(traits, [result("check0", "2")], now=NOW)
    assert changed[f"{CHECK_TRAIT}check0"].value == "2"


def test_a_registration_records_the_listener_that_received_it() -> None:
    first = traits_after({}, Inventory(), link="a:1/http", now=LONG_AGO)
    assert first[LINK].value == "a:1/http"
    moved = traits_after(first, Inventory(), link="b:1/http", now=NOW)
    assert (moved[LINK].value, moved[LINK].before) == ("b:1/http", "a:1/http")
    assert traits_after(moved, Inventory(), now=NOW) == moved
