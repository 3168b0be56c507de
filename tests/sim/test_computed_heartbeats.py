"""Computed heartbeats tell the same story as heartbeats sent one by one."""

from datetime import timedelta
from random import Random

import pytest

from navarch.core.health import CheckResult, Health
from navarch.core.ids import PoolName
from navarch.core.pool import Pool
from navarch.core.recovery import RecoveryStep
from navarch.service.agents import Timing
from navarch.sim.world import World, simulate
from navarch.testing.worlds import a_pool

POOL = PoolName("training")
TIMING = Timing(heartbeat_interval=timedelta(seconds=10), heartbeat_timeout=timedelta(seconds=30))


def outages(seed: int, *, computed: bool) -> list[str]:
    """Return the trace of minutes in which something happens every few seconds."""

    async def story(world: World) -> None:
        chance = Random(seed)
        await world.until(lambda: len(world.serving(POOL)) == 5, within_s=1800)
        for _ in range(25):
            await world.clock.sleep(chance.expovariate(1 / 12.0))
            trouble(world, chance)
        await world.converge()

    return simulate(story, seed=seed, pools=[pool()], computed=computed, timing=TIMING).trace


def trouble(world: World, chance: Random) -> None:
    serving = world.serving(POOL)
    kind = chance.choice(
        ["cut", "cut", "cut", "mend", "mend", "hang", "fail", "crash", "reclaim", "break"]
    )
    if kind == "crash" and chance.random() < 0.3:
        world.crash()
    elif kind == "mend" and world.cut_off:
        world.cut_off.discard(chance.choice(sorted(world.cut_off)))
    elif serving:
        node = chance.choice(serving)
        if kind == "cut":
            world.cut(node)
        elif kind == "hang":
            world.silence(node)
        elif kind == "fail":
            world.fail(node, "XID 79", fatal=chance.random() < 0.5, lasting=chance.random() < 0.5)
        elif kind == "reclaim":
            world.reclaim(node)
        elif kind == "break" and world.machine(node).alive:
            world.break_down(node, FALLEN, mended_by=RecoveryStep.REBOOT)


FALLEN = CheckResult(
    check="xid/79/GPU-0", health=Health.UNHEALTHY, reason="XID 79", fatal=True, lasting=True
)


def pool() -> Pool:
    return a_pool(POOL, size=5, nodes_max=12)


@pytest.mark.parametrize("tens", range(20))
def test_computed_and_sent_heartbeats_leave_the_same_log(tens: int) -> None:
    for seed in range(tens * 10, tens * 10 + 10):
        assert outages(seed, computed=True) == outages(seed, computed=False)


def test_an_agent_at_rest_tells_of_a_fault_at_once() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(POOL)) == 5, within_s=1800)
        await world.clock.sleep(1800)
        node = world.serving(POOL)[0]
        world.break_down(node, FALLEN, mended_by=RecoveryStep.REBOOT)
        await world.clock.sleep(1)
        assert world.fleet().nodes[node].health is Health.UNHEALTHY

    simulate(story, seed=1, pools=[pool()], computed=True, timing=TIMING)
