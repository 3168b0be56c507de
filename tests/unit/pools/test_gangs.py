"""Plans of gangs: complete, abandoned or with missing members."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

import pytest

from navarch.core.errors import InvariantError
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId, PoolName, ProviderName, Token
from navarch.core.instance import Topology
from navarch.core.launch import Gang, Refusal
from navarch.core.node import Node, Phase, Retirement
from navarch.core.pool import Pool
from navarch.core.records import Table, evolve
from navarch.fleet.plan import Abandon, Action, Plan, Release, Request, Retire, check_plans
from navarch.fleet.planner import plan_pool
from navarch.fleet.selection import Market
from navarch.fleet.stockouts import Stockouts
from navarch.testing.worlds import H100, NOW, a_node, a_pool

HOLD = timedelta(minutes=10)
GANG = Gang(id="training-g0", nodes=3, offering=H100)
SIM = ProviderName("sim")


def a_gang_pool(**more: object) -> Pool:
    pool = a_pool(size=3, nodes_max=8, gang=3, gang_hold=HOLD, next_index=3)
    return evolve(pool, **more)  # type: ignore[arg-type]


def member(
    name: str,
    *,
    phase: Phase = Phase.BOOTING,
    block: str | None = None,
    waiting: bool = True,
    age: timedelta = timedelta(minutes=1),
) -> Node:
    node = a_node(f"training-{name}", phase=phase, created_at=NOW - age, since=NOW - age)
    topology = None if block is None else Topology(block=block)
    return evolve(node, gang=GANG, waiting=waiting, topology=topology)


def refused(name: str) -> Node:
    node = member(name, phase=Phase.REQUESTED)
    return evolve(node, launch=None, attempts=1, retry_at=NOW)


def plan(
    pool: Pool,
    nodes: Sequence[Node],
    *,
    now: datetime = NOW,
    surveyed: Sequence[ProviderName] = (),
    stockouts: Stockouts | None = None,
) -> list[Action]:
    tokens = (Token(f"t-{n}") for n in count())
    made = plan_pool(
        pool,
        nodes,
        now=now,
        new_tokens=tokens,
        surveyed=surveyed,
        market=Market(stockouts or Stockouts(), now=now),
    )
    check_plans([made], fleet_of(pool, nodes))
    return list(made.actions)


def fleet_of(pool: Pool, nodes: Sequence[Node]) -> Fleet:
    table = Table[NodeId, Node]().with_changes({node.id: node for node in nodes})
    pools = Table[PoolName, Pool]().with_changes({pool.name: pool})
    return Fleet(pools=pools, nodes=table, by_pool={pool.name: table})


def test_a_gang_is_requested_as_a_whole_in_one_place() -> None:
    actions = plan(a_gang_pool(next_index=0), [])

    requests = [action for action in actions if isinstance(action, Request)]
    assert len(requests) == len(actions) == 3
    assert len({request.launch.gang for request in requests}) == 1
    assert all(request.waiting for request in requests)


def test_no_part_of_a_gang_is_requested_if_the_maximum_has_no_room_for_all() -> None:
    leaving = a_node(
        "training-9", phase=Phase.TERMINATING, retiring=Retirement(reason="old", surplus=True)
    )
    assert plan(a_gang_pool(nodes_max=3), [leaving]) == []


def test_a_gang_with_all_its_machines_is_released_at_once() -> None:
    (released,) = plan(a_gang_pool(), [member("0"), member("1"), member("2")])
    assert isinstance(released, Release)
    assert len(released.nodes) == 3


@pytest.mark.parametrize(
    ("blocks", "past", "expected"),
    [
        (("a", "a", "a"), False, [Release]),
        (("a", "a", None), False, []),
        (("a", "a", None), True, [Release]),
        (("a", "a", "b"), False, [Retire, Request]),
        (("a", "a", "b"), True, [Abandon]),
    ],
    ids=["one block", "not said yet", "never said", "astray", "astray too late"],
)
def test_machines_must_share_a_block_if_the_provider_reports_blocks(
    blocks: tuple[str | None, ...], past: bool, expected: list[type]
) -> None:
    age = HOLD if past else timedelta(minutes=1)
    nodes = [member(str(n), block=block, age=age) for n, block in enumerate(blocks)]
    pool = a_gang_pool(boot_deadline=timedelta(hours=1))

    actions = plan(pool, nodes, surveyed=[SIM])

    assert [type(action) for action in actions] == expected


def test_a_gang_that_is_incomplete_at_its_deadline_is_terminated() -> None:
    nodes = [member("0"), member("1"), refused("2")]
    assert plan(a_gang_pool(nodes_max=3), nodes, now=NOW + HOLD - timedelta(minutes=2)) != []

    (given_up,) = plan(
        a_gang_pool(nodes_max=3, boot_deadline=timedelta(hours=1)), nodes, now=NOW + HOLD
    )

    assert isinstance(given_up, Abandon)
    assert given_up.nodes == ("training-0", "training-1", "training-2")
    assert "2 of 3 machines" in given_up.reason


def test_a_gang_without_any_machine_is_abandoned_at_once() -> None:
    actions = plan(a_gang_pool(nodes_max=3), [refused("0"), refused("1"), refused("2")])
    assert [type(action) for action in actions] == [Abandon]


def test_the_deadline_counts_from_the_first_member_even_if_it_is_gone() -> None:
    first = evolve(member("9", age=HOLD), phase=Phase.GONE)
    nodes = [first, member("0"), member("1"), refused("2")]
    pool = a_gang_pool(nodes_max=3, boot_deadline=timedelta(hours=1))
    assert [type(action) for action in plan(pool, nodes)] == [Abandon]


def test_a_missing_member_is_requested_in_the_place_of_its_gang() -> None:
    nodes = [member(str(n), phase=Phase.READY, waiting=False) for n in range(2)]

    (request,) = plan(a_gang_pool(), nodes)

    assert isinstance(request, Request)
    assert request.launch.gang == GANG
    assert not request.waiting


def test_the_next_gang_avoids_places_where_a_gang_failed_recently() -> None:
    north, south = evolve(H100, zone="north"), evolve(H100, zone="south")
    pool = a_gang_pool(offerings=(north, south), next_index=0)
    later = NOW + timedelta(minutes=5)
    failed = Stockouts().after_refusal(
        north, Refusal.BLOCK, "2 of 3", asked_at=NOW, now=NOW, gang=3
    )

    actions = plan(pool, [], stockouts=failed, now=later)
    alone = plan(evolve(pool, gang=0), [], stockouts=failed, now=later)

    assert {x.launch.offering.zone for x in actions if isinstance(x, Request)} == {"south"}
    assert {x.launch.offering.zone for x in alone if isinstance(x, Request)} == {"north"}


def test_no_gang_starts_where_one_is_abandoned_in_the_same_plan() -> None:
    """Within one plan, the failure of the first choice is not recorded yet."""
    pool = a_gang_pool(offerings=(evolve(H100, zone="north"), evolve(H100, zone="south")))
    late = [member(name, age=HOLD) for name in ("0", "1")] + [refused("2")]

    actions = plan(pool, late)

    assert any(isinstance(action, Abandon) for action in actions)
    assert not any(isinstance(action, Request) for action in actions)


def test_a_plan_that_starts_a_part_of_a_gang_is_refused() -> None:
    pool = a_gang_pool(next_index=0)
    actions = plan(pool, [])

    with pytest.raises(InvariantError, match="would begin with 2 of 3"):
        check_plans([Plan(pool=pool.name, actions=tuple(actions[:2]))], fleet_of(pool, []))


def test_the_younger_of_two_deadlocked_gangs_is_terminated_at_once() -> None:
    pool = a_gang_pool(nodes_min=6, nodes_max=8, next_index=6)
    elder = [member("0", block="b"), member("1", block="b"), refused("2")]
    other = replace(GANG, id="training-g3")
    young = [member("3", block="b"), member("4", block="b"), refused("5")]
    young = [evolve(node, gang=other, created_at=node.created_at + HOLD / 20) for node in young]

    (given_up,) = [x for x in plan(pool, [*elder, *young]) if isinstance(x, Abandon)]

    assert given_up.gang == other
    assert "gives way to training-g0" in given_up.reason


def test_gangs_in_different_blocks_do_not_deadlock() -> None:
    pool = a_gang_pool(nodes_min=6, nodes_max=8, next_index=6)
    other = replace(GANG, id="training-g3")
    elder = [member("0", block="a"), member("1", block="a"), refused("2")]
    young = [member("3", block="b"), member("4", block="b"), refused("5")]
    young = [evolve(node, gang=other) for node in young]

    assert not [x for x in plan(pool, [*elder, *young]) if isinstance(x, Abandon)]
