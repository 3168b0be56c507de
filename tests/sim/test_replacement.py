"""Stories of machines that fail, and of the fleet that goes on."""

from decimal import Decimal

import pytest

from navarch.core.ids import PoolName, ProviderName
from navarch.core.offering import Offering
from navarch.core.pool import Pool
from navarch.providers.simulated import Habits
from navarch.sim.world import World, simulate

TRAINING = PoolName("training")
H100 = Offering(
    provider=ProviderName("sim"),
    instance_type="h100-8x",
    region="r1",
    price_per_hour=Decimal("98.32"),
)
POOL = Pool(name=TRAINING, offerings=(H100,), nodes_min=4, nodes_max=6)

STORM = Habits(
    listing_lag_s=60.0,
    sold_out=0.15,
    transient=0.1,
    mute=0.05,
    lie=0.1,
    both=0.03,
    hang=0.02,
    dead_on_arrival=0.1,
)


@pytest.mark.parametrize("seed", range(300))
def test_a_fallen_gpu_is_replaced_and_nobody_else_is_disturbed(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=7200)
        victim, *rest = world.serving(TRAINING)

        world.fail(victim, "XID 79: GPU has fallen off the bus")
        await world.until(lambda: victim not in world.serving(TRAINING), within_s=120)
        await world.converge()

        assert victim not in world.serving(TRAINING)
        assert set(rest) <= set(world.serving(TRAINING)), "a healthy node was disturbed"

    simulate(story, seed=seed, pools=[POOL], habits=STORM, trouble=0.2)
