"""The agent passes a notice on at once, whatever else keeps the machine busy."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from navarch.agent.agent import Agent
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.agent.transport.direct_link import DirectLink
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.core.notice import Notice, NoticeKind
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.nvml import NvmlCheck
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.offload import Offload
from navarch.sim.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.loop import SimLoop
from navarch.testing.rehearsal import RehearsalControlPlane

NODE = NodeId("gpu-7")
T = TypeVar("T")
RECLAIM = Notice(kind=NoticeKind.RECLAIM, reason="terminate at noon")


@dataclass
class Announced:
    """A watch that is told what to have seen."""

    standing: list[Notice] | None = None
    on_change: Callable[[], None] = lambda: None
    stopped: bool = False

    def start(self, on_change: Callable[[], None]) -> None:
        self.on_change = on_change

    def notices(self) -> Sequence[Notice] | None:
        return None if self.standing is None else list(self.standing)

    def stop(self) -> None:
        self.stopped = True

    def say(self, *notices: Notice) -> None:
        self.standing = list(notices)
        self.on_change()


class HungOffload:
    """A thread that a driver keeps for ever."""

    async def run(self, call: Callable[[], T]) -> T:
        del call
        await asyncio.get_running_loop().create_future()
        raise AssertionError


@dataclass
class Stage:
    clock: SimClock = field(default_factory=SimClock)
    plane: RehearsalControlPlane = field(
        default_factory=lambda: RehearsalControlPlane(health_check_interval=timedelta(minutes=1))
    )
    watch: Announced = field(default_factory=Announced)

    def told(self) -> list[CheckResult]:
        return [x for x in self.plane.results() if x.check in ("spot_notice", "maintenance")]

    async def life(self, probe_offload: Offload) -> Agent:
        return Agent(
            self.clock,
            SeededEntropy("agent"),
            DirectLink(self.clock, lambda: self.plane, wire_s=lambda: 0.01),
            SimulatedGpus(self.clock, SeededEntropy("gpus"), count=1, seed="m"),
            SimulatedHost(self.clock, SeededEntropy("host"), NODE),
            MemoryDisk(),
            identity=Identity(node=NODE),
            checks=(NvmlCheck(),),
            offload=InlineOffload(),
            probe_offload=probe_offload,
            notices=self.watch,
        )


def play(story: Callable[[Stage], object], probe_offload: Offload | None = None) -> Stage:
    async def main() -> Stage:
        stage = Stage()
        agent = await stage.life(probe_offload or InlineOffload())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(agent.run())
            await stage.clock.sleep(100)
            await story(stage)  # type: ignore[misc]
            agent.stop()
        return stage

    with asyncio.Runner(loop_factory=lambda: SimLoop(0.0)) as runner:
        return runner.run(main())


def test_a_notice_is_told_within_a_second_and_taken_back_when_it_no_longer_stands() -> None:
    async def story(stage: Stage) -> None:
        assert stage.told() == [], "nothing is known, so nothing is said"
        stage.watch.say(RECLAIM)
        await stage.clock.sleep(1)
        assert [(x.check, x.health) for x in stage.told()] == [
            ("spot_notice", Health.DEGRADED),
            ("maintenance", Health.HEALTHY),
        ]
        stage.watch.say()
        await stage.clock.sleep(1)
        assert {x.check: x.health for x in stage.told()} == {
            "spot_notice": Health.HEALTHY,
            "maintenance": Health.HEALTHY,
        }

    assert play(story).watch.stopped


def test_a_notice_that_stands_is_told_again_and_the_absence_of_one_is_not() -> None:
    async def story(stage: Stage) -> None:
        stage.watch.say()
        await stage.clock.sleep(600)
        assert len(stage.told()) == 2
        stage.watch.say(RECLAIM)
        await stage.clock.sleep(600)
        assert 2 + 2 * 10 <= len(stage.told()) <= 2 + 2 * 12

    play(story)


def test_a_driver_that_hangs_does_not_keep_a_notice_back_nor_become_one() -> None:
    async def story(stage: Stage) -> None:
        assert stage.told() == []
        before = stage.clock.monotonic()
        stage.watch.say(RECLAIM)
        while not stage.told():
            await stage.clock.sleep(0.1)
        assert stage.clock.monotonic() - before < 1.0

    play(story, HungOffload())
