"""The launch circuit breaker: pools stop buying machines that do not come up."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, Token
from navarch.core.launch import Gang, Launch, Offering, Refusal
from navarch.core.node import Node, Phase, Retirement
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.launch_breaker import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    MACHINES_MAX,
    LaunchBreaker,
    find_breaker,
    quarantined_offerings,
)
from navarch.fleet.plan import Plan, Request, Retire, SetLaunchBreaker
from navarch.fleet.planner import plan_pool
from navarch.fleet.selection import Market
from navarch.fleet.stockouts import Stockouts, scopes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HERE = Offering(provider=ProviderName("here"), instance_type="h100-8x")
POOL = Pool(
    name=PoolName("training"),
    offerings=(HERE,),
    nodes_min=0,
    nodes_max=20,
    nodes_wanted=10,
    next_index=100,
)


def a_node(number: int, phase: Phase, *, asked: float = 0, **more: object) -> Node:
    """Return a node that was requested so many minutes from now."""
    name = NodeId(f"training-{number}")
    at = NOW + timedelta(minutes=asked)
    launch = Launch(
        token=Token(f"t-{number}"),
        node=name,
        pool=POOL.name,
        offering=HERE,
        asked_at=at,
        instance=InstanceId(f"i-{number}"),
        launched_at=at,
    )
    node = Node(id=name, pool=POOL.name, phase=phase, since=at, created_at=at, launch=launch)
    return evolve(node, **more)  # type: ignore[arg-type]


def failed(number: int, at: float, *, asked: float | None = None) -> Node:
    """Return a node that was abandoned so many minutes from now, just after its request."""
    moment = NOW + timedelta(minutes=at)
    why = Retirement(reason="setting it up failed 3 times", failed_at=moment)
    return a_node(number, Phase.GONE, asked=at - 1 if asked is None else asked, retiring=why)


def served(number: int, at: float) -> Node:
    return a_node(number, Phase.READY, registered_at=NOW + timedelta(minutes=at))


def brake_on(*nodes: Node, pool: Pool = POOL, now: datetime = NOW) -> LaunchBreaker | None:
    return find_breaker(pool, nodes, now=now)


def bought(
    brake: LaunchBreaker | None, *nodes: Node, pool: Pool = POOL, now: datetime = NOW
) -> int:
    tokens = (Token(f"new-{number}") for number in range(1000))
    plan = plan_pool(pool, nodes, now=now, new_tokens=tokens, breaker=brake)
    return sum(isinstance(action, Request) for action in plan.actions)


def test_a_few_machines_that_do_not_come_up_are_replaced() -> None:
    nodes = [failed(number, at=-number - 1.0) for number in range(MACHINES_MAX - 1)]
    assert brake_on(*nodes) is None
    assert bought(None, *nodes) == 10


def test_the_third_failure_in_a_row_stops_the_pool_with_a_reason() -> None:
    nodes = [failed(number, at=number - 3.0) for number in range(3)]
    brake = brake_on(*nodes)
    assert brake is not None
    assert bought(brake, *nodes) == 0
    assert brake.reason == (
        "3 machines in a row did not come up, at last training-2: setting it up failed 3 times; "
        "the next is tried at 12:04:00 UTC, or now with `navarch held release --pool training`"
    )


def test_after_the_pause_one_machine_is_tried_at_a_time() -> None:
    nodes = [failed(number, at=number - 3.0) for number in range(3)]
    later = NOW + FIRST_PAUSE
    assert bought(brake_on(*nodes, now=later), *nodes, now=later) == 1
    nodes.append(a_node(7, Phase.BOOTING, asked=5))
    assert bought(brake_on(*nodes, now=later), *nodes, now=later) == 0


def test_each_probe_that_fails_doubles_the_pause_up_to_an_hour() -> None:
    nodes = [failed(number, at=-1) for number in range(3)]
    pauses, at = [], -1.0
    for number in range(3, 9):
        brake = brake_on(*nodes)
        assert brake is not None
        pauses.append(brake.until - (NOW + timedelta(minutes=at)))
        at += pauses[-1] / timedelta(minutes=1) + 2
        nodes.append(failed(number, at=at))
    assert pauses == [FIRST_PAUSE * 2**doublings for doublings in range(4)] + [LONGEST_PAUSE] * 2


def test_a_hundred_failures_of_one_purchase_open_the_breaker_once() -> None:
    nodes = [failed(number, at=number / 100, asked=-9) for number in range(100)]
    brake = brake_on(*nodes, now=NOW + timedelta(minutes=1))
    assert brake is not None
    assert brake.until == NOW + timedelta(minutes=0.02) + FIRST_PAUSE


def test_the_first_registration_closes_the_breaker() -> None:
    nodes = [failed(number, at=-9) for number in range(5)]
    assert brake_on(*nodes) is not None
    assert brake_on(*nodes, served(7, at=-1)) is None
    assert brake_on(*nodes, served(7, at=-30)) is not None


def test_failures_before_a_release_by_an_operator_do_not_count() -> None:
    nodes = [failed(number, at=-9) for number in range(5)]
    assert brake_on(*nodes, pool=evolve(POOL, brake_released_at=NOW)) is None


def test_a_machine_reclaimed_during_its_boot_is_not_a_failure() -> None:
    lost = Retirement(reason="the provider is taking the machine away")
    nodes = [a_node(number, Phase.GONE, retiring=lost) for number in range(9)]
    assert brake_on(*nodes) is None


def test_machines_that_are_all_late_are_terminated_and_not_bought_again() -> None:
    nodes = [a_node(number, Phase.BOOTING, asked=-30) for number in range(10)]
    brake = brake_on(*nodes)
    tokens = (Token(f"new-{number}") for number in range(100))
    plan = plan_pool(POOL, nodes, now=NOW, new_tokens=tokens, breaker=brake)
    retired = [action for action in plan.actions if isinstance(action, Retire)]
    assert len(retired) == 10
    assert all(action.failed for action in retired)
    assert not any(isinstance(action, Request) for action in plan.actions)
    assert brake is not None
    assert plan.actions[0] == SetLaunchBreaker(reason=brake.reason)
    assert plan.wake_at == brake.until


def test_the_breaker_is_recorded_once_when_it_opens_and_once_when_it_closes() -> None:
    nodes = [failed(number, at=-1) for number in range(3)]
    brake = brake_on(*nodes)
    assert brake is not None
    tokens = (Token(f"new-{number}") for number in range(100))
    known = evolve(POOL, braked=brake.reason)
    assert not plan_pool(known, nodes, now=NOW, new_tokens=tokens, breaker=brake).actions
    plan = plan_pool(known, nodes, now=NOW, new_tokens=tokens)
    assert plan.actions[0] == SetLaunchBreaker(reason=None)


def test_a_probe_of_a_gang_is_the_whole_gang() -> None:
    pool = evolve(POOL, gang=4, nodes_wanted=8)
    nodes = [failed(number, at=-30) for number in range(3)]
    assert bought(brake_on(*nodes, pool=pool), *nodes, pool=pool) == 4


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["failed", "served", "booting", "late"]),
            st.floats(min_value=-600, max_value=0),
        ),
        max_size=30,
    )
)
def test_an_open_breaker_allows_one_machine_and_a_closed_one_all(
    lives: list[tuple[str, float]],
) -> None:
    nodes = []
    for number, (life, at) in enumerate(lives):
        match life:
            case "failed":
                nodes.append(failed(number, at=at))
            case "served":
                nodes.append(served(number, at=at))
            case "booting":
                nodes.append(a_node(number, Phase.BOOTING, asked=-1))
            case _:
                nodes.append(a_node(number, Phase.BOOTING, asked=min(at, -10)))
    brake = brake_on(*nodes)
    staying = [n for n in nodes if n.counts and n.since > NOW - POOL.boot_deadline]
    staying += [n for n in nodes if n.phase is Phase.READY and n not in staying]
    room = POOL.nodes_max - sum(not node.gone for node in nodes)
    missing = max(min(POOL.target - len(staying), room), 0)
    pool_nodes = [node for node in nodes if not node.gone]
    assert bought(brake, *pool_nodes) == (
        missing if brake is None else min(missing, brake.allowance)
    )
    assert brake is None or brake.allowance <= 1


THERE = evolve(HERE, zone="there")


def stood_at(offering: Offering, node: Node) -> Node:
    assert node.launch is not None
    return evolve(node, launch=evolve(node.launch, offering=offering))


def test_only_the_offering_with_failing_machines_is_quarantined() -> None:
    failures = [failed(number, at=-5 - number) for number in range(MACHINES_MAX)]
    elsewhere = stood_at(THERE, served(9, at=-1))
    (place,) = quarantined_offerings(POOL, [*failures, elsewhere], now=NOW)
    assert place in scopes(HERE)
    assert place not in scopes(THERE)
    assert not quarantined_offerings(POOL, failures[1:], now=NOW), "two may be an accident"


def test_a_quarantine_lasts_until_a_machine_comes_up_and_ranks_last_for_an_hour() -> None:
    failures = [failed(number, at=-5) for number in range(MACHINES_MAX)]
    assert quarantined_offerings(POOL, [*failures, served(8, at=-6)], now=NOW)
    assert not quarantined_offerings(POOL, [*failures, served(8, at=-4)], now=NOW)
    (place,) = quarantined_offerings(POOL, failures, now=NOW).values()
    assert place.last_until == NOW - timedelta(minutes=5) + LONGEST_PAUSE


def test_a_quarantined_offering_is_bought_only_as_the_last_resort() -> None:
    failures = [failed(number, at=-5) for number in range(MACHINES_MAX)]
    shy = quarantined_offerings(POOL, failures, now=NOW)
    tokens = (Token(f"new-{number}") for number in range(1000))
    for offerings, chosen in (((HERE, THERE), THERE), ((HERE,), HERE)):
        pool = evolve(POOL, offerings=offerings, nodes_wanted=1)
        plan = plan_pool(pool, failures, now=NOW, new_tokens=tokens, quarantined=shy)
        (request,) = [action for action in plan.actions if isinstance(action, Request)]
        assert request.launch.offering == chosen
        assert "but machines did not come up there lately" in request.table


def test_one_machine_is_tried_at_once_at_an_offering_without_failures() -> None:
    failures = [failed(number, at=-1) for number in range(MACHINES_MAX)]
    both = evolve(POOL, offerings=(HERE, THERE))
    brake = brake_on(*failures, pool=both)
    assert brake is not None
    assert (brake.until, brake.allowance) == (NOW - timedelta(minutes=1), 1)
    assert bought(brake, *failures, pool=both) == 1
    failures.append(stood_at(THERE, failed(9, at=0)))
    brake = brake_on(*failures, pool=both)
    assert brake is not None
    assert (brake.until, brake.allowance) == (NOW + 2 * FIRST_PAUSE, 0)


def test_one_machine_at_a_time_is_tried_while_the_other_offering_is_sold_out() -> None:
    failures = [failed(number, at=-1) for number in range(MACHINES_MAX)]
    both = evolve(POOL, offerings=(HERE, THERE))
    asked_before = a_node(7, Phase.BOOTING, asked=-2)
    assert bought(brake_on(*failures, asked_before, pool=both), *failures, pool=both) == 1
    asked_since = a_node(8, Phase.BOOTING, asked=-0.5)
    assert bought(brake_on(*failures, asked_since, pool=both), *failures, pool=both) == 0


def requested_offerings(plan: Plan) -> list[Offering]:
    return [action.launch.offering for action in plan.actions if isinstance(action, Request)]


def test_a_failed_offering_is_tried_with_pauses_while_the_other_is_sold_out() -> None:
    failures = [failed(number, at=-1) for number in range(MACHINES_MAX)]
    both = evolve(POOL, offerings=(HERE, THERE))
    tokens = (Token(f"new-{number}") for number in range(1000))
    pauses, at = [], NOW - timedelta(minutes=1)
    for number in range(10, 16):
        minute = next(
            minute
            for minute in range(1, 100)
            if requested_offerings(
                plan_sold_out(THERE, both, failures, tokens, at + timedelta(minutes=minute))
            )
        )
        pauses.append(timedelta(minutes=minute))
        at += timedelta(minutes=minute + 2)
        failures.append(failed(number, at=(at - NOW) / timedelta(minutes=1)))
    assert pauses == [FIRST_PAUSE * 2**doublings for doublings in range(4)] + [LONGEST_PAUSE] * 2


def plan_sold_out(
    place: Offering, pool: Pool, nodes: list[Node], tokens: Iterator[Token], now: datetime
) -> Plan:
    """Plan while `place` is known to be sold out."""
    sold_out = Stockouts().after_refusal(place, Refusal.CAPACITY, "sold out", asked_at=now, now=now)
    return plan_pool(
        pool,
        nodes,
        now=now,
        new_tokens=tokens,
        market=Market(sold_out, now=now),
        breaker=find_breaker(pool, nodes, now=now),
        quarantined=quarantined_offerings(pool, nodes, now=now),
    )


def test_success_at_another_offering_does_not_lift_a_quarantine() -> None:
    nodes = [failed(number, at=-9) for number in range(MACHINES_MAX)]
    nodes.append(stood_at(THERE, served(9, at=-1)))
    both = evolve(POOL, offerings=(HERE, THERE))
    tokens = (Token(f"new-{number}") for number in range(1000))
    assert brake_on(*nodes, pool=both) is None
    assert requested_offerings(plan_sold_out(THERE, both, nodes, tokens, NOW)) == [HERE]
    nodes.append(a_node(10, Phase.BOOTING, asked=-1))
    assert requested_offerings(plan_sold_out(THERE, both, nodes, tokens, NOW)) == []


def test_an_hour_after_the_last_failure_one_machine_is_tried_at_the_failed_offering() -> None:
    nodes = [failed(number, at=-61) for number in range(MACHINES_MAX)]
    nodes.append(stood_at(THERE, served(9, at=-1)))
    both = evolve(POOL, offerings=(HERE, THERE))
    tokens = (Token(f"new-{number}") for number in range(1000))
    shy = quarantined_offerings(both, nodes, now=NOW)
    plan = plan_pool(both, nodes, now=NOW, new_tokens=tokens, quarantined=shy)
    assert requested_offerings(plan) == [HERE] + [THERE] * 8


def test_a_missing_member_of_a_gang_waits_for_the_quarantine_of_its_offering() -> None:
    gang = Gang(id="training-g0", nodes=2, offering=HERE)
    nodes = [failed(number, at=-1) for number in range(MACHINES_MAX)]
    nodes.append(a_node(9, Phase.BOOTING, asked=-2, gang=gang, waiting=True))
    pool = evolve(POOL, offerings=(HERE, THERE), gang=2, nodes_wanted=2)
    tokens = (Token(f"new-{number}") for number in range(1000))
    shy = quarantined_offerings(pool, nodes, now=NOW)
    plan = plan_pool(pool, nodes, now=NOW, new_tokens=tokens, quarantined=shy)
    assert requested_offerings(plan) == []
    later = NOW + FIRST_PAUSE
    shy = quarantined_offerings(pool, nodes, now=later)
    assert requested_offerings(
        plan_pool(pool, nodes, now=later, new_tokens=tokens, quarantined=shy)
    ) == [HERE]
