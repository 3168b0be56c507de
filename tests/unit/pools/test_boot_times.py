"""How long a machine that has not registered is waited for."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navarch.core.ids import InstanceId, NodeId, PoolName, ProviderName, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.launch import Launch, Offering, Progress
from navarch.core.node import Node, Phase, Retirement
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet import lifecycle
from navarch.fleet.boot_times import BOOTS_KEPT, GRACE, LONGEST, SLOWER, BootTimes, BootWatch
from navarch.fleet.instance_state import bought, seen
from navarch.fleet.planner import plan_pool
from navarch.fleet.pool_index import PoolIndex

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HERE = Offering(provider=ProviderName("lambda"), instance_type="h100-8x")
THERE = Offering(provider=ProviderName("rack"), instance_type="h100-8x")
POOL = Pool(name=PoolName("training"), offerings=(HERE,), nodes_min=1, nodes_max=9)
FLOOR = POOL.boot_deadline


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def booting(number: int = 0, *, ago: float = 0, at: Offering = HERE, **launch: object) -> Node:
    """Return a node with a machine that was bought so many minutes ago."""
    name, since = NodeId(f"training-{number}"), NOW - minutes(ago)
    bought_as = Launch(
        token=Token(f"t-{number}"),
        node=name,
        pool=POOL.name,
        offering=at,
        asked_at=since,
        launched_at=since,
        instance=InstanceId(f"i-{number}"),
    )
    return Node(
        id=name,
        pool=POOL.name,
        phase=Phase.BOOTING,
        since=since,
        created_at=since,
        launch=evolve(bought_as, **launch),  # type: ignore[arg-type]
    )


def served(number: int, *, took: float, ago: float = 600, at: Offering = HERE) -> Node:
    """Return a node whose agent registered so many minutes after its launch."""
    node = booting(number, ago=ago, at=at)
    return evolve(node, phase=Phase.READY, registered_at=node.since + minutes(took))


def abandoned(number: int, *, after: float, ago: float = 60) -> Node:
    """Return a node that was given up so many minutes after its launch."""
    node = booting(number, ago=ago)
    why = Retirement(reason="did not register", failed_at=node.since + minutes(after))
    return evolve(node, phase=Phase.GONE, retiring=why)


def watching(*nodes: Node, started_at: datetime | None = None) -> BootWatch:
    times = BootTimes()
    for node in nodes:
        times.note_node(node)
    return BootWatch(times=times, started_at=started_at)


def given_up_after(node: Node, *past: Node, pool: Pool = POOL) -> timedelta:
    at = watching(*past).deadline(pool, node).at
    assert at is not None
    return at - node.since


def test_without_a_boot_on_record_the_configured_deadline_applies() -> None:
    assert given_up_after(booting()) == FLOOR
    assert given_up_after(booting(), pool=evolve(POOL, boot_deadline=minutes(25))) == minutes(25)


def test_a_slow_kind_is_waited_for_three_times_its_usual_boot() -> None:
    past = [served(number, took=9 if number else 12) for number in range(1, 40)]
    assert given_up_after(booting(), *past) == minutes(9) * SLOWER


def test_boots_of_another_kind_do_not_count() -> None:
    past = [served(number, took=15, at=THERE) for number in range(1, 10)]
    assert given_up_after(booting(), *past) == FLOOR


def test_fast_boots_do_not_shorten_the_configured_deadline() -> None:
    past = [served(number, took=1) for number in range(1, 40)]
    assert given_up_after(booting(), *past) == FLOOR


def test_one_boot_in_thirty_that_took_an_hour_does_not_count() -> None:
    past = [served(number, took=59 if number == 7 else 5) for number in range(1, 31)]
    assert given_up_after(booting(), *past) == minutes(5) * SLOWER


def test_no_wait_is_longer_than_the_longest_unless_the_pool_says_so() -> None:
    past = [served(number, took=55) for number in range(1, 5)]
    assert given_up_after(booting(), *past) == LONGEST
    patient = evolve(POOL, boot_deadline=minutes(150))
    assert given_up_after(booting(), *past, pool=patient) == minutes(150)


@pytest.mark.parametrize("took", [-5, 24 * 60])
def test_a_time_that_is_no_boot_is_not_learned(took: float) -> None:
    """A machine that was stopped and started again, and one that was adopted."""
    times = watching(served(1, took=took)).times
    assert times.usual(("lambda", "h100-8x")) is None  # type: ignore[arg-type]


def test_a_new_image_is_learned_after_enough_boots() -> None:
    old = [served(number, took=19, ago=6000) for number in range(1, 90)]
    new = [served(number, took=4, ago=600) for number in range(100, 100 + BOOTS_KEPT)]
    assert given_up_after(booting(), *old, *new) == minutes(4) * SLOWER


def test_each_machine_gets_twice_the_time_of_those_given_up_until_one_registers() -> None:
    first = abandoned(1, after=10, ago=90)
    assert given_up_after(booting(), first) == minutes(20)
    second = abandoned(2, after=20, ago=60)
    assert given_up_after(booting(), first, second) == minutes(40)
    assert given_up_after(booting(), first, second, abandoned(3, after=40)) == LONGEST
    came_up = served(4, took=5, ago=30)
    assert given_up_after(booting(), first, second, came_up) == minutes(5) * SLOWER


def test_a_machine_given_up_while_others_registered_says_nothing_about_the_wait() -> None:
    dead = abandoned(1, after=10, ago=30)
    assert given_up_after(booting(), dead, served(2, took=3, ago=30)) == FLOOR


def test_two_failures_of_a_kind_that_has_come_up_before_are_accidents() -> None:
    before = served(9, took=3, ago=600)
    dead = [abandoned(number, after=12, ago=60) for number in range(1, 4)]
    assert given_up_after(booting(), before, *dead[:2]) == FLOOR
    assert given_up_after(booting(), before, *dead) == minutes(24)


def test_the_failure_of_one_machine_gives_no_more_time_to_those_bought_with_it() -> None:
    together = abandoned(1, after=10, ago=11)
    assert given_up_after(booting(ago=11), together) == FLOOR
    assert given_up_after(booting(ago=0.5), together) == minutes(20)


def test_a_failure_that_the_store_has_forgotten_does_not_count() -> None:
    dead = abandoned(1, after=30)
    watch = watching(dead)
    watch.times.forget(dead)
    node = booting()
    assert watch.deadline(POOL, node).at == node.since + FLOOR


def test_a_machine_that_its_provider_has_not_started_has_the_longest_wait() -> None:
    assert given_up_after(booting(pending=True)) == LONGEST


def test_the_wait_begins_anew_with_each_step_of_the_machine() -> None:
    step = Progress(step="set-up command 1 of 2 is done", at=NOW)
    node = booting(ago=9, progress=step)
    assert given_up_after(node) == minutes(9) + FLOOR


def test_no_step_extends_a_boot_beyond_the_longest_wait() -> None:
    node = booting(ago=58, progress=Progress(step="another one", at=NOW))
    assert given_up_after(node) == LONGEST


def test_nothing_is_given_up_while_agents_cannot_reach_the_control_plane() -> None:
    node, pool = booting(ago=500), evolve(POOL, unreachable=True)
    assert watching().deadline(pool, node).at is None
    assert not watching().is_past(pool, node, NOW)
    assert "cannot reach" in watching().awaited(pool, node, NOW)


@pytest.mark.parametrize("ago", [9, 59, 500])
def test_after_an_outage_a_machine_has_time_to_register(ago: float) -> None:
    node, pool = booting(ago=ago), evolve(POOL, reachable_since=NOW)
    assert watching().deadline(pool, node).at == NOW + GRACE
    restarted = watching(started_at=NOW)
    assert restarted.deadline(POOL, node).at == NOW + GRACE


def test_a_restart_before_the_launch_changes_nothing() -> None:
    node = booting(ago=3)
    watch = watching(started_at=NOW - minutes(60))
    assert watch.deadline(POOL, node).at == node.since + FLOOR


@given(
    st.lists(st.floats(-100, 100), max_size=40),
    st.lists(st.floats(0, 300), max_size=10),
    st.floats(0, 600),
    st.floats(0, 600),
    st.booleans(),
    st.floats(1, 120),
)
def test_every_machine_has_at_least_the_configured_time_and_a_bounded_one(
    took: Sequence[float],
    waited: Sequence[float],
    ago: float,
    resumed: float,
    pending: bool,
    configured: float,
) -> None:
    past = [served(number, took=each) for number, each in enumerate(took, start=1)]
    past += [abandoned(number, after=each) for number, each in enumerate(waited, start=100)]
    started_at = NOW - minutes(resumed)
    pool = evolve(POOL, boot_deadline=minutes(configured))
    node = booting(ago=ago, pending=pending)
    at = watching(*past, started_at=started_at).deadline(pool, node).at
    assert at is not None
    assert at >= node.since + pool.boot_deadline
    assert at <= max(node.since, started_at) + max(LONGEST, pool.boot_deadline)


@given(st.permutations([*range(1, 8)]), st.lists(st.integers(1, 7), max_size=9))
def test_boot_times_are_the_same_in_whatever_order_they_are_read(
    order: Sequence[int], again: Sequence[int]
) -> None:
    nodes = {number: served(number, took=number) for number in range(1, 6)}
    nodes |= {number: abandoned(number, after=number) for number in (6, 7)}
    expected = watching(*nodes.values()).deadline(POOL, booting())
    assert (
        watching(*(nodes[each] for each in [*order, *again])).deadline(POOL, booting()) == expected
    )


def test_the_reason_says_what_is_awaited_and_until_when() -> None:
    past = [served(number, took=9) for number in range(1, 35)]
    started = Progress(step="the provider has started the machine", at=NOW - minutes(8))
    node = booting(ago=11, progress=started)
    assert watching(*past).awaited(POOL, node, NOW) == (
        "waiting for the agent to register, for 11 min so far; h100-8x at lambda usually takes "
        "9 min (p95 of 34 boots); last progress at 11:52:00: the provider has started the machine; "
        "given up at 12:19:00 UTC"
    )


def test_a_plan_waits_for_a_slow_kind_and_wakes_when_the_wait_ends() -> None:
    past = [served(number, took=9) for number in range(1, 35)]
    watch, pool = watching(*past), evolve(POOL, next_index=100)
    node = booting(ago=20)
    tokens = iter([Token("new")])
    plan = plan_pool(pool, [node], now=NOW, new_tokens=tokens, boots=watch)
    assert plan.actions == ()
    assert plan.wake_at == node.since + minutes(27)
    index = PoolIndex([node])
    shown, steady = index.shown_for(pool, NOW, watch)
    assert shown == []
    assert steady.late_at == node.since + minutes(27)
    assert [x.id for x in index.shown_for(pool, NOW + minutes(7), watch)[0]] == [node.id]


def a_machine(status: InstanceStatus) -> Instance:
    return Instance(
        id=InstanceId("i-0"), provider=HERE.provider, status=status, instance_type="h100-8x"
    )


def test_a_listing_records_when_the_machine_was_started() -> None:
    node = booting(ago=4)
    pending = seen(node, a_machine(InstanceStatus.PENDING), now=NOW - minutes(3))
    assert pending.launch is not None
    assert pending.launch.pending
    running = seen(pending, a_machine(InstanceStatus.RUNNING), now=NOW)
    assert running.launch is not None
    assert not running.launch.pending
    assert running.launch.progress is not None
    assert running.launch.progress.at == NOW
    assert seen(running, a_machine(InstanceStatus.RUNNING), now=NOW) is running


def test_the_ledger_records_when_the_agent_registered() -> None:
    ready = lifecycle.registered(booting(ago=4, pending=True), now=NOW)
    assert ready.launch is not None
    assert ready.launch.registered_at == NOW
    late_listing = bought(ready.launch, a_machine(InstanceStatus.PENDING), now=NOW)
    assert late_listing is ready.launch, "its agent has registered, so it has started"
