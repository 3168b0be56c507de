"""Gangs on nodes that leave, fail, slow down or kill their programs: each cause interrupts once."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import pytest

from navarch.app.controllers import Opinions
from navarch.core.disruption import Disruption, DisruptionBudget, GovernorSettings
from navarch.core.event import about
from navarch.core.health import CRASH_LOOP, Health
from navarch.core.ids import JobName, NodeId, PoolName
from navarch.core.job import Job, JobState
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.jobs.crash_loops import DEATHS_MIN, SETTLING
from navarch.fleet.jobs.swaps import PLACED_FOR_MIN, SWAPPED
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.work import WorkCheck
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.api import JobRequest
from navarch.ports.checks import MachineView
from navarch.providers.simulated import Habits
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool

TRAINING = PoolName("training")
GANG = JobName("gang")
SEEDS = range(900, 908)
ANY_BUDGET = (DisruptionBudget(nodes_max=99),)
UNLIMITED = Opinions(governor=lambda: GovernorSettings(budgets={}))


def job(world: World, name: str = GANG) -> Job:
    return world.store.fleet().jobs[JobName(name)]


async def start(
    world: World, *, tasks: int, size: int, name: str = GANG, preemptible: bool = True
) -> Job:
    """Wait for the pool, and place a gang on some of its nodes."""
    await world.until(lambda: len(world.serving(TRAINING)) == size, within_s=4 * 3600)
    request = JobRequest(name=JobName(name), tasks=tasks, gpus=8, preemptible=preemptible)
    await world.call_jobs(lambda api: api.submit_job(request))
    await world.until(lambda: job(world, name).state is JobState.PLACED, within_s=600)
    return job(world, name)


def play(
    seed: int,
    pool: Pool,
    story: Callable[[World], Awaitable[None]],
    *,
    opinions: Opinions | None = None,
) -> None:
    simulate(story, seed=seed, pools=[pool], error_rate=0.05, opinions=opinions)


async def grow_old(world: World, old: set[NodeId]) -> None:
    """Let the nodes of the gang expire; expect that it is interrupted once."""
    await world.clock.sleep(4 * 3600)
    world.crash()
    await world.until(lambda: all(world.fleet().nodes[name].gone for name in old), within_s=9e3)
    await world.until(lambda: job(world).state is JobState.PLACED, within_s=3600)

    assert job(world).interruptions == 1
    assert old.isdisjoint(job(world).nodes)


async def heat_up(world: World, hot: Sequence[NodeId]) -> None:
    """Let nodes of the gang fail one after another; expect that it is interrupted once."""
    for name in hot:
        world.fail(name, "GPU 0 is at 97 C", fatal=False, lasting=False)
        world.checkers.may_be_retired.add(name)
        await world.clock.sleep(30)
    world.crash()
    await world.until(lambda: job(world).interruptions > 0, within_s=3600)
    await world.until(lambda: {*hot}.isdisjoint(job(world).nodes), within_s=3600)
    await world.until(lambda: job(world).state is JobState.PLACED, within_s=3600)
    await world.clock.sleep(3600)

    assert job(world).interruptions == 1
    assert {*hot}.isdisjoint(job(world).nodes)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_nodes_of_a_gang_that_expire_together_interrupt_it_once(seed: int) -> None:
    async def story(world: World) -> None:
        old = {*(await start(world, tasks=3, size=4)).nodes}
        await grow_old(world, old)

    aged = Disruption(lifetime_max=timedelta(hours=5), budgets=ANY_BUDGET)
    play(seed, a_pool(size=4, nodes_max=9, disruption=aged), story)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_nodes_of_a_gang_in_two_pools_that_expire_together_interrupt_it_once(
    seed: int,
) -> None:
    """Machines need up to six minutes more than others: the successors serve one by one."""

    async def story(world: World) -> None:
        for pool in pools:
            await world.until(lambda pool=pool: len(world.serving(pool.name)) == 2, within_s=9e3)  # type: ignore[misc]
        old = {*(await start(world, tasks=4, size=2)).nodes}
        assert {world.fleet().nodes[name].pool for name in old} == {x.name for x in pools}
        await grow_old(world, old)

    aged = Disruption(lifetime_max=timedelta(hours=5), budgets=ANY_BUDGET)
    pools = [a_pool(name, size=2, nodes_max=6, disruption=aged) for name in (TRAINING, "other")]
    simulate(story, seed=seed, pools=pools, error_rate=0.05, habits=Habits(setup_s=(0.0, 360.0)))


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_of_a_gang_that_fail_one_after_another_interrupt_it_once(seed: int) -> None:
    async def story(world: World) -> None:
        hot = (await start(world, tasks=3, size=7)).nodes
        await heat_up(world, hot)

    play(seed, a_pool(size=7, nodes_max=12), story, opinions=UNLIMITED)


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_nodes_of_a_gang_in_two_pools_that_fail_one_after_another_interrupt_it_once(
    seed: int,
) -> None:
    async def story(world: World) -> None:
        for pool in pools:
            await world.until(lambda pool=pool: len(world.serving(pool.name)) == 3, within_s=9e3)  # type: ignore[misc]
        placed = (await start(world, tasks=5, size=3)).nodes
        hot = [
            name for pool in pools for name in placed if world.fleet().nodes[name].pool == pool.name
        ][1:4]
        assert {world.fleet().nodes[name].pool for name in hot} == {each.name for each in pools}
        await heat_up(world, hot)

    pools = [a_pool(name, size=3, nodes_max=7) for name in (TRAINING, "other")]
    simulate(story, seed=seed, pools=pools, error_rate=0.05, opinions=UNLIMITED)


@pytest.mark.parametrize("late_s", [2.0, 20.0, 45.0])
@pytest.mark.parametrize("spare", [True, False])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_a_fault_that_kills_the_program_and_drains_the_node_interrupts_the_gang_once(
    seed: int, spare: bool, late_s: float
) -> None:
    """The program ends at once; its framework reports that before the agent reports the fault."""

    async def story(world: World) -> None:
        placed = await start(world, tasks=3, size=4 if spare else 3)
        victim = placed.nodes[1]
        await world.call_jobs(
            lambda api: api.requeue_job(
                GANG, reason="NCCL timed out", placed_at=placed.since, node=victim
            )
        )
        world.crash()
        await world.clock.sleep(late_s)
        world.fail(victim, "XID 79: GPU has fallen off the bus")
        await world.until(lambda: job(world).state is JobState.PLACED, within_s=4 * 3600)
        await world.clock.sleep(1800)

        assert (job(world).interruptions, job(world).state) == (1, JobState.PLACED)
        assert victim not in job(world).nodes

    size = 4 if spare else 3
    play(seed, a_pool(size=size, nodes_max=size + 2), story)


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_a_gang_that_dies_again_and_again_on_one_node_starts_there_no_more(seed: int) -> None:
    async def story(world: World) -> None:
        placed = await start(world, tasks=4, size=4)
        victim = placed.nodes[2]
        for _ in range(DEATHS_MIN):
            await world.until(lambda: job(world).state is JobState.PLACED, within_s=600)
            since = job(world).since
            await world.clock.sleep(120)
            await world.call_jobs(
                lambda api, since=since: api.requeue_job(  # type: ignore[misc]
                    GANG, reason="XID 94", placed_at=since, node=victim
                )
            )
        world.crash()
        await world.until(lambda: looping(world) == [victim], within_s=300)
        world.crash()
        await world.clock.sleep(2 * 3600)
        assert (job(world).state, looping(world)) == (JobState.WAITING, [victim])
        assert world.fleet().nodes[victim].counts, (
            "the evidence keeps work off, and removes nothing"
        )
        (condition,) = world.fleet().nodes[victim].conditions
        assert "gang (3)" in condition.reason

        await world.ask(lambda api: api.declare_healthy(victim, reason="the cable was loose"))
        await world.until(lambda: job(world).state is JobState.PLACED, within_s=600)
        await world.clock.sleep(600)
        assert looping(world) == []

    play(seed, a_pool(size=4), story)


def looping(world: World) -> list[NodeId]:
    return [
        node.id
        for node in world.fleet().nodes.values()
        if not node.gone and any(each.check == CRASH_LOOP for each in node.conditions)
    ]


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_a_job_that_dies_everywhere_costs_no_node(seed: int) -> None:
    async def story(world: World) -> None:
        await start(world, tasks=2, size=6, name="calm")
        await world.clock.sleep(900)
        await start(world, tasks=1, size=6)
        blamed: set[NodeId] = set()
        for _ in range(12):
            await world.until(lambda: job(world).state is JobState.PLACED, within_s=600)
            placed = job(world)
            await world.clock.sleep(100)
            await world.call_jobs(
                lambda api, since=placed.since: api.requeue_job(  # type: ignore[misc]
                    GANG, reason="segmentation fault", placed_at=since
                )
            )
            blamed |= {*looping(world)}
        assert len({death.node for death in job(world).deaths}) > 1
        assert blamed == set()
        assert len(world.serving(TRAINING)) == 6

    play(seed, a_pool(size=6), story)


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_no_job_starts_on_a_node_with_a_fatal_fault_while_its_replacement_is_deferred(
    seed: int,
) -> None:
    async def story(world: World) -> None:
        await start(world, tasks=2, size=4)
        faulty = [name for name in world.serving(TRAINING) if name not in job(world).nodes]
        for name in faulty:
            world.fail(name, "XID 79: GPU has fallen off the bus")
        await world.until(lambda: bool(held_nodes(world)), within_s=1800)
        (kept,) = held_nodes(world)
        world.crash()
        request = JobRequest(name=JobName("next"), tasks=2, gpus=8)
        await world.call_jobs(lambda api: api.submit_job(request))
        for _ in range(60):
            await world.clock.sleep(60)
            assert kept.id not in job(world, "next").nodes
        assert job(world).interruptions == 0

    play(seed, a_pool(size=4), story)


def held_nodes(world: World) -> list[Node]:
    return [node for node in world.nodes(TRAINING) if node.held is not None]


def speed(world: World, node: NodeId, *, slow: bool) -> None:
    """Give the agent of a node the readings of eight GPUs at work, one of them slow if asked."""
    agent = next(each for each in world.hosts.agents.values() if each.node == node)
    gpus = SimulatedGpus(world.clock, agent.entropy, count=8, seed=agent.machine.id)
    host = SimulatedHost(world.clock, agent.entropy, node, jobs={4711: GANG})
    for index in range(8):
        clock = 1400 if slow and index == 5 else 1965 + 5 * index
        gpus.work(4711, clock_mhz=clock, power_w=680.0 + 3 * index, index=index)
    for result in WorkCheck().run(MachineView(now=world.clock.now(), gpus=gpus, host=host)):
        agent.results[result.check] = result
    agent.wake()


@pytest.mark.parametrize("seed", SEEDS[:3])
@pytest.mark.parametrize("size", [5, 4])
def test_a_straggler_is_swapped_for_an_idle_node_and_the_job_moves_once(
    seed: int, size: int
) -> None:
    async def story(world: World) -> None:
        placed = await start(world, tasks=4, size=size)
        victim = placed.nodes[1]
        for name in placed.nodes:
            speed(world, name, slow=name == victim)
        moved_at = None
        for minute in range(150):
            await world.clock.sleep(60)
            if minute == 70:
                world.crash()
            if minute % 20 == 0 and job(world).state is JobState.PLACED:
                await world.call_jobs(lambda api: api.checkpoint_job(GANG))
            if job(world).interruptions and moved_at is None:
                moved_at = world.clock.now()
        node = world.fleet().nodes[victim]
        assert node.health is Health.DEGRADED
        assert node.counts, "a straggler is not terminated"
        if size == 4:
            assert (job(world).interruptions, job(world).nodes) == (0, placed.nodes)
            assert node.cordoned is None
            return
        assert job(world).interruptions == 1
        assert victim not in job(world).nodes
        assert moved_at is not None
        assert moved_at >= placed.since + PLACED_FOR_MIN
        assert (node.phase, (node.cordoned or "").startswith(SWAPPED)) == (Phase.READY, True)

    pool = evolve(a_pool(size=size), drain_timeout=timedelta(hours=1))
    play(seed, pool, story)


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_a_job_that_is_submitted_during_a_swap_does_not_get_the_spare(seed: int) -> None:
    async def story(world: World) -> None:
        placed = await start(world, tasks=3, size=4, preemptible=False)
        victim = placed.nodes[1]
        for name in placed.nodes:
            speed(world, name, slow=name == victim)
        await world.until(
            lambda: world.fleet().nodes[victim].phase is Phase.DRAINING, within_s=7200
        )
        rival = JobRequest(name=JobName("rival"), gpus=8, priority=90)
        await world.call_jobs(lambda api: api.submit_job(rival))
        world.crash()
        await world.clock.sleep(60)
        await world.call_jobs(lambda api: api.requeue_job(GANG, reason="saved its work"))
        await world.until(lambda: job(world).state is JobState.PLACED, within_s=600)

        assert victim not in job(world).nodes
        assert job(world, "rival").state is JobState.WAITING
        (spare,) = {*job(world).nodes} - {*placed.nodes}
        why = await world.ask(lambda api: api.why(about("node", spare)))
        assert any(f"reserved for job gang, which leaves {victim}" in x.reason for x in why.steps)

    play(seed, evolve(a_pool(size=4), drain_timeout=timedelta(hours=1)), story)


def test_a_node_on_which_a_program_died_is_free_again_after_the_settling_time() -> None:
    async def story(world: World) -> None:
        placed = await start(world, tasks=2, size=2)
        died_at = world.clock.now()
        await world.call_jobs(
            lambda api: api.requeue_job(
                GANG, reason="out of memory", placed_at=placed.since, node=placed.nodes[0]
            )
        )
        await world.until(lambda: job(world).state is JobState.PLACED, within_s=600)
        assert SETTLING <= job(world).since - died_at <= SETTLING + timedelta(seconds=10)

    play(1, a_pool(size=2), story)
