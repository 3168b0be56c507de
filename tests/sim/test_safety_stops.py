"""Automation stops before it destroys sound machines: silence, false faults, replacement loops."""

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.seeds import seeds

from navarch.core.disruption import DeferredBy
from navarch.core.health import CheckResult, Health
from navarch.core.ids import InstanceId, NodeId, PoolName
from navarch.service.fleet_health import HeldService
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool

TRAINING = PoolName("training")
SEEDS = range(20)
FEWER = seeds(20, gate=6)
HOUR_S = 3600.0


async def filled(world: World, nodes: int) -> list[NodeId]:
    await world.until(lambda: len(world.serving(TRAINING)) == nodes, within_s=HOUR_S, step_s=10.0)
    return [node.id for node in world.nodes(TRAINING)]


def retired(world: World) -> list[NodeId]:
    """Return every node that was ever given up, also those that are gone."""
    return [node.id for node in world.fleet().nodes.values() if node.retiring is not None]


def kinds(world: World) -> list[str]:
    return [event.kind for _, events in world.recorded for event in events]


# Silence


@pytest.mark.parametrize("minutes", [5, 20])
@pytest.mark.parametrize("seed", FEWER)
def test_a_fleet_that_stops_reporting_for_a_while_loses_no_node(seed: int, minutes: int) -> None:
    async def story(world: World) -> None:
        nodes = await filled(world, 100)
        for name in nodes:
            world.partition(name)
        await world.clock.sleep(240)
        pool = world.fleet().pools[TRAINING]
        assert pool.held is not None
        assert "nodes of pool training stopped reporting together" in pool.held
        assert "pool.held" in kinds(world), "an alert is sent"
        await world.clock.sleep(minutes * 60 - 240)
        assert retired(world) == []
        for name in nodes:
            world.partitioned.discard(name)
            world.hosts.wake(name)
        await world.until(lambda: len(world.serving(TRAINING)) == 100, within_s=300)
        await world.until(lambda: world.fleet().pools[TRAINING].held is None, within_s=60)
        assert retired(world) == []

    simulate(story, seed=seed, computed=True, pools=[a_pool(size=100, nodes_max=110)])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_single_silent_node_without_a_witness_is_replaced_after_ten_minutes(seed: int) -> None:
    async def story(world: World) -> None:
        world.cloud.habits = replace(world.cloud.habits, unchecked=True)
        nodes = await filled(world, 20)
        dead = nodes[3]
        world.silence(dead)
        await world.clock.sleep(600)
        assert retired(world) == []
        assert world.fleet().nodes[dead].health is Health.UNHEALTHY, "it takes no new work"
        assert world.fleet().pools[TRAINING].held is None, "one silent node is no outage"
        await world.until(lambda: retired(world) == [dead], within_s=150)
        await world.converge()

    simulate(story, seed=seed, computed=True, pools=[a_pool(size=20)])


@pytest.mark.parametrize("seed", FEWER)
def test_a_dead_machine_in_a_silent_fleet_is_replaced_and_no_other(seed: int) -> None:
    async def story(world: World) -> None:
        nodes = await filled(world, 60)
        for name in nodes:
            world.partition(name)
        world.silence(nodes[7])
        await world.clock.sleep(600)
        assert retired(world) == [nodes[7]]
        await world.clock.sleep(3000)
        assert retired(world) == [nodes[7]], "the others are unreachable, not dead"

    simulate(story, seed=seed, computed=True, pools=[a_pool(size=60, nodes_max=70)])


def test_a_crash_in_the_middle_of_an_outage_changes_nothing() -> None:
    async def story(world: World) -> None:
        nodes = await filled(world, 30)
        for name in nodes[:10]:
            world.partition(name)
        for _ in range(4):
            await world.clock.sleep(400)
            world.crash()
        await world.clock.sleep(400)
        assert retired(world) == []
        assert len([x for x in world.nodes(TRAINING) if x.held]) == 10
        assert {x.held.by for x in world.nodes(TRAINING) if x.held} == {DeferredBy.SILENCE}

    simulate(story, seed=1, computed=True, pools=[a_pool(size=30)])


def test_an_operator_can_release_a_silent_node_during_an_outage() -> None:
    async def story(world: World) -> None:
        nodes = await filled(world, 30)
        for name in nodes[:10]:
            world.partition(name)
        await world.clock.sleep(1200)
        assert retired(world) == []
        held = HeldService(world.clock, world.store)
        await held.release_held([nodes[4]], reason="the machine burnt down")
        await world.until(lambda: retired(world) == [nodes[4]], within_s=60)

    simulate(story, seed=1, computed=True, pools=[a_pool(size=30)])


# The cap


FALSE_ALARM = CheckResult(
    check="nvlink",
    health=Health.UNHEALTHY,
    reason="18 links down",
    fatal=True,
)


STORMS = [
    *[(60, 45, seed) for seed in range(6)],
    *[pytest.param(60, 45, seed, marks=pytest.mark.long) for seed in range(6, 20)],
    (288, 213, 3),
]


