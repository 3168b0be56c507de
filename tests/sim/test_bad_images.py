"""A fault that every new machine shows: the pool pauses before it buys many of them."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from tests.support.seeds import seeds

from navarch.core.health import CheckResult, Health
from navarch.core.ids import PoolName
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool

TRAINING = PoolName("training")
FAULT = CheckResult(check="xid", health=Health.UNHEALTHY, reason="XID 79", fatal=True, lasting=True)
HOUR = timedelta(hours=1)
LIMIT = 3


def turn_bad(world: World, chance: Random) -> None:
    """From now on no new machine is any good: without an agent, or with a fault from the first."""
    kind = chance.choice(["no agent", "ill at once", "mixed"])
    share = {"no agent": 1.0, "ill at once": 0.0, "mixed": 0.5}[kind]
    world.cloud.habits = replace(world.cloud.habits, dead_on_arrival=share)
    if kind != "no agent":
        world.hosts.on_up = lambda agent: agent.results.update(xid=FAULT)


def most_within_an_hour(world: World, since: object) -> int:
    asked = sorted(
        node.launch.asked_at
        for node in world.fleet().in_pool(TRAINING).values()
        if node.launch is not None and node.launch.asked_at > since  # type: ignore[operator]
    )
    return max((sum(x <= y < x + HOUR for y in asked) for x in asked), default=0)


@pytest.mark.parametrize("seed", seeds(1_000, gate=12))
def test_a_pool_never_buys_more_bad_machines_in_an_hour_than_the_limit(seed: int) -> None:
    chance = Random(f"bad images/{seed}")
    size = chance.choice([4, 12, 40])

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == size, within_s=7200)
        # A machine that came up well an hour ago says nothing about those of today.
        await world.clock.sleep(3700)
        turn_bad(world, chance)
        turned_at = world.clock.now()
        for _ in range(chance.randint(2, 5)):
            sound = world.serving(TRAINING)
            for victim in chance.sample(sound, min(chance.choice([1, 1, 1, 3, 8]), len(sound) - 1)):
                world.reclaim(victim)
            await world.clock.sleep(chance.uniform(600, 7200))
            assert most_within_an_hour(world, turned_at) <= LIMIT

    simulate(story, seed=seed, pools=[a_pool(size=size, nodes_max=size + 10)])
