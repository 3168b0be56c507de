"""A remediator decides only about nodes in service that are proven to be unhealthy."""

from datetime import timedelta

import pytest

from navarch.core.health import HEARTBEAT, Condition, Health
from navarch.core.ids import RecoveryId
from navarch.core.node import Node, Phase, Retirement
from navarch.core.records import evolve
from navarch.fleet.disruption.unhealthy import (
    CordonAndReplace,
    Ladder,
    grave_conditions,
    plan_treatments,
)
from navarch.ports.remediator import Remedy
from navarch.testing.worlds import NOW, a_node, a_pool

POOL = a_pool(silent_after=timedelta(minutes=10))
FAULT = Condition(
    check="xid/79", health=Health.UNHEALTHY, reason="XID 79", since=NOW, fatal=True, boot_id="b1"
)
SICK = a_node("training-0", health=Health.UNHEALTHY, conditions=(FAULT,), boot_id="b1")


def treated(node: Node, *, after: timedelta = timedelta(0)) -> list[Remedy]:
    plan = plan_treatments(POOL, [node], CordonAndReplace(), now=NOW + after)
    return [treatment.remedy for _, treatment in plan]


def test_a_fatal_fault_is_treated_at_once() -> None:
    assert treated(SICK) == [Remedy.REPLACE]


@pytest.mark.parametrize(
    "node",
    [
        evolve(SICK, recovery=RecoveryId("r-1")),
        evolve(SICK, retiring=Retirement(reason="leaving")),
        evolve(SICK, phase=Phase.DRAINING),
        a_node("training-0"),
    ],
    ids=["under repair", "leaving", "draining", "sound"],
)
def test_other_nodes_are_not_treated(node: Node) -> None:
    assert treated(node) == []


def test_a_silent_node_is_treated_only_after_the_time_that_its_pool_allows() -> None:
    silence = Condition(
        check=HEARTBEAT, health=Health.UNHEALTHY, reason="silent", since=NOW, times=9
    )
    silent = a_node("training-0", health=Health.UNHEALTHY, conditions=(silence,))
    assert treated(silent, after=timedelta(minutes=9)) == []
    assert treated(silent, after=timedelta(minutes=10)) == [Remedy.REPLACE]


def test_a_fault_that_is_not_fatal_must_last_for_two_minutes() -> None:
    flicker = evolve(FAULT, check="power", fatal=False, times=2)
    node = evolve(SICK, conditions=(flicker,))
    assert treated(node, after=timedelta(seconds=119)) == []
    assert treated(node, after=timedelta(seconds=120)) == [Remedy.REPLACE]
    assert treated(evolve(SICK, conditions=(flicker, FAULT))) == [Remedy.REPLACE]


@pytest.mark.parametrize("remediator", [CordonAndReplace(), Ladder()])
def test_a_fault_of_an_earlier_boot_that_is_reported_late_is_not_treated(
    remediator: CordonAndReplace | Ladder,
) -> None:
    late = evolve(FAULT, lasting=True)
    booted = evolve(SICK, boot_id="b2", booted_at=NOW, conditions=(late,))
    assert grave_conditions(POOL, booted) == []
    assert plan_treatments(POOL, [booted], remediator, now=NOW) == []
