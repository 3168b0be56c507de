"""Removal of empty nodes: conditions and order."""

from datetime import timedelta

import pytest

from navarch.core.disruption import Cause, Disruption, DisruptionBudget
from navarch.core.health import Health
from navarch.core.ids import NodeId, Token
from navarch.core.launch import Gang
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.disruption.empty import empty
from navarch.fleet.plan import Retire
from navarch.fleet.planner import plan_pool
from navarch.testing.worlds import H100, NOW, a_node, a_pool

TEN_MINUTES = timedelta(minutes=10)
AT_ONCE = DisruptionBudget(nodes_max=10)
IDLE = {NodeId(f"training-{n}"): 0.0 for n in range(4)}


def a_lean_pool(low: int = 1, *, wanted: int = 4, **more: object) -> Pool:
    disruption = Disruption(empty_after=TEN_MINUTES, budgets=(AT_ONCE,))
    pool = a_pool(size=low, nodes_max=8, nodes_wanted=wanted, disruption=disruption)
    return evolve(pool, **more)  # type: ignore[arg-type]


def nodes(count: int = 4, phase: Phase = Phase.READY) -> list[Node]:
    return [
        a_node(f"training-{n}", phase=phase, created_at=NOW - timedelta(hours=9 - n))
        for n in range(count)
    ]


def test_empty_nodes_are_removed_down_to_the_minimum_oldest_first() -> None:
    assert empty(a_lean_pool(), nodes(), IDLE, now=NOW) == [
        "training-0",
        "training-1",
        "training-2",
    ]
    assert empty(a_lean_pool(4), nodes(), IDLE, now=NOW) == []


def test_nodes_with_recent_work_or_short_observation_stay() -> None:
    peaks = {NodeId("training-0"): 5.0, NodeId("training-2"): 4.9, NodeId("training-3"): 97.0}

    assert empty(a_lean_pool(), nodes(), peaks, now=NOW) == ["training-2"]


def test_a_starting_node_stays_beside_a_node_that_was_not_observed_for_so_long() -> None:
    known = [*nodes(1), a_node("training-1", phase=Phase.BOOTING)]
    idle = {NodeId("training-0"): 0.0}
    assert "training-1" in empty(a_lean_pool(), known, idle, now=NOW)
    assert empty(a_lean_pool(), known, {}, now=NOW) == []


def test_a_pool_above_the_limit_keeps_its_empty_nodes() -> None:
    paused = a_lean_pool(wanted=NODES_PER_POOL_MAX + 1, nodes_max=2**53)
    assert empty(paused, nodes(), IDLE, now=NOW) == []


def test_pools_without_the_setting_keep_their_empty_nodes() -> None:
    pool = a_lean_pool(disruption=Disruption())
    assert empty(pool, nodes(), IDLE, now=NOW) == []


@pytest.mark.parametrize(
    "members",
    [
        nodes(phase=Phase.BOOTING),
        nodes(phase=Phase.DRAINING),
        [evolve(node, health=Health.UNHEALTHY) for node in nodes()],
        [evolve(node, waiting=True) for node in nodes()],
    ],
    ids=["booting", "draining", "unhealthy", "waiting"],
)
def test_a_node_out_of_service_is_not_empty(members: list[Node]) -> None:
    assert empty(a_lean_pool(), members, IDLE, now=NOW) == []


def test_the_disruption_budget_and_its_window_apply_to_empty_nodes() -> None:
    one = DisruptionBudget(nodes_max=1, share_max=0.0)
    none = DisruptionBudget(nodes_max=0, share_max=0.0, causes=(Cause.EMPTY,), hours="09:00-17:00")
    pool = a_lean_pool(disruption=Disruption(empty_after=TEN_MINUTES, budgets=(one,)))
    assert empty(pool, nodes(), IDLE, now=NOW) == ["training-0"]
    pool = a_lean_pool(disruption=Disruption(empty_after=TEN_MINUTES, budgets=(one, none)))
    assert empty(pool, nodes(), IDLE, now=NOW) == []
    assert empty(pool, nodes(), IDLE, now=NOW + timedelta(hours=9)) == ["training-0"]


def test_starting_nodes_are_removed_before_empty_ones() -> None:
    members = [*nodes(3), a_node("training-3", phase=Phase.BOOTING)]

    assert empty(a_lean_pool(3), members, IDLE, now=NOW) == ["training-3"]


def test_nothing_is_removed_while_many_nodes_are_broken() -> None:
    assert empty(a_lean_pool(held="most is broken"), nodes(), IDLE, now=NOW) == []


def test_a_gang_is_removed_as_a_whole_or_not_at_all() -> None:
    gang = Gang(id="training-g0", nodes=2, offering=H100)
    other = Gang(id="training-g2", nodes=2, offering=H100)
    members = [evolve(x, gang=gang if n < 2 else other) for n, x in enumerate(nodes())]
    pool = a_lean_pool(0, gang=2)
    busy = {**IDLE, NodeId("training-0"): 60.0}

    assert empty(pool, members, busy, now=NOW) == ["training-2", "training-3"]


def test_idle_surplus_nodes_are_removed_before_busy_ones() -> None:
    loads = {NodeId("training-0"): 90.0, NodeId("training-1"): 0.0, NodeId("training-2"): 95.0}

    plan = plan_pool(
        a_pool(size=2),
        nodes(4),
        now=NOW,
        new_tokens=iter([Token("t")]),
        loads=lambda _: loads,
    )

    retired = [action.node for action in plan.actions if isinstance(action, Retire)]
    assert retired == ["training-1", "training-0"], "of the busy ones the oldest"


def test_the_idle_surplus_gang_is_removed() -> None:
    first = Gang(id="training-g0", nodes=2, offering=H100)
    second = Gang(id="training-g2", nodes=2, offering=H100)
    members = [evolve(x, gang=first if n < 2 else second) for n, x in enumerate(nodes())]
    loads = {NodeId("training-1"): 80.0, NodeId("training-2"): 1.0, NodeId("training-3"): 1.0}

    plan = plan_pool(
        a_pool(size=2, gang=2, nodes_max=4),
        members,
        now=NOW,
        new_tokens=iter([Token("t")]),
        loads=lambda _: loads,
    )

    retired = [action.node for action in plan.actions if isinstance(action, Retire)]
    assert retired == ["training-2", "training-3"]
