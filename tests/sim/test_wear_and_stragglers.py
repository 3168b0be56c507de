"""Faults that show over weeks or beside other GPUs, found from the agents' reports."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId, PoolName
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.memory import RowsCheck
from navarch.health.checks.work import WorkCheck
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.checks import MachineView
from navarch.ports.gpu import SpareRows
from navarch.sim.world.agent import SimAgent
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import a_pool

TRAINING = PoolName("training")
DAY_S = 86_400.0
PID = 4711


class Bench:
    """The hardware under one simulated agent, and the real checks of it."""

    def __init__(self, world: World, node: NodeId) -> None:
        agents = [a for a in world.hosts.agents.values() if a.node == node]
        self.agent: SimAgent = agents[0]
        self.gpus = SimulatedGpus(
            world.clock, self.agent.entropy, count=8, seed=self.agent.machine.id
        )
        self.host = SimulatedHost(world.clock, self.agent.entropy, node, jobs={PID: "job-1"})
        self._world = world

    def look(self) -> None:
        """Give the agent the results of its checks."""
        view = MachineView(now=self._world.clock.now(), gpus=self.gpus, host=self.host)
        for check in (RowsCheck(), WorkCheck()):
            for result in check.run(view):
                self.agent.results[result.check] = result
        self.agent.wake()


def conditions(world: World, kind: str) -> dict[NodeId, list[Condition]]:
    return {
        node.id: found
        for node in world.fleet().nodes.values()
        if (found := [c for c in node.conditions if c.check.startswith(f"{kind}/")])
    }


def play(size: int, story: Callable[[World], Awaitable[None]], *, computed: bool = False) -> None:
    async def whole(world: World) -> None:
        await world.until(lambda: len(world.serving(TRAINING)) == size, within_s=3600)
        await story(world)

    simulate(whole, seed=1, pools=[a_pool(size=size)], computed=computed)


async def wear_down(world: World, bench: Bench, *, days: int, from_used: int = 0) -> None:
    """Let one GPU use up a spare row of another bank each day."""
    for day in range(days):
        used = from_used + day + 1
        bench.gpus.wear(SpareRows(full=640 - used, high=used), index=3)
        bench.look()
        await world.clock.sleep(DAY_S)


def test_a_gpu_that_uses_up_its_spare_rows_is_reported_with_its_days_left() -> None:
    async def story(world: World) -> None:
        victim = world.serving(TRAINING)[0]
        bench = Bench(world, victim)
        await world.clock.sleep(DAY_S)
        assert conditions(world, "wear") == {}

        await wear_down(world, bench, days=4)

        (condition,) = conditions(world, "wear")[victim]
        assert condition.health is Health.DEGRADED
        assert condition.reason.startswith("GPU 3: spare memory rows for about")
        # Three steps are left to the worst bank, and one goes a day.
        assert 2.0 <= float(condition.facts["days_left"]) <= 4.0
        assert victim in world.serving(TRAINING), "a warning takes no node out of service"

    play(1, story, computed=True)


def test_the_history_of_a_gpu_outlives_the_control_plane() -> None:
    async def story(world: World) -> None:
        bench = Bench(world, world.serving(TRAINING)[0])
        await world.clock.sleep(DAY_S)
        await wear_down(world, bench, days=2)
        assert conditions(world, "wear") == {}, "two steps are no trend"

        world.crash()
        await wear_down(world, bench, days=2, from_used=2)

        assert len(conditions(world, "wear")) == 1

    play(1, story, computed=True)


def test_a_worn_gpu_that_wears_no_further_is_not_reported() -> None:
    async def story(world: World) -> None:
        bench = Bench(world, world.serving(TRAINING)[0])
        bench.gpus.wear(SpareRows(full=600, high=30, partial=10), index=0)
        bench.look()
        await world.clock.sleep(4 * DAY_S)

        assert conditions(world, "wear") == {}

    play(1, story, computed=True)


@pytest.mark.parametrize(("clock", "power"), [(1400, 690.0), (1980, 520.0)], ids=["clock", "power"])
def test_a_gpu_that_is_slower_than_the_others_of_its_job_is_found(clock: int, power: float) -> None:
    async def story(world: World) -> None:
        benches = {node: Bench(world, node) for node in world.serving(TRAINING)}
        victim = world.serving(TRAINING)[1]
        for node, bench in benches.items():
            for index in range(8):
                odd = node == victim and index == 5
                bench.gpus.work(
                    PID,
                    clock_mhz=clock if odd else 1965 + 5 * index,
                    power_w=power if odd else 680.0 + 3 * index,
                    index=index,
                )
            bench.look()
        began = world.clock.now()

        await world.until(lambda: bool(conditions(world, "straggler")), within_s=3600)

        assert world.clock.now() - began < timedelta(minutes=12), "five windows of two minutes"
        assert list(conditions(world, "straggler")) == [victim]
        (condition,) = conditions(world, "straggler")[victim]
        assert condition.reason.startswith("GPU 5 is at ")
        assert "than the 31 others of job job-1" in condition.reason
        assert victim in world.serving(TRAINING)

        benches[victim].gpus.work(PID, clock_mhz=1980, power_w=690.0, index=5)
        benches[victim].look()
        await world.until(lambda: not conditions(world, "straggler"), within_s=3600)

    play(4, story)


def test_gpus_of_different_jobs_are_not_compared() -> None:
    async def story(world: World) -> None:
        for place, node in enumerate(world.serving(TRAINING)):
            bench = Bench(world, node)
            bench.host.jobs = {PID: f"job-{place}"}
            for index in range(8):
                bench.gpus.work(PID, clock_mhz=1980 - 200 * place, power_w=600.0, index=index)
            bench.look()
        await world.clock.sleep(3600)

        assert conditions(world, "straggler") == {}

    play(3, story)
