"""Tests of GPUs by the agent: on demand, and weekly while the machine is idle."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from navarch.agent.agent import Agent
from navarch.agent.directlink import DirectLink
from navarch.agent.disk import MemoryDisk
from navarch.agent.identity import Identity
from navarch.core.command import CommandKind
from navarch.core.errors import UnreachableError
from navarch.core.health import TESTING
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
T = TypeVar("T")


@dataclass
class Bench:
    """A machine whose GPUs pass every test that is made."""

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
class Queue:
    """Runs tests when it is let, as a thread would that waits for a GPU."""

    open: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, call: Callable[[], T]) -> T:
        await self.open.wait()
        return call()


@dataclass
class Stage:
    clock: SimClock = field(default_factory=SimClock)
    plane: RehearsalControlPlane = field(
        default_factory=lambda: RehearsalControlPlane(heartbeat_interval=timedelta(hours=1))
    )
    bench: Bench = field(default_factory=Bench)
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    queue: Queue = field(default_factory=Queue)
    away: bool = False

    def reach(self) -> RehearsalControlPlane:
        if self.away:
            raise UnreachableError("cut off")
        return self.plane

    def testing(self) -> list[str]:
        """Return what the control plane was told about work on the node, in order."""
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
            diagnostics=self.bench,
            tests_offload=self.queue,
        )


def play(story: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        stage = Stage()
        stage.queue.open.set()
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
        assert "burn unhealthy: GPU 0 computed 5 wrong results" in result
        assert "dcgm unknown: not run: dcgmi is not installed" in result
        assert any(r.check == "burn" and r.fatal for r in stage.plane.results())

    play(story)


def test_no_work_may_start_on_a_node_while_its_gpus_are_tested_and_may_after() -> None:
    async def story(stage: Stage) -> None:
        stage.bench.at = stage.testing
        await stage.clock.sleep(timedelta(days=7, hours=1).total_seconds())
        assert stage.bench.seen == [["degraded"], ["degraded"]], "told before the first test"
        assert stage.testing() == ["degraded", "healthy"]
        assert stage.disk.read("testing") is None

    play(story)


def test_idle_gpus_are_not_tested_while_nobody_can_be_told_to_keep_work_away() -> None:
    async def story(stage: Stage) -> None:
        stage.away = True
        await stage.clock.sleep(timedelta(days=8).total_seconds())
        assert stage.bench.burnt == []
        stage.away = False
        await stage.clock.sleep(timedelta(hours=2).total_seconds())
        assert stage.bench.burnt == [0, 1]

    play(story)


def test_work_that_was_kept_away_by_an_agent_that_died_is_let_in_by_the_next() -> None:
    async def story(stage: Stage) -> None:
        stage.disk.replace("testing", b"", sync=True)
        async with asyncio.TaskGroup() as tasks:
            successor = stage.agent()
            tasks.create_task(successor.run())
            await stage.clock.sleep(10)
            successor.stop()
        assert stage.testing() == ["healthy"]

    play(story)


def test_a_long_diagnosis_does_not_hold_back_the_commands_behind_it() -> None:
    async def story(stage: Stage) -> None:
        stage.queue.open.clear()
        await stage.clock.sleep(10)
        now, tests = stage.clock.now(), {"tests": "burn"}
        stage.plane.command(CommandKind.RUN_DIAGNOSTIC, name="c1", at=now, parameters=tests)
        stage.plane.command(CommandKind.CORDON, name="c2", at=now)
        await stage.clock.sleep(2 * 3600)
        assert [name for name, _, _ in stage.plane.finished] == ["c2"]
        stage.queue.open.set()
        await stage.clock.sleep(3600)
        assert [name for name, _, _ in stage.plane.finished] == ["c2", "c1"]
        assert stage.bench.burnt == [0, 1], "once, however often it was looked at"

    play(story)


def test_a_diagnosis_that_is_under_way_does_not_keep_the_agent_from_stopping() -> None:
    async def story(stage: Stage) -> None:
        stage.queue.open.clear()
        await stage.clock.sleep(10)
        tests = {"tests": "burn"}
        stage.plane.command(
            CommandKind.RUN_DIAGNOSTIC, name="c1", at=stage.clock.now(), parameters=tests
        )
        await stage.clock.sleep(2 * 3600)
        assert stage.plane.finished == []

    play(story)
