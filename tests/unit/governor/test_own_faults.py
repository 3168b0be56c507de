"""A node with a fault that a driver explains, beside a fault of its own."""

from datetime import datetime, timedelta

import pytest
from governor_faults import faulty

from navarch.core.disruption import DeferredBy, GovernorSettings
from navarch.core.health import Condition, Health
from navarch.core.node import DRIVER, Node, Trait
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.disruption.governor.common_cause import find_causes
from navarch.fleet.disruption.governor.domain_stats import DomainStats
from navarch.fleet.disruption.governor.governor import (
    GovernorDecision,
    Obstacles,
    ProposedAction,
    govern,
)
from navarch.fleet.disruption.unhealthy import LASTS_FOR, uncertain_faults
from navarch.testing.worlds import NOW, a_node, a_pool

POOL: Pool = a_pool(name="training")
OLD_DRIVER = Trait(value="550", since=NOW - timedelta(days=30))
BAD_DRIVER = Trait(value="570", since=NOW - timedelta(hours=1), before="550")


def overheated(node: Node, *, times: int, since: datetime, fatal: bool = False) -> Node:
    condition = Condition(
        check="temperature",
        health=Health.UNHEALTHY,
        reason="GPU 0: 95 C",
        since=since,
        times=times,
        fatal=fatal,
    )
    return evolve(node, conditions=(*node.conditions, condition))


def decision(node: Node, *, now: datetime = NOW) -> GovernorDecision:
    """Return the decision about a node with the bad driver, which 40 others have as well."""
    others = [
        faulty(a_node(f"training-{i}", traits={DRIVER: BAD_DRIVER}), code=119) for i in range(40)
    ]
    sound = [a_node(f"training-{i}", traits={DRIVER: OLD_DRIVER}) for i in range(40, 288)]
    stats, settings = DomainStats([node, *others, *sound]), GovernorSettings()
    proposal = ProposedAction(
        node=node,
        action="replace",
        reason="unhealthy",
        uncertain=frozenset(uncertain_faults(POOL, node, now)),
    )
    causes = find_causes(stats, settings, now=now)
    (found,) = govern([proposal], stats, settings, Obstacles(causes=causes), now=now)
    return found


ILL = faulty(a_node("training-500", traits={DRIVER: BAD_DRIVER}), code=119)


@pytest.mark.parametrize(
    ("times", "ago"),
    [(1, timedelta(hours=1)), (POOL.unhealthy_after, LASTS_FOR - timedelta(seconds=1))],
    ids=["reported once", "reported often, within two minutes"],
)
def test_a_fault_that_alone_would_not_suffice_is_no_reason_to_replace_it(
    times: int, ago: timedelta
) -> None:
    found = decision(overheated(ILL, times=times, since=NOW - ago))
    assert found.held is not None
    assert found.held.by is DeferredBy.CHANGE
    assert "of its own" not in found.evidence


@pytest.mark.parametrize(
    ("times", "ago", "fatal"),
    [(POOL.unhealthy_after, LASTS_FOR, False), (1, timedelta(), True)],
    ids=["lasting", "fatal"],
)
def test_a_fault_that_alone_would_suffice_is_acted_on_and_named_first(
    times: int, ago: timedelta, fatal: bool
) -> None:
    found = decision(overheated(ILL, times=times, since=NOW - ago, fatal=fatal))
    assert found.held is None
    own, _, shared = found.evidence.partition("; ")
    assert own == "temperature is a fault of its own"
    assert shared.startswith("xid 119 on nodes with driver 570")


def test_a_node_with_a_fault_of_its_own_and_no_suspect_is_explained_as_usual() -> None:
    alone = decision(overheated(a_node("training-500"), times=9, since=NOW - LASTS_FOR))
    assert alone.held is None
    assert alone.evidence == ""


def test_a_fault_becomes_certain_once_it_has_lasted() -> None:
    node = overheated(ILL, times=POOL.unhealthy_after, since=NOW)
    assert uncertain_faults(POOL, node, NOW) == {"temperature": NOW + LASTS_FOR}
    assert uncertain_faults(POOL, node, NOW + LASTS_FOR) == {}
    once = overheated(ILL, times=1, since=NOW)
    assert uncertain_faults(POOL, once, NOW + LASTS_FOR) == {"temperature": None}


def test_a_fault_that_one_of_two_checks_proves_is_certain() -> None:
    node = overheated(ILL, times=1, since=NOW)
    assert not uncertain_faults(POOL, overheated(node, times=1, since=NOW, fatal=True), NOW)
