"""Bounds, cooldown, schedules and the shrink delay, which apply to every autoscaler."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from navarch.autoscale.factory import build_autoscaler
from navarch.core.autoscaling import (
    Autoscaling,
    CompositeSettings,
    ReactiveSettings,
    ScheduledSettings,
    Window,
)
from navarch.core.health import Health
from navarch.core.ids import PoolName
from navarch.core.limits import NODES_PER_POOL_MAX
from navarch.core.node import Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.sizing import Opinion, bounds_at, choose_surplus, plan_size
from navarch.ports.api import Capacity
from navarch.ports.autoscaler import PoolState
from navarch.service.offers import plan_capacity
from navarch.service.specs import pool_from
from navarch.testing.worlds import NOW, a_node, a_pool


def a_scaled_pool(nodes: int, **settings: object) -> Pool:
    return evolve(a_pool(size=1, nodes_max=10, nodes_wanted=nodes), **settings)  # type: ignore[arg-type]


def said(*nodes: int, every_s: float = 30.0, needed: int = 0) -> list[Opinion]:
    """Return recommendations up to now, oldest first."""
    return [
        Opinion(
            at=NOW - timedelta(seconds=every_s * (len(nodes) - 1 - i)),
            nodes=count,
            reason=f"{count} are right",
            nodes_needed=needed,
        )
        for i, count in enumerate(nodes)
    ]


def test_a_pool_grows_at_once_within_its_bounds() -> None:
    assert plan_size(a_scaled_pool(3), said(7), now=NOW).nodes == 7
    assert plan_size(a_scaled_pool(3), said(99), now=NOW).nodes == 10


def test_no_autoscaler_takes_a_pool_above_the_limit_whatever_maximum_is_stored() -> None:
    pool = a_scaled_pool(3, nodes_max=2**53)
    assert plan_size(pool, said(10**9), now=NOW).nodes == NODES_PER_POOL_MAX
    assert plan_size(pool, said(4, needed=10**9), now=NOW).nodes == NODES_PER_POOL_MAX


def test_no_autoscaler_resizes_a_pool_above_the_limit() -> None:
    pool = a_scaled_pool(10**9, nodes_max=2**53)
    for opinions in ([], said(4), said(*[4] * 11), said(10**12)):
        assert plan_size(pool, opinions, now=NOW).nodes == 10**9
    assert "paused" in plan_size(pool, said(4), now=NOW).reason


def test_any_change_of_size_starts_the_cooldown() -> None:
    pool = a_scaled_pool(3, scaled_at=NOW - timedelta(seconds=100))

    sizing = plan_size(pool, said(7), now=NOW)

    assert sizing.nodes == 3
    assert sizing.reason == "cooldown for another 200s: 7 are right"
    later = NOW + timedelta(seconds=200)
    assert plan_size(pool, [replace(said(7)[0], at=later)], now=later).nodes == 7


def test_a_pool_without_cooldown_does_not_wait() -> None:
    pool = a_scaled_pool(3, scaled_at=NOW, cooldown=timedelta(0))

    assert plan_size(pool, said(4), now=NOW).nodes == 4


def test_a_pool_does_not_shrink_before_its_shrink_delay() -> None:
    sizing = plan_size(a_scaled_pool(5), said(2, 2, 2), now=NOW)

    assert sizing.nodes == 5
    assert sizing.reason == "watched for 60s of 300s: 2 are right"


def test_a_pool_shrinks_to_the_highest_recommendation_of_the_delay() -> None:
    quiet = [2] * 11

    assert plan_size(a_scaled_pool(5), said(*quiet), now=NOW).nodes == 2
    assert plan_size(a_scaled_pool(5), said(*quiet[:5], 4, *quiet[:5]), now=NOW).nodes == 4
    busy = plan_size(a_scaled_pool(5), said(*quiet[:5], 6, *quiet[:5]), now=NOW)
    assert busy.nodes == 5
    assert busy.reason == "6 nodes were wanted 150s ago"
    assert plan_size(a_scaled_pool(5), said(6, *quiet), now=NOW).nodes == 2


def test_pending_work_is_a_floor_for_every_autoscaler() -> None:
    grown = plan_size(a_scaled_pool(1), said(1, needed=4), now=NOW)

    assert grown.nodes == 4
    assert grown.reason == "the work that runs and waits needs 4 nodes"
    assert plan_size(a_scaled_pool(6), said(*[1] * 11, needed=4), now=NOW).nodes == 4


def test_a_pool_can_shrink_to_zero_and_grow_again() -> None:
    empty = a_pool(size=0, nodes_max=4, nodes_wanted=0)

    assert plan_size(evolve(empty, nodes_wanted=1), said(*[0] * 11), now=NOW).nodes == 0
    assert plan_size(empty, said(0, needed=2), now=NOW).nodes == 2


SCHEDULED = Autoscaling(
    scheduled=ScheduledSettings(
        windows=(
            Window(start=9, end=17, nodes_min=4, nodes_max=50),
            Window(start=22, end=6, nodes_min=0, nodes_max=2),
        )
    )
)


@pytest.mark.parametrize(
    ("hour", "bounds"), [(8, (1, 10)), (9, (4, 10)), (16, (4, 10)), (17, (1, 10)), (23, (1, 2))]
)
def test_a_schedule_narrows_the_bounds_and_never_widens_them(
    hour: int, bounds: tuple[int, int]
) -> None:
    found = bounds_at(a_scaled_pool(3, autoscaling=SCHEDULED), NOW.replace(hour=hour))

    assert (found.nodes_min, found.nodes_max) == bounds


def test_a_schedule_inside_another_strategy_bounds_its_member_and_not_the_pool() -> None:
    nested = Autoscaling(composite=CompositeSettings(members=(SCHEDULED,)))
    night = NOW.replace(hour=23)
    found = bounds_at(a_scaled_pool(3, autoscaling=nested), night)
    state = PoolState(
        pool=PoolName("p"),
        now=night,
        current_nodes=3,
        healthy_nodes=3,
        min_nodes=found.nodes_min,
        max_nodes=found.nodes_max,
    )

    assert (found.nodes_min, found.nodes_max) == (1, 10)
    assert build_autoscaler(nested).recommend(state).target_nodes <= 2


@pytest.mark.parametrize(("hour", "size"), [(9, 4), (23, 2), (18, 3)])
def test_the_bounds_of_the_hour_apply_despite_the_cooldown(hour: int, size: int) -> None:
    now = NOW.replace(hour=hour)
    pool = a_scaled_pool(3, autoscaling=SCHEDULED, scaled_at=now)

    assert plan_size(pool, [], now=now).nodes == size


def born(hours: int) -> datetime:
    return NOW - timedelta(hours=hours)


def test_busy_nodes_stay_and_idle_ones_go_before_used_ones() -> None:
    nodes = [
        a_node("busy", created_at=born(9)),
        a_node("used", created_at=born(8)),
        a_node("idle", created_at=born(1)),
        a_node("unwatched", created_at=born(1)),
    ]
    peaks = {node.id: peak for node, peak in zip(nodes, (95.0, 30.0, 0.0), strict=False)}

    assert choose_surplus(nodes, peaks, 3) == ["idle", "used"]


def test_nodes_that_never_ran_or_are_unhealthy_go_first() -> None:
    nodes = [
        a_node("idle"),
        a_node("broken", health=Health.UNHEALTHY),
        a_node("boots", phase=Phase.BOOTING),
        a_node("asked", phase=Phase.REQUESTED),
        a_node("gone", phase=Phase.GONE),
    ]

    assert choose_surplus(nodes, {nodes[0].id: 0.0}, 9) == ["asked", "boots", "broken", "idle"]


def test_gpus_requested_with_up_are_a_floor_for_the_autoscaler() -> None:
    """`up` overrides the autoscaler: low utilization must not undo it."""
    autoscaled = a_pool(size=1, nodes_max=8, autoscaling=Autoscaling(reactive=ReactiveSettings()))
    asked = Capacity(name=autoscaled.name, gpus=32, gpu_type="h100")
    spec = plan_capacity(asked, autoscaled.offerings, autoscaled)
    pool = evolve(pool_from(spec, autoscaled), shrink_after=timedelta(0), cooldown=timedelta(0))
    idle = Opinion(at=NOW, nodes=0, reason="idle")

    assert pool.autoscaling == autoscaled.autoscaling
    assert plan_size(pool, [idle], now=NOW).nodes == 4
    rush = Opinion(at=NOW, nodes=9, reason="busy")
    assert plan_size(pool, [rush], now=NOW).nodes == 8, "it may grow as far as it could before"


def test_pools_with_gangs_are_sized_in_whole_gangs() -> None:
    pool = a_pool(size=0, nodes_max=10, gang=4, nodes_wanted=4)
    asked = [Opinion(at=NOW, nodes=nodes, reason="load") for nodes in (5, 8, 9)]

    assert [plan_size(pool, [each], now=NOW).nodes for each in asked] == [8, 8, 8]
