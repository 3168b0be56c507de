"""GPU tests by the agent: on command, and weekly while the machine is idle."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from tests.support.direct_link import DirectLink
from tests.support.fake_control_plane import FakeControlPlane

from navarch.agent.agent import Agent
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.core.errors import UnreachableError
from navarch.core.health import TESTING
from navarch.core.ids import NodeId
from navarch.core.instance import Gpu
from navarch.core.recovery import CommandKind
from navarch.gpus.simulated import SimulatedGpus
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.checks import (
    BurnFigures,
    CopyFigures,
    NotRunError,
    PatternFigures,
    ToolRun,
)
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop

NODE = NodeId("gpu-7")
T = TypeVar("T")


@dataclass
class PassingDiagnostics:
    """Diagnostics that every GPU passes."""

    burnt: list[int] = field(default_factory=list)
    at: Callable[[], object] = lambda: None
    seen: list[object] = field(default_factory=list)
    wrong: int = 0

    def touch(self, gpu: Gpu) -> None:
        pass

    def burn(self, gpu: Gpu, *, seconds: float) -> BurnFigures:
        self.burnt.append(gpu.index)
        self.seen.append(self.at())
        return BurnFigures(tflops=700.0, seconds=seconds, products=1, wrong=self.wrong)

    def patterns(self, gpu: Gpu, *, share: float) -> PatternFigures:
        raise NotRunError(f"GPU {gpu.index} has no {share:.0%} of memory free")

    def copies(self, gpus: Sequence[Gpu]) -> Sequence[CopyFigures]:
        return [CopyFigures(on_device_gbs=4200.0) for _ in gpus]

    def tool(self, name: str, *arguments: str, within_s: float) -> ToolRun:
        del arguments, within_s
        raise NotRunError(f"{name} is not installed")


@dataclass
class GatedOffload:
    """An Offload that blocks tests until released, as a slow test does."""

    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, call: Callable[[], T]) -> T:
        await self.open.wait()
        return call()


@dataclass
class Harness:
    clock: SimClock = field(default_factory=SimClock)
    plane: FakeControlPlane = field(
        default_factory=lambda: FakeControlPlane(heartbeat_interval=timedelta(hours=1))
    )
    diagnostics: PassingDiagnostics = field(default_factory=PassingDiagnostics)
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    queue: GatedOffload = field(default_factory=GatedOffload)
    away: bool = False

    def reach(self) -> FakeControlPlane:
        if self.away:
            raise UnreachableError("cut off")
        return self.plane

    def testing(self) -> list[str]:
        """Return the reported health of the `testing` check, in order."""
        return [r.health.value for r in self.plane.results() if r.check == TESTING]

    def agent(self) -> Agent:
        entropy = SeededEntropy("agent")
        return Agent(
            self.clock,
            entropy,
            DirectLink(self.clock, self.reach),
            SimulatedGpus(self.clock, entropy, count=2, seed="m"),
            SimulatedHost(self.clock, entropy, NODE),
            self.disk,
            identity=Identity(node=NODE),
            checks=(),
            offload=InlineOffload(),
            probe_offload=InlineOffload(),
            diagnostics=self.diagnostics,
            tests_offload=self.queue,
        )


def run_scenario(scenario: Callable[[Harness], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        harness = Harness()
        harness.queue.open.set()
        agent = harness.agent()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(agent.run())
            await scenario(harness)
            agent.stop()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_idle_gpus_are_tested_once_a_week() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.clock.sleep(timedelta(days=7, hours=1).total_seconds())
        assert harness.diagnostics.burnt == [0, 1]
        await harness.clock.sleep(timedelta(days=7).total_seconds())
        assert harness.diagnostics.burnt == [0, 1, 0, 1]

    run_scenario(scenario)


def test_a_diagnostic_command_runs_the_named_tests_and_reports_the_results() -> None:
    async def scenario(harness: Harness) -> None:
        harness.diagnostics.wrong = 5
        await harness.clock.sleep(10)
        harness.plane.command(
            CommandKind.RUN_DIAGNOSTIC,
            name="c1",
            at=harness.clock.now(),
            parameters={"tests": "burn,dcgm"},
        )
        await harness.clock.sleep(2 * 3600)
        [(_, succeeded, result)] = harness.plane.finished
        assert succeeded
        assert "burn unhealthy: GPU 0 computed 5 wrong results" in result
        assert "dcgm unknown: not run: dcgmi is not installed" in result
        assert any(r.check == "burn" and r.fatal for r in harness.plane.results())

    run_scenario(scenario)


def test_no_work_may_start_while_the_gpus_are_tested_and_may_afterwards() -> None:
    async def scenario(harness: Harness) -> None:
        harness.diagnostics.at = harness.testing
        await harness.clock.sleep(timedelta(days=7, hours=1).total_seconds())
        assert harness.diagnostics.seen == [["degraded"], ["degraded"]], (
            "reported before the first test"
        )
        assert harness.testing() == ["degraded", "healthy"]
        assert harness.disk.read("testing") is None

    run_scenario(scenario)


def test_idle_gpus_are_not_tested_while_the_control_plane_is_unreachable() -> None:
    async def scenario(harness: Harness) -> None:
        harness.away = True
        await harness.clock.sleep(timedelta(days=8).total_seconds())
        assert harness.diagnostics.burnt == []
        harness.away = False
        await harness.clock.sleep(timedelta(hours=2).total_seconds())
        assert harness.diagnostics.burnt == [0, 1]

    run_scenario(scenario)


def test_work_is_allowed_again_after_the_agent_crashed_during_a_test() -> None:
    async def scenario(harness: Harness) -> None:
        harness.disk.replace("testing", b"", sync=True)
        async with asyncio.TaskGroup() as tasks:
            successor = harness.agent()
            tasks.create_task(successor.run())
            await harness.clock.sleep(10)
            successor.stop()
        assert harness.testing() == ["healthy"]

    run_scenario(scenario)


def test_a_long_diagnostic_does_not_block_later_commands() -> None:
    async def scenario(harness: Harness) -> None:
        harness.queue.open.clear()
        await harness.clock.sleep(10)
        now, tests = harness.clock.now(), {"tests": "burn"}
        harness.plane.command(CommandKind.RUN_DIAGNOSTIC, name="c1", at=now, parameters=tests)
        harness.plane.command(CommandKind.CORDON, name="c2", at=now)
        await harness.clock.sleep(2 * 3600)
        assert [name for name, _, _ in harness.plane.finished] == ["c2"]
        harness.queue.open.set()
        await harness.clock.sleep(3600)
        assert [name for name, _, _ in harness.plane.finished] == ["c2", "c1"]
        assert harness.diagnostics.burnt == [0, 1], "once, however often it was looked at"

    run_scenario(scenario)


def test_a_running_diagnostic_does_not_keep_the_agent_from_stopping() -> None:
    async def scenario(harness: Harness) -> None:
        harness.queue.open.clear()
        await harness.clock.sleep(10)
        tests = {"tests": "burn"}
        harness.plane.command(
            CommandKind.RUN_DIAGNOSTIC, name="c1", at=harness.clock.now(), parameters=tests
        )
        await harness.clock.sleep(2 * 3600)
        assert harness.plane.finished == []

    run_scenario(scenario)
