"""Stories of jobs whose machines fail, under a control plane that is killed now and then."""

import pytest

from navarch.core.ids import JobName, NodeId, PoolName
from navarch.core.job import Job, JobState
from navarch.fleet.jobs.placement import gpus_held
from navarch.ports.jobs import JobRequest
from navarch.sim.world import World, simulate
from navarch.testing.worlds import a_pool, storm

TRAINING = PoolName("training")
GANG = JobName("gang")


def job(world: World) -> Job:
    return world.store.fleet().jobs[GANG]


@pytest.mark.parametrize("seed", range(40))
def test_a_job_that_loses_a_machine_is_placed_again_and_nothing_is_held_twice(seed: int) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 4, within_s=4 * 3600)
        assert world.control is not None
        await world.control.jobs.submit_job(JobRequest(name=GANG, tasks=3, gpus=8))
        await world.until(lambda: job(world).state is JobState.PLACED, within_s=600)
        victim = job(world).nodes[0]

        world.fail(victim, "XID 79: GPU has fallen off the bus")
        await world.until(lambda: job(world).interruptions > 0, within_s=4 * 3600)
        await world.until(lambda: job(world).state is JobState.PLACED, within_s=4 * 3600)
        await world.converge()

        held = gpus_held(world.store.fleet().jobs)
        assert NodeId(victim) not in held
        assert set(held.values()) == {8}
        assert set(held) <= set(world.serving(TRAINING))

    simulate(story, seed=seed, pools=[a_pool(size=4, nodes_max=6)], habits=storm(seed), trouble=0.2)
