"""Computed heartbeats leave the same log as heartbeats sent one by one."""

from datetime import datetime, timedelta
from random import Random

import pytest
from tests.support.seeds import seeds

from navarch.core.health import CheckResult, Health
from navarch.core.ids import PoolName
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.core.recovery import RecoveryStep
from navarch.health.checks.xid import assess_xid
from navarch.service.agents import Timing
from navarch.sim.world.world import World, simulate
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
        # A pool with several young machines that failed waits for an hour.
        await world.converge(within_s=3 * 3600)

    return simulate(story, seed=seed, pools=[pool()], computed=computed, timing=TIMING).trace


def trouble(world: World, chance: Random) -> None:
    serving = world.serving(POOL)
    kind = chance.choice(
        ["cut", "cut", "cut", "mend", "mend", "hang", "fail", "crash", "reclaim", "break"]
    )
    if kind == "crash" and chance.random() < 0.3:
        world.crash()
    elif kind == "mend" and world.partitioned:
        world.partitioned.discard(chance.choice(sorted(world.partitioned)))
    elif serving:
        node = chance.choice(serving)
        if kind == "cut":
            world.partition(node)
        elif kind == "hang":
            world.silence(node)
        elif kind == "fail":
            world.fail(node, "XID 79", fatal=chance.random() < 0.5, lasting=chance.random() < 0.5)
        elif kind == "reclaim":
            world.reclaim(node)
        elif kind == "break" and world.machine(node).alive:
            world.break_down(node, FALLEN, cleared_by=RecoveryStep.REBOOT)


FALLEN = CheckResult(
    check="xid/79/GPU-0", health=Health.UNHEALTHY, reason="XID 79", fatal=True, lasting=True
)


def pool() -> Pool:
    return a_pool(POOL, size=5, nodes_max=12)


@pytest.mark.parametrize("tens", seeds(20, gate=5))
def test_computed_and_sent_heartbeats_leave_the_same_log(tens: int) -> None:
    for seed in range(tens * 10, tens * 10 + 10):
        assert outages(seed, computed=True) == outages(seed, computed=False)


def test_a_suspended_agent_reports_a_fault_at_once() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(POOL)) == 5, within_s=1800)
        await world.clock.sleep(1800)
        node = world.serving(POOL)[0]
        world.break_down(node, FALLEN, cleared_by=RecoveryStep.REBOOT)
        await world.clock.sleep(1)
        assert world.fleet().nodes[node].health is Health.UNHEALTHY

    simulate(story, seed=1, pools=[pool()], computed=True, timing=TIMING)


def persisting(
    found: CheckResult, *, unhealthy_after: int, computed: bool, minutes: int = 15
) -> World:
    """Return a world in which one agent reports a result with every heartbeat, then another."""

    async def story(world: World) -> None:
        await world.until(lambda: len(world.serving(POOL)) == 5, within_s=1800)
        await world.clock.sleep(1800)
        node = world.serving(POOL)[0]
        for pid in ("7", "8"):
            seen = of_process(pid, found, at=world.clock.now()) if found.lasting else found
            world.agent(node).results[seen.check] = seen
            world.hosts.wake(node)
            await world.clock.sleep(minutes * 30)

    pools = [a_pool(POOL, size=5, nodes_max=12, unhealthy_after=unhealthy_after)]
    return simulate(story, seed=3, pools=pools, computed=computed, timing=TIMING)


def of_process(pid: str, found: CheckResult, *, at: datetime) -> CheckResult:
    facts = {**found.facts, "at": at.isoformat(), "pid": pid}
    return evolve(found, check=f"{found.check}/{pid}", facts=facts)


HOT = CheckResult(check="temperature", health=Health.UNHEALTHY, reason="95 C")
SLOW_PORT = CheckResult(check="infiniband", health=Health.DEGRADED, reason="one port is down")
CRASHED = CheckResult(
    check="xid/31/GPU-0",
    health=Health.HEALTHY,
    reason="XID 31",
    lasting=True,
    action=str(assess_xid(31).action),
    facts={"code": "31", "gpu": "GPU-0", "class": str(assess_xid(31).entry.origin)},
)


@pytest.mark.parametrize("found", [HOT, SLOW_PORT, CRASHED], ids=lambda found: found.check)
@pytest.mark.parametrize("unhealthy_after", [1, 2, 10])
def test_a_repeated_finding_leaves_the_same_log(found: CheckResult, unhealthy_after: int) -> None:
    computed = persisting(found, unhealthy_after=unhealthy_after, computed=True)
    sent = persisting(found, unhealthy_after=unhealthy_after, computed=False)
    assert computed.trace == sent.trace


def test_a_lastingly_unhealthy_machine_is_replaced_with_computed_heartbeats() -> None:
    world = persisting(HOT, unhealthy_after=10, computed=True)
    retired = [node for node in world.fleet().nodes.values() if node.retiring]
    assert len(retired) == 1
    tenth = [line for line in world.trace if "temperature" in line and "10 times" in line]
    assert tenth, world.trace[-30:]


def test_a_past_fault_is_reported_once_over_the_life_of_its_machine() -> None:
    world = persisting(CRASHED, unhealthy_after=2, computed=True, minutes=60)
    assert [incident.is_open for incident in world.fleet().incidents.values()] == [False, False]
    findings = [line for line in world.trace if " health.finding: " in line]
    assert len(findings) == 2
