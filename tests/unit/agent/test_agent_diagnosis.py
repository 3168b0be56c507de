"""Tests of GPUs by the agent: on demand, and weekly while the machine is idle."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from navarch.agent.agent import Agent
from navarch.agent.directlink import DirectLink
from navarch.agent.disk import MemoryDisk
from navarch.agent.identity import Identity
from navarch.core.command import CommandKind
from navarch.core.ids import NodeId
from navarch.core.inventory import Gpu
from navarch.gpus.simulated import SimulatedGpus
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.diagnostics import (
    BurnFigures,
    CopyFigures,
    NotRunError,
    PatternFigures,
    ToolRun,
)
from navarch.sim.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.loop import SimLoop
from navarch.testing.rehearsal import RehearsalControlPlane

NODE = NodeId("gpu-7")


@dataclass
class Bench:
    """A machine whose GPUs pass every test that is made."""

    burnt: list[int] = field(default_factory=list)
    wrong: int = 0

    def touch(self, gpu: Gpu) -> None:
        pass

    def burn(self, gpu: Gpu, *, seconds: float) -> BurnFigures:
        self.burnt.append(gpu.index)
        return BurnFigures(tflops=700.0, seconds=seconds, products=1, wrong=self.wrong)

    def patterns(self, gpu: Gpu, *, share: float) -> PatternFigures:
        raise NotRunError(f"GPU {gpu.index} has no {share:.0%} of memory free")

    def copies(self, gpus: Sequence[Gpu]) -> Sequence[CopyFigures]:
        return [CopyFigures(on_device_gbs=4200.0) for _ in gpus]

    def tool(self, name: str, *arguments: str, within_s: float) -> ToolRun:
        del arguments, within_s
        raise NotRunError(f"{name} is not installed")


@dataclass
class Stage:
    clock: SimClock = field(default_factory=SimClock)
    plane: RehearsalControlPlane = field(
        default_factory=lambda: RehearsalControlPlane(heartbeat_interval=timedelta(hours=1))
    )
    bench: Bench = field(default_factory=Bench)
    disk: MemoryDisk = field(default_factory=MemoryDisk)

    def agent(self) -> Agent:
        entropy = SeededEntropy("agent")
        return Agent(
            self.clock,
            entropy,
            DirectLink(self.clock, lambda: self.plane),
            SimulatedGpus(self.clock, entropy, count=2, seed="m"),
            SimulatedHost(self.clock, entropy, NODE),
            self.disk,
            identity=Identity(node=NODE),
            checks=(),
            offload=InlineOffload(),
            probe_offload=InlineOffload(),
            diagnostics=self.bench,
        )


def play(story: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        stage = Stage()
        agent = stage.agent()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(agent.run())
            await story(stage)
            agent.stop()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_idle_gpus_are_tested_once_a_week() -> None:
    async def story(stage: Stage) -> None:
        await stage.clock.sleep(timedelta(days=7, hours=1).total_seconds())
        assert stage.bench.burnt == [0, 1]
        await stage.clock.sleep(timedelta(days=7).total_seconds())
        assert stage.bench.burnt == [0, 1, 0, 1]

    play(story)


def test_a_diagnosis_makes_the_tests_it_names_and_reports_what_they_found() -> None:
    async def story(stage: Stage) -> None:
        stage.bench.wrong = 5
        await stage.clock.sleep(10)
        stage.plane.command(
            CommandKind.RUN_DIAGNOSTIC,
            name="c1",
            at=stage.clock.now(),
            parameters={"tests": "burn,dcgm"},
        )
        await stage.clock.sleep(2 * 3600)
        [(_, succeeded, result)] = stage.plane.finished
        assert succeeded
        assert "burn unhealthy: GPU 0 computed 5 numbers wrong" in result
        assert "dcgm unknown: not run: dcgmi is not installed" in result
        assert any(r.check == "burn" and r.fatal for r in stage.plane.results())

    play(story)
