"""Plans of pools: missing nodes, surplus nodes and machines that never registered."""

import itertools
from collections.abc import Sequence
from datetime import timedelta

import pytest

from navarch.core.errors import InvariantError
from navarch.core.fleet import Change, Fleet, apply
from navarch.core.health import Health
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.launch import Refusal
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.node import Node, Phase, Retirement
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.plan import Plan, Request, Retire, RetryLaunch, check_plans
from navarch.fleet.planner import REQUESTS_PER_ROUND, plan_pool
from navarch.fleet.pool_index import SteadyNodes
from navarch.fleet.selection import Market, ProposedLaunch
from navarch.fleet.stockouts import Stockouts
from navarch.testing.worlds import H100, NOW, a_node, a_pool

BROKEN = Retirement(reason="XID 79")


def plan(pool: Pool, nodes: Sequence[Node] = ()) -> Plan:
    tokens = (Token(f"t-{i}") for i in itertools.count())
    return plan_pool(pool, nodes, now=NOW, new_tokens=tokens)


def requested(pool: Pool, nodes: Sequence[Node] = ()) -> list[NodeId]:
    return [a.launch.node for a in plan(pool, nodes).actions if isinstance(a, Request)]


def retired(pool: Pool, nodes: Sequence[Node]) -> list[NodeId]:
    return [a.node for a in plan(pool, nodes).actions if isinstance(a, Retire)]


def test_an_empty_pool_is_filled_to_its_minimum() -> None:
    assert requested(a_pool(size=2)) == ["training-0", "training-1"]


def test_a_pool_is_filled_to_the_requested_size() -> None:
    assert len(requested(a_pool(size=2, nodes_max=9, nodes_wanted=7))) == 7


def test_a_large_pool_is_requested_in_rounds_that_follow_at_once() -> None:
    pool = a_pool(size=0, nodes_max=10_000, nodes_wanted=2 * REQUESTS_PER_ROUND + 1)
    nodes: list[Node] = []
    rounds = []
    while names := requested(pool, nodes):
        rounds.append(len(names))
        wake_at = plan(pool, nodes).wake_at
        assert (wake_at == NOW) == (sum(rounds) < pool.target)
        nodes += [a_node(name, phase=Phase.REQUESTED) for name in names]
        pool = evolve(pool, next_index=pool.next_index + len(names))
    assert rounds == [REQUESTS_PER_ROUND, REQUESTS_PER_ROUND, 1]


def test_a_requested_size_is_limited_to_the_maximum() -> None:
    assert len(requested(a_pool(size=1, nodes_max=3, nodes_wanted=9))) == 3


@pytest.mark.parametrize("phase", [Phase.REQUESTED, Phase.BOOTING, Phase.READY, Phase.DRAINING])
def test_machines_that_are_starting_count(phase: Phase) -> None:
    on_its_way = a_node("training-0", phase=phase, since=NOW)
    assert len(requested(a_pool(size=2, next_index=1), [on_its_way])) == 1


def test_names_continue_from_the_counter_of_the_pool() -> None:
    assert requested(a_pool(size=1, next_index=41)) == ["training-41"]


def test_a_replacement_names_the_node_it_replaces() -> None:
    broken = a_node("training-0", retiring=BROKEN)
    (request,) = plan(a_pool(size=1, nodes_max=2, next_index=1), [broken]).actions
    assert isinstance(request, Request)
    assert request.replaces == "training-0"


def test_a_node_is_replaced_once() -> None:
    broken = a_node("training-0", phase=Phase.GONE, retiring=BROKEN)
    successor = a_node("training-1", replaces=broken.id, phase=Phase.GONE, retiring=BROKEN)
    (request,) = plan(a_pool(size=1, next_index=2), [broken, successor]).actions
    assert isinstance(request, Request)
    assert request.replaces == "training-1"


def test_no_replacement_is_requested_while_the_pool_is_at_its_maximum() -> None:
    broken = a_node("training-0", retiring=BROKEN)
    assert requested(a_pool(size=1, nodes_max=1, next_index=1), [broken]) == []


def test_a_machine_that_is_terminating_still_counts() -> None:
    leaving = a_node("training-0", phase=Phase.TERMINATING, retiring=BROKEN)
    assert requested(a_pool(size=1, nodes_max=1, next_index=1), [leaving]) == []


