"""Machines that take long to boot are waited for, and dead ones are not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from navarch.core.event import about
from navarch.core.ids import NodeId, PoolName
from navarch.core.records import evolve
from navarch.providers.simulated import Habits
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import STORMY, a_pool

TRAINING = PoolName("training")
SLOW = Habits(setup_s=(1300.0, 1700.0))
"""Agents start 22 to 28 minutes after their machines, far beyond the default deadline."""


def abandoned(world: World) -> list[NodeId]:
    """Return the nodes that were given up because their agents had not registered."""
    nodes = world.fleet().in_pool(TRAINING).values()
    return [node.id for node in nodes if node.retiring and node.retiring.failed_at]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("crash", [False, True])
def test_a_kind_that_boots_slower_than_the_deadline_is_learned(seed: int, crash: bool) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=4 * 3600)
        given_up = abandoned(world)
        assert len(given_up) <= 6, "each failure doubles the time of the next machine"
        if crash:
            world.crash()
        await world.ask(lambda fleet: fleet.scale(TRAINING, 6, reason="the story"))
        await world.until(lambda: len(world.serving(TRAINING)) == 6, within_s=3600)
        assert abandoned(world) == given_up, "from the first boot on, none is given up"

    simulate(story, seed=seed, pools=[a_pool(size=3, nodes_max=9)], habits=SLOW)


@pytest.mark.parametrize("seed", range(5))
def test_boots_are_remembered_when_no_machine_of_the_kind_is_left(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 1, within_s=4 * 3600)
        await world.ask(lambda fleet: fleet.scale(TRAINING, 0, reason="the night"))
        await world.clock.sleep(48 * 3600)
        assert not world.fleet().in_pool(TRAINING), "the fleet has forgotten the machines"
        world.crash()
        await world.ask(lambda fleet: fleet.scale(TRAINING, 2, reason="the morning"))
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        assert abandoned(world) == []

    pool = evolve(a_pool(size=1, nodes_max=3), nodes_min=0, nodes_wanted=1)
    simulate(story, seed=seed, pools=[pool], habits=SLOW)


@pytest.mark.parametrize("seed", range(10))
def test_machines_that_their_provider_starts_late_are_not_given_up(seed: int) -> None:
    async def story(world: World) -> None:
        await world.clock.sleep(900)
        world.crash()
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=3600)
        assert abandoned(world) == []

    late = Habits(boot_s=(1500.0, 2400.0))
    simulate(story, seed=seed, pools=[a_pool(size=3, nodes_max=9)], habits=late)


@pytest.mark.parametrize("seed", range(10))
def test_machines_that_boot_while_the_control_plane_is_down_are_not_given_up(seed: int) -> None:
    def down_for_two_hours(world: World) -> None:
        world.leadership.down_s = 7200.0

    async def story(world: World) -> None:
        await world.until(lambda: len(world.cloud.alive()) == 4, within_s=120)
        world.crash()
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=3 * 3600)
        assert abandoned(world) == []

    pools = [a_pool(size=4, nodes_max=9)]
    simulate(story, seed=seed, pools=pools, prepare=down_for_two_hours)


@pytest.mark.parametrize("seed", range(10))
def test_a_machine_that_never_comes_up_is_given_up_within_an_hour(seed: int) -> None:
    async def story(world: World) -> None:
        for _ in range(6 * 60):
            await world.clock.sleep(60)
            for machine in world.alive():
                waited = world.clock.now() - machine.launched_at
                assert waited < timedelta(minutes=65), machine.request.name
        world.cloud.habits = world.cloud.habits.calm()
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3 * 3600)

    dead = Habits(dead_on_arrival=1.0)
    simulate(story, seed=seed, pools=[a_pool(size=2, nodes_max=9)], habits=dead)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("crash", [False, True])
def test_machines_that_report_their_steps_are_not_given_up(seed: int, crash: bool) -> None:
    """The same machines without reports are: see the first test of this file."""

    async def story(world: World) -> None:
        if crash:
            await world.clock.sleep(900)
            world.crash()
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=3600)
        assert abandoned(world) == []
        steps = await world.store.events(about=about("node", NodeId("training-0")))
        assert sum(x.event.kind == "node.setting_up" for x in steps) >= 5

    reporting = replace(SLOW, step_s=240.0)
    simulate(story, seed=seed, pools=[a_pool(size=3, nodes_max=9)], habits=reporting)


@pytest.mark.parametrize("seed", range(5))
def test_a_boot_script_that_loops_is_given_up_within_an_hour(seed: int) -> None:
    async def story(world: World) -> None:
        for _ in range(4 * 60):
            await world.clock.sleep(60)
            for machine in world.alive():
                waited = world.clock.now() - machine.launched_at
                assert waited < timedelta(minutes=70), machine.request.name
        assert abandoned(world), "the story has given none up"

    looping = Habits(setup_s=(86_400.0, 86_400.0), step_s=60.0)
    simulate(story, seed=seed, pools=[a_pool(size=2, nodes_max=9)], habits=looping)


@pytest.mark.parametrize("seed", range(20))
def test_slow_boots_in_a_storm_fill_the_pool(seed: int) -> None:
    async def story(world: World) -> None:
        for _ in range(4):
            await world.clock.sleep(1000)
            world.crash()
        await world.converge(within_s=6 * 3600)

    stormy = replace(STORMY, setup_s=(300.0, 1200.0))
    pools = [a_pool(size=3, nodes_max=9)]
    simulate(story, seed=seed, pools=pools, habits=stormy, error_rate=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_why_says_what_a_booting_node_waits_for(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        await world.ask(lambda fleet: fleet.scale(TRAINING, 3, reason="the story"))
        await world.clock.sleep(40)
        (newest,) = [x for x in world.nodes(TRAINING) if x.registered_at is None]
        why = await world.ask(lambda fleet: fleet.why(about("node", newest.id)))
        assert "waiting for the agent to register" in why.state
        assert "(p95 of 2 boots)" in why.state
        assert "given up at" in why.state

    simulate(story, seed=seed, pools=[a_pool(size=2, nodes_max=9)])
