"""How many replacements that fail a pool buys within an hour."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase, Retirement
from navarch.core.records import evolve
from navarch.fleet.launch_breaker import LaunchBreaker, strictest
from navarch.fleet.replacement_bound import find_replacement_bound
from navarch.fleet.replacement_loop import ReplacementLoop
from navarch.testing.worlds import NOW, a_node, a_pool

POOL = a_pool(size=20)
MINUTE = timedelta(minutes=1)


def at(minute: float) -> datetime:
    return NOW + minute * MINUTE


def bought(
    number: int, *, minute: float, replaces: bool = True, phase: Phase = Phase.BOOTING
) -> Node:
    """Return a node with a machine that was requested then and has not come up."""
    other = NodeId(f"lost-{number}") if replaces else None
    node = a_node(f"training-{number}", phase=phase, replaces=other, health=Health.UNKNOWN)
    assert node.launch is not None
    launch = evolve(node.launch, asked_at=at(minute), launched_at=at(minute))
    return evolve(node, created_at=at(minute), since=at(minute), registered_at=None, launch=launch)


def without_agent(number: int, *, minute: float, replaces: bool = True) -> Node:
    """Return one that was given up ten minutes later."""
    failed = Retirement(reason="did not register", failed_at=at(minute + 10))
    return evolve(
        bought(number, minute=minute, replaces=replaces, phase=Phase.GONE), retiring=failed
    )


def ill(number: int, *, minute: float) -> Node:
    """Return one that registered after two minutes, and was ill a minute later."""
    fault = Condition(
        check="nvlink", health=Health.UNHEALTHY, reason="18 links down", since=at(minute + 3)
    )
    node = bought(number, minute=minute, phase=Phase.READY)
    return evolve(node, registered_at=at(minute + 2), health=Health.UNHEALTHY, conditions=(fault,))


def well(number: int, *, minute: float, replaces: bool = True) -> Node:
    """Return one that came up after two minutes."""
    node = bought(number, minute=minute, replaces=replaces, phase=Phase.READY)
    return evolve(node, registered_at=at(minute + 2), health=Health.HEALTHY)


def bound_of(
    *nodes: Node, minute: float = 0, most: int = 3, **facts: object
) -> ReplacementLoop | None:
    pool = evolve(POOL, **facts)  # type: ignore[arg-type]
    return find_replacement_bound(pool, nodes, failed_max=most, now=at(minute))


def test_the_first_replacements_are_tried_before_the_others_follow() -> None:
    bound = bound_of(bought(1, minute=-2), bought(2, minute=-2))
    assert bound is not None
    assert (bound.allowance, bound.pauses, bound.lets_grow) == (1, False, True)
    assert bound_of(bought(1, minute=-2), well(2, minute=-4)) is None


def test_a_machine_that_came_up_more_than_an_hour_ago_proves_nothing_for_the_next() -> None:
    bound = bound_of(well(1, minute=-61))
    assert bound is not None
    assert bound.allowance == 3


@pytest.mark.parametrize("fail", [without_agent, ill])
def test_as_many_failures_as_the_limit_end_purchases_until_the_hour_is_over(
    fail: Callable[..., Node],
) -> None:
    failed = [fail(n, minute=minute) for n, minute in enumerate((-50, -35, -20))]
    bound = bound_of(*failed)
    assert bound is not None
    assert (bound.allowance, bound.pauses) == (0, True)
    assert bound.until == at(10)
    assert "3 of 3 replacements of the last hour failed, at last training-2" in bound.reason
    after = bound_of(*failed, minute=10.1)
    assert after is not None
    assert (after.allowance, after.pauses) == (1, False)


def test_a_machine_that_falls_ill_late_in_its_probation_counts() -> None:
    def late(number: int, minute: float) -> Node:
        node = well(number, minute=minute)
        condition = evolve(ill(number, minute=minute).conditions[0], since=at(minute + 31))
        return evolve(node, health=Health.UNHEALTHY, conditions=(condition,))

    failed = [late(n, minute=-90 + n) for n in range(3)]
    bound = bound_of(*failed, minute=-1)
    assert bound is not None
    assert "the limit is 3" in bound.reason
    assert (bound.lets_grow, bound.allowance) == (False, 3)


def test_machines_that_came_up_in_between_do_not_lift_the_limit() -> None:
    failed = [ill(1, minute=-50), well(2, minute=-40), ill(3, minute=-30), well(4, minute=-20)]
    bound = bound_of(*failed, ill(5, minute=-10))
    assert bound is not None
    assert bound.allowance == 0


def test_after_a_failure_a_machine_that_is_still_coming_may_fail_too() -> None:
    bound = bound_of(ill(1, minute=-20), bought(2, minute=-3), bought(3, minute=-2, replaces=False))
    assert bound is not None
    assert (bound.allowance, bound.lets_grow) == (0, False)


def test_a_pool_may_grow_once_a_machine_came_up_after_the_failure() -> None:
    bound = bound_of(ill(1, minute=-20), well(2, minute=-10))
    assert bound is not None
    assert (bound.allowance, bound.lets_grow, bound.pauses) == (2, True, False)


def test_machines_that_failed_before_an_operator_released_the_pool_do_not_count() -> None:
    failed = [without_agent(n, minute=-40) for n in range(3)]
    bound = bound_of(*failed, brake_released_at=at(-1))
    assert bound is not None
    assert not bound.pauses


def test_a_gang_may_always_be_tried_as_a_whole() -> None:
    bound = bound_of(bought(1, minute=-1), gang=8)
    assert bound is not None
    assert bound.allowance == 7


def test_the_strictest_of_several_limits_applies() -> None:
    def limit(minute: float, allowance: int, *, pauses: bool, lets_grow: bool) -> LaunchBreaker:
        return LaunchBreaker(
            reason=f"until {minute}",
            until=at(minute),
            allowance=allowance,
            pauses=pauses,
            lets_grow=lets_grow,
        )

    trial = limit(60, 0, pauses=False, lets_grow=True)
    brake = limit(5, 1, pauses=True, lets_grow=False)
    assert strictest([]) is None
    assert strictest([trial, brake]) == limit(5, 0, pauses=True, lets_grow=False)
