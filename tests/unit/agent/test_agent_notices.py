"""The agent reports a notice at once, whatever else it is doing."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from tests.support.direct_link import DirectLink
from tests.support.fake_control_plane import FakeControlPlane

from navarch.agent.agent import Agent
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import MemoryDisk
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.core.instance import Notice, NoticeKind
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.devices import NvmlCheck
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.clock import Offload
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop

NODE = NodeId("gpu-7")
T = TypeVar("T")
RECLAIM = Notice(kind=NoticeKind.RECLAIM, reason="terminate at noon")


@dataclass
class FakeNoticeWatch:
    """A watch with notices set by the test."""

    standing: list[Notice] | None = None
    on_change: Callable[[], None] = lambda: None
    stopped: bool = False

    def start(self, on_change: Callable[[], None]) -> None:
        self.on_change = on_change

    def notices(self) -> Sequence[Notice] | None:
        return None if self.standing is None else list(self.standing)

    def stop(self) -> None:
        self.stopped = True

    def announce(self, *notices: Notice) -> None:
        self.standing = list(notices)
        self.on_change()


class HungOffload:
    """An Offload that hangs in the driver."""

    async def run(self, call: Callable[[], T]) -> T:
        del call
        await asyncio.get_running_loop().create_future()
        raise AssertionError


@dataclass
class Harness:
    clock: SimClock = field(default_factory=SimClock)
    plane: FakeControlPlane = field(
        default_factory=lambda: FakeControlPlane(health_check_interval=timedelta(minutes=1))
    )
    watch: FakeNoticeWatch = field(default_factory=FakeNoticeWatch)

    def reported(self) -> list[CheckResult]:
        return [x for x in self.plane.results() if x.check in ("spot_notice", "maintenance")]

    async def start_agent(self, probe_offload: Offload) -> Agent:
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


def run_scenario(
    scenario: Callable[[Harness], object], probe_offload: Offload | None = None
) -> Harness:
    async def main() -> Harness:
        harness = Harness()
        agent = await harness.start_agent(probe_offload or InlineOffload())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(agent.run())
            await harness.clock.sleep(100)
            await scenario(harness)  # type: ignore[misc]
            agent.stop()
        return harness

    with asyncio.Runner(loop_factory=lambda: SimLoop(0.0)) as runner:
        return runner.run(main())


def test_a_notice_is_reported_within_a_second_and_cleared_when_it_ends() -> None:
    async def scenario(harness: Harness) -> None:
        assert harness.reported() == [], "nothing is known, so nothing is reported"
        harness.watch.announce(RECLAIM)
        await harness.clock.sleep(1)
        assert [(x.check, x.health) for x in harness.reported()] == [
            ("spot_notice", Health.DEGRADED),
            ("maintenance", Health.HEALTHY),
        ]
        harness.watch.announce()
        await harness.clock.sleep(1)
        assert {x.check: x.health for x in harness.reported()} == {
            "spot_notice": Health.HEALTHY,
            "maintenance": Health.HEALTHY,
        }

    assert run_scenario(scenario).watch.stopped


def test_an_active_notice_is_reported_repeatedly_and_its_absence_is_not() -> None:
    async def scenario(harness: Harness) -> None:
        harness.watch.announce()
        await harness.clock.sleep(600)
        assert len(harness.reported()) == 2
        harness.watch.announce(RECLAIM)
        await harness.clock.sleep(600)
        assert 2 + 2 * 10 <= len(harness.reported()) <= 2 + 2 * 12

    run_scenario(scenario)


def test_a_hung_driver_neither_delays_a_notice_nor_becomes_one() -> None:
    async def scenario(harness: Harness) -> None:
        assert harness.reported() == []
        before = harness.clock.monotonic()
        harness.watch.announce(RECLAIM)
        while not harness.reported():
            await harness.clock.sleep(0.1)
        assert harness.clock.monotonic() - before < 1.0

    run_scenario(scenario, HungOffload())