def test_a_machine_that_misses_its_boot_deadline_is_terminated_and_replaced() -> None:
    pool = a_pool(size=1, boot_deadline=timedelta(minutes=10), next_index=1)
    late = a_node("training-0", phase=Phase.BOOTING, since=NOW - timedelta(minutes=10))
    retire, request = plan(pool, [late]).actions
    assert isinstance(retire, Retire)
    assert "did not register" in retire.reason
    assert not retire.surplus
    assert isinstance(request, Request)


def test_the_next_plan_is_due_at_the_boot_deadline() -> None:
    pool = a_pool(size=1, boot_deadline=timedelta(minutes=10))
    booting = a_node("training-0", phase=Phase.BOOTING, since=NOW - timedelta(minutes=4))
    assert plan(pool, [booting]) == Plan(pool=pool.name, wake_at=NOW + timedelta(minutes=6))


def test_the_least_valuable_nodes_are_removed_first() -> None:
    old = NOW - timedelta(days=2)
    nodes = [
        a_node("healthy-old", created_at=old),
        a_node("healthy"),
        a_node("cordoned", cordoned="by hand"),
        a_node("unhealthy", health=Health.UNHEALTHY),
        a_node("booting", phase=Phase.BOOTING, since=NOW),
        a_node("requested", phase=Phase.REQUESTED),
        evolve(a_node("unasked", phase=Phase.REQUESTED), launch=None, retry_at=NOW),
    ]
    order = ["unasked", "requested", "booting", "unhealthy", "cordoned", "healthy-old", "healthy"]
    for keep in range(len(nodes)):
        pool = a_pool(size=0, nodes_max=9, nodes_wanted=keep)
        assert retired(pool, nodes) == order[: len(nodes) - keep]


def test_a_deleted_pool_removes_all_its_nodes() -> None:
    pool = a_pool(size=2, deleted=True)
    assert retired(pool, [a_node("training-0"), a_node("training-1")]) == [
        "training-0",
        "training-1",
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {"nodes_wanted": NODES_PER_POOL_MAX + 1},
        {"nodes_wanted": NODES_PER_POOL_MAX + 1, "spares": 5},
        {"nodes_wanted": NODES_PER_POOL_MAX + 2, "gang": 2},
    ],
)
def test_nothing_is_planned_for_a_pool_above_the_limit(settings: dict[str, int]) -> None:
    pool = a_pool(size=0, nodes_max=2**53, next_index=3, **settings)  # type: ignore[arg-type]
    late = a_node("training-2", phase=Phase.BOOTING, since=NOW - timedelta(hours=1))
    nodes = [a_node("training-0"), a_node("training-1", retiring=BROKEN), late]
    assert plan(pool, nodes) == Plan(pool=pool.name)
    counted = SteadyNodes(nodes=7)
    assert plan_pool(pool, (), now=NOW, new_tokens=iter(()), steady=counted) == Plan(pool=pool.name)


def test_a_pool_above_the_limit_is_not_counted_as_waiting_to_buy() -> None:
    market = Market(Stockouts(), now=NOW, waiting={PoolName("training"): 7})
    pool = a_pool(size=0, nodes_max=2**53, nodes_wanted=NODES_PER_POOL_MAX + 1)
    plan_pool(pool, (), now=NOW, new_tokens=iter(()), market=market)
    assert market.waiting == {pool.name: 0}


def test_a_pool_above_the_limit_is_planned_again_once_its_size_is_legal() -> None:
    paused = a_pool(size=0, nodes_max=2**53, nodes_wanted=NODES_PER_POOL_MAX + 1)
    assert len(requested(evolve(paused, nodes_wanted=3))) == 3
    assert retired(evolve(paused, deleted=True), [a_node("training-0")]) == ["training-0"]


def test_spares_are_limited_to_the_maximum() -> None:
    pool = a_pool(size=0, nodes_max=2**53, nodes_wanted=2, spares=10**9)
    assert pool.target == NODES_PER_POOL_MAX


def test_a_refused_node_is_retried_at_its_time() -> None:
    later = NOW + timedelta(seconds=30)
    node = evolve(
        a_node("training-0", phase=Phase.REQUESTED), launch=None, attempts=1, retry_at=later
    )
    assert plan(a_pool(size=1), [node]) == Plan(pool=PoolName("training"), wake_at=later)


