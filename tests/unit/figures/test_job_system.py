"""The workload system: who waits and who runs where, as its memory has it."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from random import Random

import pytest

from navarch.core.fleet import Change, Fleet, apply
from navarch.core.ids import NodeId
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.running import run_simulated
from navarch.sim.scenario.job import JobConfig
from navarch.sim.world.job import JobState
from navarch.sim.world.job_system import JobSystem
from navarch.testing.worlds import a_node

NODES = [NodeId(f"n-{number}") for number in range(6)]
MINUTE = timedelta(minutes=1)
CONFIGS = [
    JobConfig(name="small", gpus=2, count=12, every=7 * MINUTE, duration=40 * MINUTE),
    JobConfig(name="wide", tasks=3, gpus=4, count=3, every=20 * MINUTE, duration=40 * MINUTE),
    JobConfig(
        name="saved",
        count=4,
        every=11 * MINUTE,
        duration=40 * MINUTE,
        checkpoint_every=5 * MINUTE,
    ),
]


def remembered(system: JobSystem) -> tuple[object, ...]:
    """Return who waits, who runs on each node, and how busy each is."""
    return (
        set(system._waiting),
        {node: [job.name for job in system._on(node)] for node in NODES},
        {node: system.load(node) for node in NODES},
    )


def counted(system: JobSystem) -> tuple[object, ...]:
    """Return the same, found out by looking at every job."""
    every = system.jobs.values()
    running = [job for job in every if job.state is JobState.RUNNING]
    tasks = [(at, job.config.gpus) for job in running for at in job.nodes.values()]
    return (
        {job.name for job in every if job.state is JobState.WAITING},
        {node: [job.name for job in running if node in job.nodes.values()] for node in NODES},
        {node: 100.0 * sum(gpus for at, gpus in tasks if at == node) / 8 for node in NODES},
    )


@pytest.mark.parametrize("seed", range(3))
def test_what_it_remembers_of_its_jobs_is_what_they_say(seed: int) -> None:
    chance = Random(seed)
    fleet = apply(Fleet(), Change(nodes=[a_node(name, gpus=8) for name in NODES]))
    seen: set[JobState] = set()

    async def story() -> None:
        clock = SimClock()
        system = JobSystem(clock, SeededEntropy(f"{seed}"), fleet=lambda: fleet)
        life = asyncio.ensure_future(system.run(CONFIGS))
        for _ in range(200):
            await clock.sleep(chance.uniform(1, 120))
            node = chance.choice(NODES)
            match chance.randrange(6):
                case 0:
                    system.struck(node)
                case 1:
                    await system.drain(node, "to be seen to")
                case 2:
                    await system.uncordon(node)
            assert remembered(system) == counted(system)
            seen.update(job.state for job in system.jobs.values())
        life.cancel()
        with suppress(asyncio.CancelledError):
            await life

    run_simulated(story())
    assert seen == set(JobState)


def test_a_job_that_is_stopped_is_placed_again_without_further_news() -> None:
    fleet = apply(Fleet(), Change(nodes=[a_node(name, gpus=8) for name in NODES]))

    async def story() -> int:
        clock = SimClock()
        system = JobSystem(clock, SeededEntropy("1"), fleet=lambda: fleet)
        life = asyncio.ensure_future(system.run(CONFIGS[:1]))
        await clock.sleep(10)
        (job,) = system.jobs.values()
        (node,) = job.nodes.values()
        system.look()  # Nothing waits, so that nothing is put off by it.
        await clock.sleep(1)
        system.struck(node)
        await clock.sleep(0)
        await clock.sleep(0)
        life.cancel()
        with suppress(asyncio.CancelledError):
            await life
        return job.starts

    assert run_simulated(story()) == 2
