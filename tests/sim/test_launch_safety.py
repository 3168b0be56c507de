"""Launches with lost answers and crashes: one machine for each node, and none forgotten."""

from collections import Counter

import pytest

from navarch.core.ids import PoolName
from navarch.core.ownership import NODE, TOKEN
from navarch.providers.simulated import Habits
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool

POOL = PoolName("training")
LOST_ANSWERS = Habits(remembers_tokens=False, lie=1.0, listing_lag_s=120.0)
NEVER_ANSWERS = Habits(remembers_tokens=False, hang=1.0, listing_lag_s=120.0)


async def whole(world: World) -> None:
    await world.until(lambda: len(world.serving(POOL)) == 2, within_s=7200)


def bought(world: World) -> Counter[str]:
    """Return how many machines were ever bought for each node."""
    return Counter(machine.request.name for machine in world.cloud.machines.values())


@pytest.mark.parametrize("habits", [LOST_ANSWERS, NEVER_ANSWERS], ids=["lost", "late"])
def test_a_launch_without_an_answer_buys_one_machine(habits: Habits) -> None:
    world = simulate(whole, seed=1, pools=[a_pool()], habits=habits)
    assert bought(world) == {"training-0": 1, "training-1": 1}


def test_labels_of_a_pool_do_not_hide_the_owner_of_its_machines() -> None:
    pool = a_pool(labels={NODE: "other-0", TOKEN: "other", "team": "red"})
    world = simulate(whole, seed=1, pools=[pool], habits=LOST_ANSWERS)
    assert bought(world) == {"training-0": 1, "training-1": 1}


@pytest.mark.parametrize("habits", [LOST_ANSWERS, NEVER_ANSWERS], ids=["lost", "late"])
def test_a_crash_during_a_launch_buys_no_second_machine(habits: Habits) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.cloud.machines) == 2, within_s=600)
        world.crash()
        await whole(world)

    world = simulate(story, seed=1, pools=[a_pool()], habits=habits)
    assert bought(world) == {"training-0": 1, "training-1": 1}


def test_a_later_leader_repeats_a_launch_with_the_term_in_which_it_was_decided() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.fleet().nodes) == 2, within_s=600)
        world.crash()
        await whole(world)
        await world.ask(lambda fleet: fleet.scale(POOL, 3, reason="more"))
        await world.until(lambda: len(world.serving(POOL)) == 3, within_s=7200)

    world = simulate(story, seed=1, pools=[a_pool(nodes_max=4)])
    tokens = {m.request.name: m.request.token for m in world.cloud.machines.values()}
    terms = {name: int(token.split("-")[1].removeprefix("t")) for name, token in tokens.items()}
    before = terms["training-0"]
    assert terms == {"training-0": before, "training-1": before, "training-2": before + 1}
    shown = {m.request.name: m.request.labels[TOKEN] for m in world.cloud.machines.values()}
    assert shown == tokens, "as tags of the machines, in every listing of the provider"


def test_a_machine_that_appears_after_its_node_was_abandoned_is_still_terminated() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.cloud.machines) == 2, within_s=600)
        await world.ask(lambda fleet: fleet.delete_pool(POOL, reason="not needed"))
        await world.until(lambda: not world.alive(), within_s=7200)

    world = simulate(story, seed=1, pools=[a_pool()], habits=LOST_ANSWERS)
    machines = {machine.id for machine in world.cloud.machines.values()}
    assert {node.instance for node in world.fleet().nodes.values()} == machines