def fleet_of(pool: Pool, *nodes: Node) -> Fleet:
    return apply(Fleet(), Change(pools=[pool], nodes=nodes))


def test_a_plan_above_the_maximum_is_refused() -> None:
    pool = a_pool(size=1, nodes_max=1)
    greedy = plan(evolve(pool, nodes_max=5, nodes_wanted=2))
    with pytest.raises(InvariantError, match="would hold 2 of 1"):
        check_plans([greedy], fleet_of(pool))


def test_a_plan_that_reuses_a_name_is_refused() -> None:
    pool = a_pool(size=2)
    with pytest.raises(InvariantError, match="requested twice"):
        check_plans([plan(pool)], fleet_of(pool, a_node("training-0")))


def test_a_pool_above_a_lowered_maximum_removes_surplus_nodes() -> None:
    nodes = [a_node(f"training-{n}") for n in range(5)]
    assert len(retired(a_pool(size=1, nodes_max=3, nodes_wanted=5), nodes)) == 2


@pytest.mark.parametrize(
    ("facts", "scaled_ago", "replaced"),
    [
        ({}, None, True),
        ({}, timedelta(hours=2), True),
        ({}, timedelta(minutes=5), False),
        ({"registered_at": None}, None, False),
        ({"retiring": Retirement(reason="fewer", surplus=True)}, None, False),
    ],
    ids=["lost", "lost-since", "lost-before-the-size-changed", "never-came", "surplus"],
)
def test_a_node_lost_at_the_present_size_is_replaced_by_name(
    facts: dict[str, object], scaled_ago: timedelta | None, replaced: bool
) -> None:
    gone = evolve(a_node("training-0", phase=Phase.GONE, retiring=BROKEN), **facts)  # type: ignore[arg-type]
    scaled_at = None if scaled_ago is None else NOW - scaled_ago
    pool = a_pool(size=1, next_index=1, scaled_at=scaled_at)

    (request,) = [a for a in plan(pool, [gone]).actions if isinstance(a, Request)]

    assert (request.replaces == gone.id) is replaced


def test_a_lost_node_is_replaced_once() -> None:
    gone = a_node("training-0", phase=Phase.GONE, retiring=BROKEN)
    heir = a_node("training-1", replaces=gone.id)
    pool = a_pool(size=2, next_index=2)

    (request,) = [a for a in plan(pool, [gone, heir]).actions if isinstance(a, Request)]

    assert request.replaces is None


def test_a_replacement_refused_for_the_budget_is_requested_again() -> None:
    def refuse(proposal: ProposedLaunch, _taken: object) -> str | None:
        return None if proposal.instead_of is not None else "no money"

    gone = a_node("training-0", phase=Phase.GONE, retiring=BROKEN)
    heir = a_node("training-1", phase=Phase.REQUESTED, launch=None, replaces=gone.id)
    newcomer = a_node("training-2", phase=Phase.REQUESTED, launch=None)
    tokens = (Token(f"t-{i}") for i in itertools.count())
    pool = a_pool(size=2, next_index=3)
    market = Market(Stockouts(), now=NOW, vetoes=[refuse])

    found = plan_pool(
        pool, [gone, newcomer, heir], now=NOW, new_tokens=tokens, market=market
    ).actions

    assert [a.launch.node for a in found if isinstance(a, RetryLaunch)] == [heir.id]


def test_the_first_available_machine_goes_to_the_oldest_request() -> None:
    waiting = [
        a_node(name, phase=Phase.REQUESTED, launch=None, attempts=1)
        for name in ("training-9", "training-10", "training-11")
    ]
    refused_at = NOW - timedelta(minutes=1)
    half_open = Stockouts().after_refusal(
        H100, Refusal.CAPACITY, "sold out", asked_at=refused_at, now=refused_at
    )
    tokens = (Token(f"t-{i}") for i in itertools.count())
    pool = a_pool(size=5, nodes_max=9, next_index=12)

    found = plan_pool(
        pool, waiting, now=NOW, new_tokens=tokens, market=Market(half_open, now=NOW)
    ).actions

    assert [a.launch.node for a in found if isinstance(a, RetryLaunch | Request)] == ["training-9"]
