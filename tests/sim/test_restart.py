"""A control plane may die at any moment."""

import pytest
from tests.support.seeds import seeds

from navarch.core.ids import PoolName
from navarch.sim.kernel.clock import SeededEntropy
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool, storm

TRAINING = PoolName("training")


@pytest.mark.parametrize("seed", seeds(500, gate=150))
def test_a_fleet_outlives_any_number_of_crashes(seed: int) -> None:
    async def story(world: World) -> None:
        chance = SeededEntropy(f"{seed}/story")
        for _ in range(6):
            await world.clock.sleep(chance.uniform(1.0, 400.0))
            serving = world.serving(TRAINING)
            if serving:
                trouble = chance.uniform(0, 1)
                victim = serving[int(chance.uniform(0, len(serving)))]
                if trouble < 0.25:
                    world.fail(victim, "XID 48: double bit ECC error")
                elif trouble < 0.4:
                    world.silence(victim)
                elif trouble < 0.5:
                    world.reclaim(victim)
            size = int(chance.uniform(2, 6))
            await world.ask(lambda fleet: fleet.scale(TRAINING, size, reason="the story"))  # noqa: B023
            await world.clock.sleep(chance.uniform(0.0, 60.0))
            world.crash()
        await world.converge()
        assert world.leadership.crashes == 6

    simulate(
        story, seed=seed, pools=[a_pool(size=2, nodes_max=6)], habits=storm(seed), error_rate=0.2
    )


def test_a_cloud_at_rest_is_not_listed_more_than_once_a_minute() -> None:
    """Frequent listings end once every open launch after a crash is resolved."""

    async def story(world: World) -> None:
        await world.clock.sleep(1.0)
        world.crash()
        await world.converge()
        await world.clock.sleep(600)
        before = world.leadership.crash_point.log.count("list")
        await world.clock.sleep(3600)
        assert world.leadership.crash_point.log.count("list") - before <= 61

    simulate(story, seed=1, pools=[a_pool(size=4)])


def test_a_restart_does_not_make_a_silent_node_healthy() -> None:
    """After a restart each node has a full timeout to report; that is no sign of life."""

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=1800)
        node = world.serving(TRAINING)[0]
        world.partition(node)
        await world.until(lambda: not world.fleet().nodes[node].serving, within_s=120)
        before = len(world.trace)
        world.crash()
        await world.clock.sleep(80)
        assert not world.fleet().nodes[node].serving
        assert not [x for x in world.trace[before:] if "every check passes" in x and node in x]

        world.partitioned.discard(node)
        await world.until(lambda: world.fleet().nodes[node].serving, within_s=32)

    pool = a_pool(TRAINING, size=3, nodes_max=3, unhealthy_after=10)
    for computed in (False, True):
        simulate(story, seed=7, pools=[pool], computed=computed)
