"""The dead man's switch: an idle machine without a control plane shuts down."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from test_agent_life import NODE, MetricsLink
from tests.support.fake_control_plane import FakeControlPlane

from navarch.agent.agent import Agent
from navarch.agent.dead_man import Lease
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.core.dead_man import IDLE_FOR
from navarch.core.errors import UnreachableError
from navarch.core.instance import Gpu, GpuMetrics
from navarch.gpus.simulated import SimulatedGpus
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.gpu import GpuError
from navarch.ports.host import CpuTimes
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop

HOUR = 3600.0
TERM = timedelta(hours=6)


class QuietGpus(SimulatedGpus):
    """GPUs with metrics set by the test."""

    busy = False
    broken = False

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        if self.broken:
            raise GpuError("GPU is lost")
        load = 90.0 if self.busy and gpu.index == 3 else 0.0
        return GpuMetrics(utilization_pct=load)


class QuietHost(SimulatedHost):
    """An idle host."""

    readings = 0

    def cpu_times(self) -> CpuTimes:
        self.readings += 1
        return CpuTimes(total=self.readings * 100, idle=self.readings * 99)


@dataclass
class Harness:
    tasks: asyncio.TaskGroup
    clock: SimClock = field(default_factory=SimClock)
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    plane: FakeControlPlane = field(default_factory=FakeControlPlane)
    term: timedelta | None = TERM
    cut: bool = False
    ended_at: float | None = None

    def __post_init__(self) -> None:
        self.gpus = QuietGpus(self.clock, SeededEntropy("g"), count=8, seed="m")
        self.plane.fault = self._fault

    def _fault(self, _method: str) -> None:
        if self.cut:
            raise UnreachableError("no route")

    def _end(self) -> None:
        self.ended_at = self.clock.monotonic()

    def start(self) -> None:
        self.agent = Agent(
            self.clock,
            SeededEntropy("agent"),
            MetricsLink(self.clock, lambda: self.plane),
            self.gpus,
            QuietHost(self.clock, SeededEntropy("h"), NODE, boot="b"),
            self.disk,
            identity=Identity(node=NODE),
            checks=(),
            offload=InlineOffload(),
            probe_offload=InlineOffload(),
            lease=None if self.term is None else Lease(term=self.term, end=self._end),
        )
        self.run_task = self.tasks.create_task(self.agent.run())

    async def stop(self) -> None:
        self.agent.stop()
        await self.run_task


def run_scenario(
    scenario: Callable[[Harness], Awaitable[None]], *, term: timedelta | None = TERM
) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            harness = Harness(tasks, term=term)
            harness.start()
            await scenario(harness)
            await harness.stop()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_an_idle_machine_shuts_down_when_the_control_plane_stays_unreachable() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.clock.sleep(8 * HOUR)
        assert harness.ended_at is None
        harness.cut = True
        await harness.clock.sleep(TERM.total_seconds() - 60)
        assert harness.ended_at is None
        await harness.clock.sleep(240)
        assert harness.ended_at is not None

    run_scenario(scenario)


def test_a_machine_without_a_lease_never_shuts_down() -> None:
    async def scenario(harness: Harness) -> None:
        harness.cut = True
        await harness.clock.sleep(12 * HOUR)
        assert harness.ended_at is None

    run_scenario(scenario, term=None)


def test_work_keeps_the_machine_running_and_idle_time_counts_after_it() -> None:
    async def scenario(harness: Harness) -> None:
        harness.cut, harness.gpus.busy = True, True
        await harness.clock.sleep(12 * HOUR)
        assert harness.ended_at is None
        harness.gpus.busy = False
        await harness.clock.sleep(IDLE_FOR.total_seconds() - 60)
        assert harness.ended_at is None, "the next job may be loading"
        await harness.clock.sleep(240)
        assert harness.ended_at is not None

    run_scenario(scenario)


def test_gpus_that_cannot_be_read_count_as_busy() -> None:
    async def scenario(harness: Harness) -> None:
        harness.cut, harness.gpus.broken = True, True
        await harness.clock.sleep(12 * HOUR)
        assert harness.ended_at is None

    run_scenario(scenario)


def test_one_successful_heartbeat_resets_the_count() -> None:
    async def scenario(harness: Harness) -> None:
        for _ in range(3):
            harness.cut = True
            await harness.clock.sleep(TERM.total_seconds() - 900)
            harness.cut = False
            await harness.clock.sleep(900)
        assert harness.ended_at is None

    run_scenario(scenario)


def test_the_count_survives_a_restart_of_the_agent() -> None:
    async def scenario(harness: Harness) -> None:
        harness.cut = True
        await harness.clock.sleep(4 * HOUR)
        await harness.stop()
        await harness.clock.sleep(100 * HOUR)  # Time without a running agent does not count.
        harness.start()
        await harness.clock.sleep(1.5 * HOUR)
        assert harness.ended_at is None
        await harness.clock.sleep(1.5 * HOUR)
        assert harness.ended_at is not None

    run_scenario(scenario)


def test_the_control_plane_receives_the_term_of_the_lease() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.clock.sleep(60)
        (registration,) = harness.plane.registrations
        assert registration.inventory.dead_man_s == TERM.total_seconds()

    run_scenario(scenario)
