"""The benchmark of the market buys as the product does: its figures are those of the product."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from bench.pools_market import OFFERINGS, Memory, Story, a_story, one_by_one

from navarch.core.ids import PoolName
from navarch.providers.simulated import Habits
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import H100, a_pool

TRAINING = PoolName("training")
CLOUD = Habits(
    listing_lag_s=30.0, machines_per_call=32, covers_zones=True, remembers_shared_tokens=False
)
"""Like CreateFleet at EC2: one call covers the zones of a region."""

KEYS = [f"{offering.zone}/{H100.instance_type}" for offering in OFFERINGS]

DROUGHTS = (0, 4, 9)
"""Demands of the trace that find nothing at first. They wait for an hour, on average."""


@dataclass(slots=True)
class Purchase:
    """What a demand took."""

    calls: int = 0
    mean_s: float = 0.0


def stock_at(story: Story, began_s: float) -> Iterator[tuple[float, str, int]]:
    """Yield how many machines can be bought from when on, in seconds since the demand."""
    for at_s, offering, machines in story.stock:
        yield at_s - began_s, KEYS[offering], machines


def bought_by_the_product(story: Story, seed: int) -> Purchase:
    """Let the controllers of the product buy what the demand of `story` needs."""
    ((began_s, nodes),) = story.demands
    found = Purchase()

    async def demand(world: World) -> None:
        def restock(key: str, machines: int) -> None:
            cloud = world.cloud
            held = sum(f"{x.request.zone}/{x.request.instance_type}" == key for x in cloud.alive())
            stock = {**(cloud.habits.stock or {}), key: held + machines}
            cloud.habits = replace(cloud.habits, stock=stock)

        since = world.clock.now()
        changes = list(stock_at(story, began_s))
        for _, key, machines in (each for each in changes if each[0] <= 0):
            restock(key, machines)
        await world.ask(lambda fleet: fleet.scale(TRAINING, nodes, reason="needed"))
        for at_s, key, machines in (each for each in changes if each[0] > 0):
            wait_s = at_s - (world.clock.now() - since).total_seconds()
            await world.clock.sleep(max(wait_s, 0.0))
            if len(world.cloud.machines) == nodes:
                break
            restock(key, machines)
        waits = [(x.launched_at - since).total_seconds() for x in world.cloud.machines.values()]
        assert len(waits) == nodes
        found.calls = world.leadership.crash_point.log.count("provision")
        found.mean_s = sum(waits) / nodes

    pool = a_pool(size=0, nodes_max=64, offerings=OFFERINGS)
    habits = replace(CLOUD, stock=dict.fromkeys(KEYS, 0))
    simulate(demand, seed=seed, computed=True, pools=[pool], habits=habits)
    return found


@pytest.mark.parametrize("number", DROUGHTS)
def test_the_product_makes_the_calls_that_the_benchmark_counts(number: int) -> None:
    story = list(one_by_one(a_story(0, days=30)))[number]
    product = bought_by_the_product(story, seed=number)
    Memory(story, f"0/{number}")
    modelled_s = sum(wait for _, wait in story.waits) / len(story.waits)
    assert story.calls > 50
    assert product.calls == pytest.approx(story.calls, rel=0.1)
    assert product.mean_s == pytest.approx(modelled_s, abs=75.0)
