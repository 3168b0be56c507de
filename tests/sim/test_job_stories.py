"""Jobs on failing machines, under a control plane that is killed now and then."""

from datetime import timedelta

import pytest
from tests.support.seeds import seeds

from navarch.core.autoscaling import Autoscaling, QueueSettings
from navarch.core.ids import JobName, PoolName
from navarch.core.job import Job, JobState
from navarch.core.records import evolve
from navarch.meters.pools import JobsMeter
from navarch.ports.api import JobRequest
from navarch.service.jobs import JobQueue
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool, storm

TRAINING = PoolName("training")
GANG = JobName("gang")
QUEUE = Autoscaling(queue=QueueSettings(jobs_per_node=1))


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

        held = job(world).nodes
        assert victim not in held
        assert len(set(held)) == 3, "each node has room for one task of eight GPUs"
        assert set(held) <= set(world.serving(TRAINING))

    simulate(
        story, seed=seed, pools=[a_pool(size=4, nodes_max=6)], habits=storm(seed), error_rate=0.2
    )


def with_a_queue(world: World) -> None:
    """Let pools receive the demand of jobs as on the server, with machines that are always idle."""
    world.hosts.load = lambda _: 0.0
    world.leadership.metrics = JobsMeter(world.store, JobQueue(world.store))


@pytest.mark.parametrize("seed", seeds(20, gate=6))
def test_a_pool_comes_from_zero_for_a_job_keeps_its_idle_nodes_and_goes_back(seed: int) -> None:
    async def story(world: World) -> None:
        await world.clock.sleep(600)
        assert world.serving(TRAINING) == []
        assert world.control is not None
        jobs = world.control.jobs
        await jobs.submit_job(JobRequest(name=GANG, tasks=2, gpus=8))
        await world.until(lambda: job(world).state is JobState.PLACED, within_s=2 * 3600)
        nodes = job(world).nodes

        await world.clock.sleep(6 * 3600)
        assert (job(world).nodes, job(world).interruptions) == (nodes, 0)

        await jobs.finish_job(GANG)
        await world.until(lambda: world.serving(TRAINING) == [], within_s=2 * 3600)

    pool = evolve(a_pool(size=0, nodes_max=3), autoscaling=QUEUE, nodes_wanted=0)
    simulate(story, seed=seed, pools=[pool], prepare=with_a_queue)


@pytest.mark.parametrize("firm", [True, False])
def test_a_drain_waits_for_jobs_that_may_not_be_stopped_as_long_as_the_pool_allows(
    firm: bool,
) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
        assert world.control is not None
        request = JobRequest(name=GANG, gpus=8, preemptible=not firm)
        await world.control.jobs.submit_job(request)
        await world.until(lambda: job(world).state is JobState.PLACED, within_s=600)
        (node,) = job(world).nodes
        asked = world.clock.now()

        world.checkers.may_be_retired.add(node)
        await world.control.fleet.retire(node, reason="it is old")
        await world.until(lambda: job(world).interruptions > 0, within_s=3600)

        waited = (job(world).since - asked).total_seconds()
        assert (waited >= 600) is firm
        await world.until(lambda: job(world).state is JobState.PLACED, within_s=3600)
        assert node not in job(world).nodes

    pool = evolve(a_pool(size=2), drain_timeout=timedelta(minutes=10))
    simulate(story, seed=1, pools=[pool])
