"""A sold-out market: few calls, shared by all nodes, remembered across a restart."""

from dataclasses import replace

import pytest

from navarch.core.errors import NotFoundError
from navarch.core.event import about
from navarch.core.ids import PoolName
from navarch.core.records import evolve
from navarch.providers.simulated import Habits
from navarch.service.why import explain
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import H100, a_pool

TRAINING, BATCH = PoolName("training"), PoolName("batch")
SOLD_OUT = Habits(stock={"h100-8x": 0})
POOLS = [a_pool(size=16), a_pool("batch", size=16)]


def calls(world: World) -> int:
    return world.leadership.crash_point.log.count("provision")


@pytest.mark.parametrize("seed", range(5))
def test_thirty_two_nodes_without_stock_cost_three_calls_in_two_minutes(seed: int) -> None:
    async def story(world: World) -> None:
        await world.clock.sleep(600)
        before = calls(world)
        await world.clock.sleep(3600)
        assert 80 <= calls(world) - before <= 95
        world.cloud.habits = replace(world.cloud.habits, stock=None)
        await world.until(
            lambda: len(world.serving(TRAINING)) == len(world.serving(BATCH)) == 16, within_s=600
        )

    simulate(story, seed=seed, pools=POOLS, habits=SOLD_OUT)


@pytest.mark.parametrize("seed", range(5))
def test_a_restart_remembers_what_was_refused(seed: int) -> None:
    async def story(world: World) -> None:
        await world.clock.sleep(600)
        before = calls(world)
        world.crash()
        await world.clock.sleep(60)
        assert calls(world) - before <= 8

    simulate(story, seed=seed, pools=POOLS, habits=SOLD_OUT)


def test_why_shows_the_table_behind_each_choice() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 16, within_s=1200)
        node = world.nodes(TRAINING)[0]
        launch = node.launch
        assert launch is not None
        assert await explain(world.store, about("launch", node.id)) == await explain(
            world.store, about("launch", launch.token)
        ), "a launch may be called by its node"
        with pytest.raises(NotFoundError, match="no launch named 'nobody-9'"):
            await explain(world.store, about("launch", "nobody-9"))
        why = await explain(world.store, about("launch", launch.token))
        (row,) = why.steps[-1].details
        assert row.startswith("→ h100-8x at sim in region-1, 98.32/h, score 0, odds ")

    simulate(story, seed=1, pools=POOLS)


@pytest.mark.parametrize("seed", range(5))
def test_a_pool_goes_elsewhere_when_no_machine_comes_up_at_its_first_choice(seed: int) -> None:
    bad, good = evolve(H100, zone="bad"), evolve(H100, zone="good")

    async def story(world: World) -> None:
        # Up to four minutes until the first machines are listed as started, ten until they are
        # given up, three for one elsewhere, three for the rest; two were requested again at the
        # first choice before three had failed there.
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=1260)
        await world.until(lambda: len(world.serving(TRAINING)) == 6, within_s=600)
        serving = [node for node in world.nodes(TRAINING) if node.serving]
        assert {node.launch and node.launch.offering.zone for node in serving} == {"good"}
        # Half an hour later one breaks: its successor is not bought in the bad zone either.
        await world.clock.sleep(1800)
        bought = len(world.cloud.machines)
        world.fail(world.serving(TRAINING)[0], "XID 79")
        await world.until(lambda: len(world.serving(TRAINING)) < 6, within_s=600)
        await world.until(lambda: len(world.serving(TRAINING)) == 6, within_s=600)
        assert len(world.cloud.machines) == bought + 1

    pools = [a_pool(size=6, nodes_max=8, offerings=(bad, good))]
    simulate(story, seed=seed, pools=pools, habits=Habits(dead_zones=frozenset({"bad"})))
