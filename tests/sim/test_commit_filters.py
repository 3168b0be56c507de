"""Queueing every pool and recovery after every commit changes nothing."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from tests.support.seeds import seeds

from navarch.control.health.recovery import RecoveryController
from navarch.control.pools.sizing import PoolPlanningController
from navarch.control.runtime.runtime import Runtime
from navarch.core.disruption import Disruption
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.pool import Pool
from navarch.core.recovery import RecoveryStep, Remediation
from navarch.ports.store import Committed
from navarch.providers.simulated import Habits
from navarch.service.agents import Timing
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import STORMY, a_pool

CALM, LADDER = PoolName("calm"), PoolName("ladder")
TIMING = Timing(heartbeat_interval=timedelta(seconds=10), heartbeat_timeout=timedelta(seconds=30))
UNCONTAINED = CheckResult(
    check="xid/95/GPU-0",
    health=Health.UNHEALTHY,
    reason="XID 95",
    fatal=True,
    lasting=True,
    action="reset_gpu",
    facts={"code": "95", "kind": "xid", "gpu": "GPU-0"},
)


def queue_everything(runtime: Runtime, committed: Committed) -> None:
    """Queue every pool and every recovery, after every commit."""
    on_commit(runtime, committed)
    fleet = committed.after
    for worker in runtime._workers:
        controller = worker.controller
        if isinstance(controller, PoolPlanningController):
            for pool in fleet.pools:
                controller.queue.add(pool)
        elif isinstance(controller, RecoveryController):
            for recovery in fleet.recoveries:
                controller.queue.add(recovery)


on_commit = Runtime.on_commit


def pools() -> list[Pool]:
    return [
        a_pool(
            CALM,
            size=1,
            nodes_wanted=4,
            nodes_max=7,
            drain_timeout=timedelta(seconds=90),
            disruption=Disruption(lifetime_max=timedelta(hours=2)),
        ),
        a_pool(
            LADDER, size=1, nodes_wanted=3, nodes_max=5, remediation=Remediation(strategy="ladder")
        ),
    ]


def an_eventful_hour(seed: int) -> list[str]:
    """Return the trace of quiet spells between every kind of event.

    In every third world the cloud announces what it will do, every fourth is stormy, and in half
    of the others heartbeats are computed.
    """

    async def story(world: World) -> None:
        chance = Random(seed)
        await world.clock.sleep(600)
        for _ in range(20):
            # Mostly dense, with gaps in which no commit wakes a controller.
            await world.clock.sleep(chance.expovariate(1 / chance.choice([5.0, 60.0, 400.0])))
            await happen(world, chance)
        await world.converge()

    stormy = seed % 4 == 3
    return simulate(
        story,
        seed=seed,
        pools=pools(),
        timing=TIMING,
        habits=replace(STORMY if stormy else Habits(), announces=seed % 3 == 0),
        error_rate=0.1 if stormy else 0.0,
        computed=not stormy and seed % 2 == 0,
    ).trace


async def happen(world: World, chance: Random) -> None:
    kind = chance.choice(sorted(EVENTS))
    pool = chance.choice([CALM, LADDER])
    if kind == "scale":
        await world.ask(lambda fleet: fleet.scale(pool, chance.randint(1, 4), reason="work"))
        return
    up = [name for name in world.serving(pool) if has_agent(world, name)]
    if up:
        EVENTS[kind](world, chance.choice(up), chance)


def has_agent(world: World, node: NodeId) -> bool:
    machine = world.machine(node)
    return machine.alive and machine.id in world.hosts.agents


def mend(world: World, _node: NodeId, chance: Random) -> None:
    if world.partitioned:
        world.partitioned.discard(chance.choice(sorted(world.partitioned)))


def fail(world: World, node: NodeId, chance: Random) -> None:
    world.fail(node, "XID 79", fatal=chance.random() < 0.5, lasting=chance.random() < 0.5)


def break_down(world: World, node: NodeId, chance: Random) -> None:
    steps = [RecoveryStep.RESET_GPU, RecoveryStep.REBOOT, RecoveryStep.POWER_CYCLE]
    world.break_down(node, UNCONTAINED, cleared_by=chance.choice(steps))


def restart(world: World, node: NodeId, chance: Random) -> None:
    world.restart_agent(node, boot_id=chance.choice([None, "boot-9"]))


EVENTS: dict[str, Callable[[World, NodeId, Random], object]] = {
    "break down": break_down,
    "crash": lambda world, _node, _chance: world.crash(),
    "cut": lambda world, node, _chance: world.partition(node),
    "fail": fail,
    "hang": lambda world, node, _chance: world.silence(node),
    "mend": mend,
    "notice": lambda world, node, chance: world.give_notice(node, after_s=chance.uniform(30, 120)),
    "reclaim": lambda world, node, _chance: world.reclaim(node),
    "restart": restart,
    "scale": lambda *_: None,
}


def check(seeds: Iterable[int], monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds:
        filtered = an_eventful_hour(seed)
        with monkeypatch.context() as patch:
            patch.setattr(Runtime, "on_commit", queue_everything)
            unfiltered = an_eventful_hour(seed)
        assert filtered == unfiltered, f"seed {seed}"


@pytest.mark.parametrize("few", seeds(3, gate=1))
def test_a_pool_or_recovery_that_a_commit_does_not_queue_needs_no_work(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(range(few * 4, few * 4 + 4), monkeypatch)
