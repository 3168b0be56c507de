"""Laws that hold for every pool and every mix of nodes."""

import itertools
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.fleet import Change, Fleet, apply
from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId, Token
from navarch.core.node import Node, NotifiedState, Phase, Retirement
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.changes import changes
from navarch.fleet.disruption.unhealthy import CordonAndReplace, plan_treatments
from navarch.fleet.drains import plan_drains
from navarch.fleet.plan import Plan, Request, Retire, check_plans
from navarch.fleet.planner import plan_pool
from navarch.testing.worlds import NOW, a_node, a_pool

AGES = st.integers(0, 3600).map(lambda seconds: NOW - timedelta(seconds=seconds))


@st.composite
def nodes(draw: st.DrawFn, index: int) -> Node:
    phase = draw(st.sampled_from(list(Phase)))
    leaving = phase in (Phase.TERMINATING, Phase.GONE) or draw(st.booleans())
    health = draw(st.sampled_from(list(Health)))
    conditions = (
        (
            Condition(
                check="gpu",
                health=Health.UNHEALTHY,
                reason="lost",
                since=NOW,
                times=draw(st.integers(1, 3)),
                fatal=draw(st.booleans()),
            ),
        )
        if health is Health.UNHEALTHY
        else ()
    )
    node = a_node(
        f"training-{index}",
        phase=phase,
        since=draw(AGES),
        health=health,
        conditions=conditions,
        cordoned=draw(st.sampled_from([None, "by hand"])),
        retiring=Retirement(reason="x", surplus=draw(st.booleans())) if leaving else None,
        notified=draw(st.sampled_from(list(NotifiedState))),
    )
    refused = phase is Phase.REQUESTED and draw(st.booleans())
    return evolve(node, launch=None, attempts=1, retry_at=draw(AGES)) if refused else node


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    count = draw(st.integers(0, 8))
    low = draw(st.integers(0, 5))
    pool = a_pool(
        size=low,
        nodes_max=max(1, low + draw(st.integers(0, 5))),
        nodes_wanted=draw(st.one_of(st.none(), st.integers(0, 12))),
        next_index=count,
        deleted=draw(st.sampled_from([False, False, False, True])),
    )
    members = [draw(nodes(i)) for i in range(count)]
    return apply(Fleet(), Change(pools=[pool], nodes=members))


def the_pool(fleet: Fleet) -> Pool:
    (pool,) = fleet.pools.values()
    return pool


def size_plan(fleet: Fleet) -> Plan:
    pool = the_pool(fleet)
    tokens = (Token(f"t-{i}") for i in itertools.count())
    return plan_pool(pool, fleet.in_pool(pool.name).values(), now=NOW, new_tokens=tokens)


def written(fleet: Fleet, plan: Plan) -> Fleet:
    check_plans([plan], fleet)
    return apply(fleet, changes([plan], fleet, now=NOW))


@given(fleets())
def test_a_pool_is_never_planned_above_its_maximum(fleet: Fleet) -> None:
    pool = the_pool(fleet)
    before = sum(not node.gone for node in fleet.in_pool(pool.name).values())
    after = written(fleet, size_plan(fleet))
    machines = sum(not node.gone for node in after.in_pool(pool.name).values())
    assert machines <= max(pool.nodes_max, before)


@given(fleets())
def test_a_committed_plan_leaves_nothing_to_plan(fleet: Fleet) -> None:
    after = written(fleet, size_plan(fleet))
    assert size_plan(after).actions == ()


@given(fleets())
def test_a_pool_with_room_is_planned_to_its_size_exactly(fleet: Fleet) -> None:
    pool = the_pool(fleet)
    after = written(fleet, size_plan(fleet))
    members = after.in_pool(pool.name).values()
    staying = sum(node.counts for node in members)
    full = sum(not node.gone for node in members) >= pool.nodes_max
    assert staying == pool.size or (staying < pool.size and full)


@given(fleets())
def test_a_plan_depends_on_its_inputs_only(fleet: Fleet) -> None:
    assert size_plan(fleet) == size_plan(fleet)


@given(fleets())
def test_the_next_plan_is_due_in_the_future(fleet: Fleet) -> None:
    wake_at = size_plan(fleet).wake_at
    assert wake_at is None or wake_at > NOW


@given(fleets())
def test_no_name_is_planned_twice(fleet: Fleet) -> None:
    plan = size_plan(fleet)
    names = [action.launch.node for action in plan.actions if isinstance(action, Request)]
    assert len(names) == len(set(names))
    assert not set(names) & set(fleet.nodes)
    assert the_pool(written(fleet, plan)).next_index == the_pool(fleet).next_index + len(names)


@given(fleets())
def test_only_unhealthy_nodes_are_replaced(fleet: Fleet) -> None:
    pool = the_pool(fleet)
    nodes = fleet.in_pool(pool.name).values()
    treated = list(plan_treatments(pool, nodes, CordonAndReplace(), now=NOW))
    actions = tuple(Retire(node=node.id, reason=treatment.reason) for node, treatment in treated)
    check_plans([Plan(pool=pool.name, actions=actions)], fleet)
    assert all(node.health is Health.UNHEALTHY for node, _ in treated)


@given(fleets(), st.sets(st.sampled_from([NodeId(f"training-{i}") for i in range(8)])))
def test_only_nodes_to_be_removed_are_drained(fleet: Fleet, drained: set[NodeId]) -> None:
    pool = the_pool(fleet)
    plan = plan_drains(pool, fleet.in_pool(pool.name).values(), drained=drained, now=NOW)
    after = written(fleet, plan)
    for name, node in after.nodes.items():
        if node.phase is not fleet.nodes[name].phase:
            assert node.retiring is not None


@given(fleets(), st.booleans())
def test_committed_drains_leave_nothing_to_plan(fleet: Fleet, emptied: bool) -> None:
    def plan(fleet: Fleet) -> Plan:
        nodes = fleet.in_pool(the_pool(fleet).name).values()
        return plan_drains(the_pool(fleet), nodes, drained=drained, now=NOW)

    draining = [name for name, node in fleet.nodes.items() if node.phase is Phase.DRAINING]
    drained = draining if emptied else []
    first = plan(fleet)
    second = plan(written(fleet, first))
    assert (second.actions, second.wake_at) == ((), first.wake_at)
