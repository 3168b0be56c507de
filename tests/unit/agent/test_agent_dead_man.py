"""A machine that nobody looks after ends itself: when it is idle, and only then."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from test_agent_life import NODE, MetricsLink

from navarch.agent.agent import Agent
from navarch.agent.dead_man import IDLE_FOR, Lease
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.core.errors import UnreachableError
from navarch.core.inventory import Gpu
from navarch.core.metrics import GpuMetrics
from navarch.gpus.simulated import SimulatedGpus
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.gpu import GpuError
from navarch.ports.host import CpuTimes
from navarch.sim.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.loop import SimLoop
from navarch.testing.rehearsal import RehearsalControlPlane

HOUR = 3600.0
TERM = timedelta(hours=6)


class QuietGpus(SimulatedGpus):
    """GPUs that do what the test says."""

    busy = False
    broken = False

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        if self.broken:
            raise GpuError("GPU is lost")
        load = 90.0 if self.busy and gpu.index == 3 else 0.0
        return GpuMetrics(utilization_pct=load)


class QuietHost(SimulatedHost):
    """A host that does nothing."""

    asked = 0

    def cpu_times(self) -> CpuTimes:
        self.asked += 1
        return CpuTimes(total=self.asked * 100, idle=self.asked * 99)


@dataclass
class Scene:
    tasks: asyncio.TaskGroup
    clock: SimClock = field(default_factory=SimClock)
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    plane: RehearsalControlPlane = field(default_factory=RehearsalControlPlane)
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
        self.life = self.tasks.create_task(self.agent.run())

    async def stop(self) -> None:
        self.agent.stop()
        await self.life


def tell(story: Callable[[Scene], Awaitable[None]], *, term: timedelta | None = TERM) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            scene = Scene(tasks, term=term)
            scene.start()
            await story(scene)
            await scene.stop()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_an_idle_machine_ends_itself_when_the_control_plane_is_gone_for_good() -> None:
    async def story(scene: Scene) -> None:
        await scene.clock.sleep(8 * HOUR)
        assert scene.ended_at is None
        scene.cut = True
        await scene.clock.sleep(TERM.total_seconds() - 60)
        assert scene.ended_at is None
        await scene.clock.sleep(240)
        assert scene.ended_at is not None

    tell(story)


def test_a_machine_that_nobody_asked_to_stays_for_ever() -> None:
    async def story(scene: Scene) -> None:
        scene.cut = True
        await scene.clock.sleep(12 * HOUR)
        assert scene.ended_at is None

    tell(story, term=None)


def test_work_keeps_the_machine_and_its_end_does_not_end_it_at_once() -> None:
    async def story(scene: Scene) -> None:
        scene.cut, scene.gpus.busy = True, True
        await scene.clock.sleep(12 * HOUR)
        assert scene.ended_at is None
        scene.gpus.busy = False
        await scene.clock.sleep(IDLE_FOR.total_seconds() - 60)
        assert scene.ended_at is None, "the next job may be loading"
        await scene.clock.sleep(240)
        assert scene.ended_at is not None

    tell(story)


def test_gpus_that_cannot_be_looked_at_count_as_busy() -> None:
    async def story(scene: Scene) -> None:
        scene.cut, scene.gpus.broken = True, True
        await scene.clock.sleep(12 * HOUR)
        assert scene.ended_at is None

    tell(story)


def test_one_answer_is_enough_to_count_anew() -> None:
    async def story(scene: Scene) -> None:
        for _ in range(3):
            scene.cut = True
            await scene.clock.sleep(TERM.total_seconds() - 900)
            scene.cut = False
            await scene.clock.sleep(900)
        assert scene.ended_at is None

    tell(story)


def test_the_count_goes_on_where_it_was_when_the_agent_is_restarted() -> None:
    async def story(scene: Scene) -> None:
        scene.cut = True
        await scene.clock.sleep(4 * HOUR)
        await scene.stop()
        await scene.clock.sleep(100 * HOUR)  # Nobody counts while no agent runs.
        scene.start()
        await scene.clock.sleep(1.5 * HOUR)
        assert scene.ended_at is None
        await scene.clock.sleep(1.5 * HOUR)
        assert scene.ended_at is not None

    tell(story)