@pytest.mark.parametrize(("size", "ill", "seed"), STORMS)
def test_a_falsely_fatal_check_costs_the_budget_at_most_and_is_named(
    size: int, ill: int, seed: int
) -> None:
    budget = size // 20

    async def story(world: World) -> None:
        nodes = await filled(world, size)
        for name in nodes[:ill]:
            agent = world.agent(name)
            agent.results[FALSE_ALARM.check] = FALSE_ALARM
            agent.report_now()
            await world.clock.sleep(1)
        await world.clock.sleep(6 * HOUR_S)
        lost = len(retired(world))
        assert lost <= budget, "5 % of the pool"
        held = [x.held for x in world.nodes(TRAINING) if x.held]
        assert len(held) == ill - lost
        assert {each.by for each in held} == {DeferredBy.CHANGE}
        assert all("nvlink on" in x.because and "the check" in x.because for x in held)

    simulate(story, seed=seed, computed=True, pools=[a_pool(size=size, nodes_max=size + 32)])


@pytest.mark.parametrize("seed", SEEDS)
def test_two_nodes_that_break_in_one_hour_are_both_replaced_in_the_end(seed: int) -> None:
    async def story(world: World) -> None:
        nodes = await filled(world, 4)
        world.fail(nodes[0], "XID 79: GPU has fallen off the bus")
        world.fail(nodes[1], "XID 79: GPU has fallen off the bus")
        await world.clock.sleep(0.9 * HOUR_S)
        assert len(retired(world)) == 1, "the budget of a small pool is one node an hour"
        await world.until(lambda: set(retired(world)) == set(nodes[:2]), within_s=HOUR_S)
        await world.converge()

    simulate(story, seed=seed, computed=True, pools=[a_pool(size=4)])


# Replacement loops


async def break_one(world: World) -> set[InstanceId]:
    """Let one machine fail; return the machines that were there before."""
    sound = set(world.hosts.agents)
    world.fail(world.serving(TRAINING)[0], "XID 79: GPU has fallen off the bus")
    return sound


async def spoil_new_machines(world: World, seconds: float, sound: set[InstanceId]) -> None:
    """Let time pass in which the same check fails on every machine but those of `sound`."""
    until = world.clock.monotonic() + seconds
    while world.clock.monotonic() < until:
        for machine, agent in world.hosts.agents.items():
            if machine not in sound and FALSE_ALARM.check not in agent.results:
                agent.results[FALSE_ALARM.check] = FALSE_ALARM
                agent.report_now()
        await world.clock.sleep(5)


def paused(world: World) -> str:
    """Return why the pool replaces and buys nothing; empty if it does."""
    pool = world.fleet().pools[TRAINING]
    return "; ".join(filter(None, (pool.held, pool.braked)))


def heal(world: World) -> None:
    """Let the check pass on every machine."""
    for agent in world.hosts.agents.values():
        agent.results[FALSE_ALARM.check] = CheckResult(
            check=FALSE_ALARM.check, health=Health.HEALTHY
        )
        agent.report_now()


@pytest.mark.parametrize("seed", FEWER)
@pytest.mark.parametrize("size", [3, 60])
def test_a_pool_stops_replacing_when_all_its_new_machines_fail(seed: int, size: int) -> None:
    async def story(world: World) -> None:
        await filled(world, size)
        sound = await break_one(world)
        await spoil_new_machines(world, HOUR_S / 2, sound)
        assert len(retired(world)) == 3, "the budget of a day, the broken machine included"
        assert "replacements of the last hour failed" in paused(world)
        assert "pool.held" in kinds(world), "an alert is sent"
        await spoil_new_machines(world, 20 * HOUR_S, sound)
        assert len(retired(world)) == 3, "beyond the budget only operators act"
        await spoil_new_machines(world, 10 * HOUR_S, sound)
        gone = [x for x in world.recorded for event in x[1] if event.kind == "node.retiring"]
        assert len(gone) <= 6, "one budget a day"
        heal(world)
        await world.converge(within_s=3 * HOUR_S)

    simulate(story, seed=seed, computed=True, pools=[a_pool(size=size, nodes_max=size + 20)])


def test_a_pool_that_paused_replaces_again_when_a_new_machine_stays_well() -> None:
    async def story(world: World) -> None:
        await filled(world, 3)
        await spoil_new_machines(world, HOUR_S / 2, await break_one(world))
        assert "replacements of the last hour failed" in paused(world)
        heal(world)
        await world.until(lambda: len(world.serving(TRAINING)) == 3, within_s=600)
        await world.clock.sleep(timedelta(minutes=40).total_seconds())
        assert paused(world) == ""
        await world.clock.sleep(24 * HOUR_S)
        world.fail(world.serving(TRAINING)[0], "XID 79: GPU has fallen off the bus")
        await world.converge()

    simulate(story, seed=1, computed=True, pools=[a_pool(size=3)])


def test_a_pool_that_paused_buys_at_most_one_machine_to_try() -> None:
    async def story(world: World) -> None:
        await filled(world, 3)
        sound = await break_one(world)
        await spoil_new_machines(world, HOUR_S / 2, sound)
        before = len(world.alive())
        await world.ask(lambda fleet: fleet.scale(TRAINING, 9, reason="more work"))
        await spoil_new_machines(world, 240, sound)
        assert len(world.alive()) <= before + 1
        heal(world)
        await world.converge(within_s=6 * HOUR_S)

    simulate(story, seed=1, computed=True, pools=[a_pool(size=3, nodes_max=12)])
