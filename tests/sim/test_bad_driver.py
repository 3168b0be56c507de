"""A bad driver on the whole fleet, and hardware that breaks at the same time."""

import pytest

from navarch.sim.rollout import NEW, OLD, Rollout, roll_out


def check(rollout: Rollout) -> None:
    assert rollout.acted_for_driver + rollout.acted_for_hardware <= rollout.budget
    assert rollout.acted_for_driver <= 5, "only those before it was seen to be the driver"
    assert rollout.acted_for_hardware == rollout.broken_hardware, "all of them are replaced"
    (named,) = rollout.named
    assert f"driver {NEW} (was {OLD})" in named
    assert rollout.held == rollout.broken_by_driver - rollout.acted_for_driver
    assert rollout.hardware_done_after_s < 120


@pytest.mark.parametrize("seed", [1, 2])
def test_the_driver_is_named_and_broken_machines_are_still_replaced(seed: int) -> None:
    check(roll_out(1_000, seed=seed))


@pytest.mark.long
def test_the_same_with_ten_thousand_nodes() -> None:
    check(roll_out(10_000))
