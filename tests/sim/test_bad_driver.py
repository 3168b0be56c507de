"""A bad driver on the whole fleet, and hardware that breaks at the same time."""

import pytest
from bench.rollout import NEW, OLD, Rollout, roll_out

from navarch.core.disruption import DeferredBy
from navarch.core.health import CheckResult, Health
from navarch.core.ids import PoolName
from navarch.core.recovery import RecoveryStep
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool

TRAINING = PoolName("training")
NODES = 30


def check(rollout: Rollout) -> None:
    assert rollout.acted_for_driver + rollout.acted_for_hardware <= rollout.budget
    assert rollout.acted_for_driver <= 5, "only those before it was seen to be the driver"
    assert rollout.acted_for_hardware == rollout.broken_hardware, "all of them are replaced"
    (named,) = rollout.named
    assert f"driver {NEW} (was {OLD})" in named
    assert rollout.held == rollout.broken_by_driver - rollout.acted_for_driver
    # So many at once are a burst, which waits two minutes for its cause.
    assert rollout.hardware_done_after_s < 240
    assert rollout.acted_in_rollback == 0, "nobody is given up for a driver that is being taken off"
    assert rollout.held_in_the_end == 0


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_driver_is_named_and_broken_machines_are_still_replaced(seed: int) -> None:
    check(roll_out(1_000, seed=seed))


@pytest.mark.long
def test_the_same_with_ten_thousand_nodes() -> None:
    check(roll_out(10_000))


STUCK = CheckResult(
    check="xid/119/GPU-0",
    health=Health.UNHEALTHY,
    reason="XID 119",
    fatal=True,
    lasting=True,
    action="reset_gpu",
    facts={"code": "119", "kind": "xid", "gpu": "GPU-0"},
)


async def upgraded(world: World) -> None:
    """Put the bad driver on every machine, and wait until all are held back."""
    await world.until(lambda: len(world.serving(TRAINING)) == NODES, within_s=3600, step_s=10.0)
    for node in world.nodes(TRAINING):
        world.install_driver(node.id, NEW)
        agent = world.agent(node.id)
        agent.results[STUCK.check] = STUCK
        agent.report_now()
    await world.until(lambda: len(held(world)) + given_up(world) == NODES, within_s=300)


def held(world: World) -> list[str]:
    return [x.id for x in world.nodes(TRAINING) if x.held and x.held.by is DeferredBy.CHANGE]


def given_up(world: World) -> int:
    return sum(node.retiring is not None for node in world.fleet().in_pool(TRAINING).values())


def boot_with(world: World, driver: str, node: str) -> None:
    world.hosts.driver = driver
    found = next(x for x in world.nodes(TRAINING) if x.id == node)
    world.machine_restarted(world.machine(found.id), RecoveryStep.REBOOT)


def test_the_workload_system_goes_on_using_what_a_change_is_suspected_of() -> None:
    async def story(world: World) -> None:
        await upgraded(world)
        await world.clock.sleep(60)
        closed = {node for what, node in world.workloads.calls if what in ("cordon", "drain")}
        assert closed == {n.id for n in world.fleet().in_pool(TRAINING).values() if n.retiring}
        assert len(closed) <= NODES // 5, "those before it was seen to be the driver"
        assert not closed & set(held(world))

    simulate(story, seed=4, pools=[a_pool(size=NODES, nodes_max=NODES + 5)])


@pytest.mark.parametrize("crash", [False, True], ids=["", "with a restart of the control plane"])
def test_machines_that_boot_for_long_while_a_driver_is_taken_off_are_kept(crash: bool) -> None:
    async def story(world: World) -> None:
        await upgraded(world)
        before, waiting = given_up(world), held(world)
        world.hosts.reboot_s = (300.0, 1200.0)
        for name in waiting:
            boot_with(world, OLD, name)
            await world.clock.sleep(20)
        if crash:
            world.crash()
        await world.clock.sleep(1800)
        assert given_up(world) == before, "they were silent for a reboot, not for ever"
        assert held(world) == []
        await world.converge()

    simulate(story, seed=4, pools=[a_pool(size=NODES, nodes_max=NODES + 5)])


def test_a_machine_that_does_not_come_back_from_the_reboot_is_replaced_in_the_end() -> None:
    async def story(world: World) -> None:
        await upgraded(world)
        dead = held(world)[0]
        node = next(x.id for x in world.nodes(TRAINING) if x.id == dead)
        before = given_up(world)
        world.silence(node)
        await world.clock.sleep(1500)
        assert given_up(world) == before, "it may still boot"
        await world.until(lambda: world.fleet().nodes[node].retiring is not None, within_s=3600)
        assert given_up(world) == before + 1

    simulate(story, seed=5, pools=[a_pool(size=NODES, nodes_max=NODES + 5)])
