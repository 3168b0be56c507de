"""The agent in virtual time, against a control plane that writes everything down."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import pytest

from navarch.agent.agent import Agent
from navarch.agent.settings import Identity, Timing
from navarch.agent.spool.disk import DiskError, MemoryDisk
from navarch.agent.transport.direct_link import DirectLink
from navarch.core.command import CommandKind
from navarch.core.errors import InvalidError, NavarchError, NotPossibleError, UnreachableError
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId, ProviderName, Token
from navarch.core.metrics import Sample
from navarch.core.node import NodeStatus
from navarch.core.offering import Offering
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.agents import Registration, Welcome
from navarch.ports.checks import HealthCheck, MachineView
from navarch.ports.link import UnauthorizedError
from navarch.ports.offload import Offload
from navarch.sim.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.loop import SimLoop
from navarch.testing.rehearsal import RehearsalControlPlane

NODE = NodeId("gpu-7")
T = TypeVar("T")


@dataclass
class Stage:
    """One machine, its agent, and the control plane it talks to."""

    tasks: asyncio.TaskGroup
    clock: SimClock = field(default_factory=SimClock)
    plane: RehearsalControlPlane = field(default_factory=RehearsalControlPlane)
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    identity: Identity = field(default_factory=lambda: Identity(node=NODE))
    checks: Sequence[HealthCheck] = field(default_factory=standard_checks)
    boot: str = "boot-1"
    probe_offload: Offload = field(default_factory=InlineOffload)
    gpu_count: int = 8
    cut: bool = False
    on_terminate: Callable[[], None] | None = None
    lives: int = 0

    def __post_init__(self) -> None:
        entropy = SeededEntropy("gpus")
        self.gpus = SimulatedGpus(self.clock, entropy, count=self.gpu_count, seed="m")
        self.plane.fault = self._fault
        self.faults: dict[str, NavarchError] = {}
        self.calls: list[str] = []

    def _fault(self, method: str) -> None:
        self.calls.append(method)
        if self.cut:
            raise UnreachableError("no route")
        if method in self.faults:
            raise self.faults[method]

    def start(self) -> Agent:
        self.lives += 1
        entropy = SeededEntropy(f"agent/{self.lives}")
        self.agent = Agent(
            self.clock,
            entropy,
            MetricsLink(self.clock, lambda: self.plane),
            self.gpus,
            SimulatedHost(self.clock, entropy, NODE, boot=self.boot),
            self.disk,
            identity=self.identity,
            checks=self.checks,
            offload=InlineOffload(),
            probe_offload=self.probe_offload,
            on_terminate=self.on_terminate,
            timing=Timing(),
        )
        self.life = self.tasks.create_task(self.agent.run())
        return self.agent

    async def kill(self) -> None:
        self.life.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.life

    async def pass_time(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    async def stop(self) -> None:
        self.agent.stop()
        await self.life

    def checks_told(self) -> list[str]:
        return [result.check for result in self.plane.results()]


class MetricsLink(DirectLink):
    """A direct link to a control plane that takes old readings."""

    def __init__(self, clock: SimClock, plane: Callable[[], RehearsalControlPlane]) -> None:
        super().__init__(clock, plane, wire_s=lambda: 0.01)
        self._plane = plane

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        await self._plane().report_metrics(node, samples)


def play(story: Callable[[Stage], Awaitable[None]], **stage: object) -> Stage:
    async def main() -> Stage:
        async with asyncio.TaskGroup() as tasks:
            set_up = Stage(tasks, **stage)  # type: ignore[arg-type]
            await story(set_up)
            if not set_up.life.done():
                await set_up.stop()
        return set_up

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(main())


def test_it_registers_beats_and_reports_at_once_and_not_after_an_interval() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(1.0)

        assert [r.node for r in stage.plane.registrations] == [NODE]
        assert len(stage.plane.registrations[0].inventory.gpus) == 8
        assert stage.plane.registrations[0].boot_id == "boot-1"
        assert len(stage.plane.beats) == 1
        metrics = stage.plane.beats[0][1]
        assert metrics is not None
        assert len(metrics.gpus) == 8
        assert {"boot", "gpu", "xid"} <= set(stage.checks_told())

    play(story)


def test_what_the_first_checks_found_comes_with_the_introduction() -> None:
    async def story(stage: Stage) -> None:
        stage.gpus.xid(79, index=3)
        stage.start()
        await stage.pass_time(1.0)

        report = stage.plane.registrations[0].report
        assert report is not None
        assert {"boot", "xid/79/GPU-m-3"} <= {result.check for result in report.results}
        assert report.boot_id == "boot-1"
        assert "report_health" not in stage.calls, "it was said already"

    play(story)


def test_a_report_that_was_not_taken_with_the_introduction_is_sent_as_any_other() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(1.0)

        assert stage.calls.count("report_health") == 1
        assert [report.number for report in stage.plane.reports] == [1]

    play(story, plane=RehearsalControlPlane(takes_first_reports=False))


def test_a_round_of_checks_that_takes_long_does_not_keep_the_machine_unknown() -> None:
    class SlowOffload(InlineOffload):
        async def run(self, call: Callable[[], T]) -> T:
            await asyncio.sleep(0.5)
            return await super().run(call)

    async def story(stage: Stage) -> None:
        stage.probe_offload = SlowOffload()
        stage.start()
        await stage.pass_time(4.0)

        assert len(stage.plane.registrations) == 1
        assert stage.plane.registrations[0].report is None, "ten checks take five seconds"
        assert len(stage.plane.beats) == 1
        await stage.pass_time(4.0)
        assert len(stage.checks_told()) == 10

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Slow:
        name: str
        interval: timedelta | None = None

        def run(self, view: MachineView) -> Iterator[CheckResult]:
            del view
            yield CheckResult(check=self.name, health=Health.HEALTHY)

    play(story, checks=[Slow(name=f"slow-{number}") for number in range(10)])


def test_an_introduction_whose_answer_was_lost_tells_its_report_under_the_same_number() -> None:
    class Lossy(RehearsalControlPlane):
        lost = 2

        async def register(self, registration: Registration) -> Welcome:
            welcome = await super().register(registration)
            self.lost -= 1
            if self.lost >= 0:
                raise UnreachableError("the answer was lost")
            return welcome

    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(10.0)

        said = [registration.report for registration in stage.plane.registrations]
        assert [report and report.number for report in said] == [1, None, 1]
        assert stage.plane.repeats == 1
        assert [report.number for report in stage.plane.reports] == [1]

    play(story, plane=Lossy())


@pytest.mark.parametrize("refusal", [InvalidError, UnreachableError])
def test_a_report_that_is_not_accepted_does_not_keep_its_machine_unknown(
    refusal: type[NavarchError],
) -> None:
    class Picky(RehearsalControlPlane):
        async def register(self, registration: Registration) -> Welcome:
            if registration.report is not None and registration.report.number == 1:
                raise refusal("is too large a number, or breaks what weighs it")
            return await super().register(registration)

        async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
            if report.number == 1:
                raise InvalidError("is too large a number")
            return await super().report_health(node, report)

    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(3.0)
        assert len(stage.plane.registrations) == 1
        await stage.pass_time(60.0)
        assert min(report.number for report in stage.plane.reports) == 2

    play(story, plane=Picky())


def test_it_keeps_to_the_intervals_it_was_given() -> None:
    async def story(stage: Stage) -> None:
        stage.plane.heartbeat_interval = timedelta(seconds=5)
        stage.plane.health_check_interval = timedelta(seconds=15)
        stage.start()
        await stage.pass_time(601.0)

        assert 114 <= len(stage.plane.beats) <= 127
        assert 40 <= len(stage.plane.reports) <= 42

    play(story)


def test_what_is_expected_and_where_it_is_goes_into_the_introduction() -> None:
    place = Offering(provider=ProviderName("p"), instance_type="t", region="r", zone="z")

    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(1.0)

        registration = stage.plane.registrations[0]
        assert registration.token == "launch-1"
        assert registration.place is not None
        assert registration.place.gpus == 8
        assert registration.inventory.labels == {"pool": "a"}

    identity = Identity(node=NODE, token=Token("launch-1"), place=place, labels={"pool": "a"})
    play(story, identity=identity)


def test_it_registers_again_when_the_control_plane_has_forgotten_it() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        stage.gpus.xid(79, index=3)
        await stage.pass_time(5.0)
        told = len(stage.plane.reports)
        stage.plane.known.clear()
        await stage.pass_time(30.0)

        assert len(stage.plane.registrations) == 2
        after = {r.check for report in stage.plane.reports[told:] for r in report.results}
        assert {"boot", "xid/79/GPU-m-3"} <= after, "what the old one knew must be said again"

    play(story)


def test_an_agent_that_is_refused_the_token_keeps_trying_and_gets_in() -> None:
    async def story(stage: Stage) -> None:
        stage.faults["register"] = UnauthorizedError("invalid bearer token")
        stage.start()
        await stage.pass_time(300.0)
        assert stage.plane.registrations == []
        assert stage.calls.count("register") < 40, "it should back off"

        stage.faults.clear()
        await stage.pass_time(31.0)
        assert len(stage.plane.registrations) == 1
        assert stage.plane.reports

    play(story)


def test_reports_made_while_cut_off_arrive_in_order_and_once() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(5.0)
        stage.cut = True
        for code in (31, 63, 79, 94):
            await stage.pass_time(100.0)
            stage.gpus.xid(code, index=1)
        await stage.pass_time(100.0)
        stage.cut = False
        await stage.pass_time(60.0)

        xids = [check for check in stage.checks_told() if check.startswith("xid/")]
        assert xids == [f"xid/{code}/GPU-m-1" for code in (31, 63, 79, 94)]
        numbers = [report.number for report in stage.plane.reports]
        assert numbers == list(range(1, len(numbers) + 1))
        times = [report.at for report in stage.plane.reports if report.at is not None]
        assert times == sorted(times)
        assert stage.plane.samples, "readings taken meanwhile arrive as well"

    play(story)


def test_an_agent_killed_while_cut_off_tells_what_it_knew_after_its_restart() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(5.0)
        stage.cut = True
        await stage.pass_time(20.0)
        stage.gpus.xid(48, index=2)
        await stage.pass_time(3.0)
        await stage.kill()
        stage.start()
        await stage.pass_time(50.0)
        await stage.kill()
        stage.cut = False
        stage.start()
        await stage.pass_time(50.0)

        assert stage.checks_told().count("xid/48/GPU-m-2") == 1
        assert len({report.stream for report in stage.plane.reports}) == 1
        numbers = [report.number for report in stage.plane.reports]
        assert numbers == list(range(1, len(numbers) + 1))

    play(story)


def test_a_report_whose_answer_was_lost_is_sent_again_under_the_same_number() -> None:
    class Lossy(RehearsalControlPlane):
        lost = 2

        async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
            status = await super().report_health(node, report)
            self.lost -= 1
            if self.lost >= 0:
                raise UnreachableError("the answer was lost")
            return status

    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(45.0)

        assert stage.plane.repeats == 2
        assert [report.number for report in stage.plane.reports][:2] == [1, 2]

    play(story, plane=Lossy())


def test_a_report_that_will_never_be_accepted_does_not_block_the_others() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(2.0)
        stage.faults["report_health"] = InvalidError("no")
        stage.gpus.xid(63)
        await stage.pass_time(2.0)
        stage.faults.clear()
        await stage.pass_time(60.0)

        assert [report.number for report in stage.plane.reports][:2] == [1, 3]

    play(story)


def test_xids_are_reported_within_two_seconds_and_never_twice() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(7.0)
        stage.gpus.xid(79, index=5, text="GPU has fallen off the bus")
        await stage.pass_time(2.0)
        assert "xid/79/GPU-m-5" in stage.checks_told()
        await stage.pass_time(600.0)

        results = [r for r in stage.plane.results() if r.check == "xid/79/GPU-m-5"]
        assert [(r.health, r.fatal, r.lasting) for r in results] == [(Health.UNHEALTHY, True, True)]

    play(story)


def test_a_storm_of_one_xid_is_told_at_once_and_then_once_an_interval_with_its_count() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(5.5)
        before = len(stage.plane.reports)
        for _ in range(60):
            stage.gpus.xid(94, index=5)
            await stage.pass_time(1.0)
        await stage.pass_time(25.0)

        assert len(stage.plane.reports) - before <= 8, "the interval is 20 s"
        counts = [
            int(found.group(1)) if (found := re.search(r"\((\d+) times\)", r.reason)) else 1
            for r in stage.plane.results()
            if r.check.startswith("xid/94/")
        ]
        assert sum(counts) == 60, "none is forgotten"

    play(story)


def test_a_flood_is_written_down_before_it_fills_the_memory() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(5.5)
        for _ in range(10):
            for _ in range(300):
                stage.gpus.xid(94)
            await stage.pass_time(1.0)
            assert len(stage.gpus.events()) <= 1000

    play(story)


def test_xids_stay_with_the_driver_until_they_are_written_down() -> None:
    async def story(stage: Stage) -> None:
        class Watched(MemoryDisk):
            def append(self, name: str, data: bytes, *, sync: bool) -> None:
                assert stage.gpus.events() or b"xid/48" not in data
                super().append(name, data, sync=sync)

        stage.disk = Watched()
        stage.gpus.xid(48)
        stage.start()
        await stage.pass_time(0.5)

        assert stage.gpus.events() == []
        assert b"xid/48" in b"".join(stage.disk.files.values())

    play(story)


def test_with_a_disk_that_cannot_be_written_reports_still_arrive() -> None:
    class Full(MemoryDisk):
        def append(self, name: str, data: bytes, *, sync: bool) -> None:
            del data, sync
            raise DiskError(f"{name}: no space left on device")

    async def story(stage: Stage) -> None:
        stage.gpus.xid(48)
        stage.start()
        await stage.pass_time(60.0)

        assert "xid/48/GPU-m-0" in stage.checks_told()
        assert {report.number for report in stage.plane.reports} == {0}

    play(story, disk=Full())


def test_a_disk_that_cannot_be_asked_what_to_tell_delays_no_introduction() -> None:
    class Worn(MemoryDisk):
        is_worn = False

        def replace(self, name: str, data: bytes, *, sync: bool) -> None:
            if self.is_worn:
                raise DiskError(f"{name}: read-only file system")
            super().replace(name, data, sync=sync)

    disk = Worn()

    async def story(stage: Stage) -> None:
        stage.cut = True
        stage.start()
        await stage.pass_time(60.0)
        await stage.kill()
        await stage.pass_time(25 * 3600.0)
        stage.cut, disk.is_worn = False, True
        stage.probe_offload = HangingOffload()  # or the first round would find out about the disk
        stage.start()
        await stage.pass_time(Timing().inventory_s + 0.1)

        assert len(stage.plane.registrations) == 1

    play(story, disk=disk)


def test_a_machine_without_a_driver_reports_no_gpus_and_says_why() -> None:
    async def story(stage: Stage) -> None:
        stage.gpus.break_driver("no NVIDIA driver")
        stage.start()
        await stage.pass_time(1.0)

        assert stage.plane.registrations[0].inventory.gpus == ()
        boot = next(r for r in stage.plane.results() if r.check == "boot")
        assert boot.health is Health.UNHEALTHY
        assert "no NVIDIA driver" in boot.reason

    play(story)


def test_a_driver_that_comes_up_late_is_noticed_and_the_machine_introduced_again() -> None:
    async def story(stage: Stage) -> None:
        stage.gpus.break_driver()
        stage.start()
        await stage.pass_time(30.0)
        stage.gpus.repair()
        await stage.pass_time(60.0)

        assert [len(r.inventory.gpus) for r in stage.plane.registrations] == [0, 8]
        boots = [r.health for r in stage.plane.results() if r.check == "boot"]
        assert boots[-1] is Health.HEALTHY
        assert boots[0] is Health.UNHEALTHY

    play(story)


def test_cut_off_with_a_fatal_finding_it_marks_itself_not_ready() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(5.0)
        stage.cut = True
        await stage.pass_time(60.0)
        assert "not-ready" not in stage.disk.files
        stage.gpus.xid(79, index=4)
        await stage.pass_time(2.0)
        assert b"XID 79" in stage.disk.files["not-ready"]
        assert stage.agent.not_ready is not None

        await stage.kill()
        stage.start()
        await stage.pass_time(30.0)
        assert "not-ready" in stage.disk.files, "a restart clears nothing"

        stage.plane.status = NodeStatus.UNHEALTHY
        stage.cut = False
        await stage.pass_time(60.0)
        assert "not-ready" in stage.disk.files, "the control plane agrees"

        stage.plane.status = NodeStatus.ACTIVE
        await stage.pass_time(60.0)
        assert "not-ready" not in stage.disk.files, "the control plane has heard and decided"

    play(story)


def test_a_fatal_finding_that_can_be_reported_is_left_to_the_control_plane() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(5.0)
        stage.gpus.xid(79)
        await stage.pass_time(60.0)

        assert "not-ready" not in stage.disk.files

    play(story)


def test_passing_checks_take_the_mark_away_but_not_for_an_xid() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(5.0)
        stage.cut = True
        await stage.pass_time(60.0)
        stage.gpus.lose(1)
        await stage.pass_time(30.0)
        assert "not-ready" in stage.disk.files
        stage.gpus.repair()
        await stage.pass_time(30.0)
        assert "not-ready" not in stage.disk.files

    play(story)


def test_a_reboot_takes_the_mark_away_once_the_checks_pass() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(5.0)
        stage.cut = True
        await stage.pass_time(60.0)
        stage.gpus.xid(79)
        await stage.pass_time(2.0)
        await stage.kill()

        stage.boot = "boot-2"
        stage.start()
        await stage.pass_time(5.0)
        assert "not-ready" in stage.disk.files, "the GPU is still gone"
        stage.gpus.repair()
        await stage.pass_time(70.0)
        assert "not-ready" not in stage.disk.files

    play(story)


def test_a_command_is_acknowledged_carried_out_once_and_its_result_told() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(5.0)
        stage.plane.command(CommandKind.RUN_DIAGNOSTIC, name="c1", at=stage.clock.now())
        stage.gpus.heat(88.0, index=2)
        await stage.pass_time(20.0)

        assert stage.plane.acknowledged == ["c1"]
        [(name, succeeded, result)] = stage.plane.finished
        assert (name, succeeded) == ("c1", True)
        assert "GPU 2 is at 88 °C" in result

    play(story)


def test_a_command_delivered_again_after_a_restart_is_not_carried_out_again() -> None:
    async def story(stage: Stage) -> None:
        stage.faults["acknowledge"] = UnreachableError("lost")
        stage.faults["finish"] = UnreachableError("lost")
        stage.start()
        stage.plane.command(CommandKind.RUN_DIAGNOSTIC, name="c1", at=stage.clock.now())
        await stage.pass_time(30.0)
        stage.gpus.heat(99.0)
        await stage.kill()
        stage.faults.clear()
        stage.start()
        await stage.pass_time(30.0)

        [(name, _, result)] = stage.plane.finished
        assert name == "c1"
        assert "healthy" in result, "the result is that of the first time"

    play(story)


def test_a_command_acknowledged_by_an_agent_that_dies_is_carried_out_after_its_restart() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(1.0)
        stage.plane.command(CommandKind.DRAIN, name="c1", at=stage.clock.now())
        while not stage.plane.acknowledged:
            await stage.pass_time(0.001)
        await stage.kill()
        assert stage.plane.finished == []
        assert not stage.plane.waiting, "it will not be sent again"
        stage.start()
        await stage.pass_time(5.0)

        assert [name for name, _, _ in stage.plane.finished] == ["c1"]

    play(story)


def test_terminate_ends_the_agent_through_its_callback_and_tells_first() -> None:
    ended: list[str] = []

    async def story(stage: Stage) -> None:
        stage.start()
        stage.plane.command(CommandKind.TERMINATE, name="c1", at=stage.clock.now())
        await stage.pass_time(20.0)

        assert ended == ["ended"]
        assert not stage.life.done(), "only the callback decides what ends"
        assert [name for name, _, _ in stage.plane.finished] == ["c1"]
        await stage.pass_time(60.0)
        assert ended == ["ended"]

    play(story, on_terminate=lambda: ended.append("ended"))


def test_without_a_callback_terminate_ends_just_this_agent() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        stage.plane.command(CommandKind.TERMINATE, name="c1", at=stage.clock.now())
        await stage.pass_time(20.0)

        assert stage.life.done()
        assert [name for name, _, _ in stage.plane.finished] == ["c1"]

    play(story)


def test_uncordon_forgets_what_was_found_before() -> None:
    async def story(stage: Stage) -> None:
        stage.gpus.xid(48)
        stage.start()
        await stage.pass_time(5.0)
        assert b"xid/48" in stage.disk.files["findings.json"]
        stage.plane.command(CommandKind.UNCORDON, name="c1", at=stage.clock.now())
        await stage.pass_time(20.0)
        assert b"xid/48" not in stage.disk.files["findings.json"]

    play(story)


def test_a_stop_flushes_what_is_unsaid() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(5.0)
        stage.gpus.xid(79)
        stage.agent.run_all_checks()
        await stage.pass_time(0.0)
        stage.agent.stop()
        await stage.life

        assert "xid/79/GPU-m-0" in stage.checks_told()

    play(story)


def test_a_stop_while_cut_off_takes_no_longer_than_allowed() -> None:
    async def story(stage: Stage) -> None:
        stage.cut = True
        stage.start()
        await stage.pass_time(100.0)
        before = stage.clock.monotonic()
        await stage.stop()

        assert stage.clock.monotonic() - before <= 8.0

    play(story)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    name: str = "broken"
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        view.gpus.events()
        raise ZeroDivisionError


def test_a_check_that_throws_is_a_finding_and_loses_no_xid() -> None:
    async def story(stage: Stage) -> None:
        stage.gpus.xid(79)
        stage.start()
        await stage.pass_time(5.0)

        broken = next(r for r in stage.plane.results() if r.check == "broken")
        assert broken.health is Health.UNKNOWN
        assert "ZeroDivisionError" in broken.reason
        assert len(stage.gpus.events()) == 1

    play(story, checks=[Broken()])


class HangingOffload:
    """A driver that takes every question and answers none."""

    async def run(self, call: Callable[[], T]) -> T:
        del call
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


def test_a_driver_that_hangs_is_a_finding_and_delays_no_heartbeat() -> None:
    async def story(stage: Stage) -> None:
        stage.probe_offload = HangingOffload()
        stage.start()
        await stage.pass_time(8.0)
        assert len(stage.plane.beats) == 1, "it is alive, whatever its driver does"
        await stage.pass_time(300.0)

        assert stage.agent.hung
        assert len(stage.plane.beats) >= 27, "the interval is 10 s"
        gpu = [r for r in stage.plane.results() if r.check == "gpu"]
        assert gpu[-1].health is Health.UNHEALTHY
        assert "still unanswered" in gpu[-1].reason

    play(story)


def test_a_machine_that_is_not_wanted_any_more_keeps_asking_politely() -> None:
    async def story(stage: Stage) -> None:
        stage.faults["register"] = NotPossibleError("node gpu-7 is gone")
        stage.start()
        await stage.pass_time(600.0)

        assert 20 < stage.calls.count("register") < 70

    play(story)


def test_findings_dropped_from_the_buffer_for_their_age_are_said_again() -> None:
    async def story(stage: Stage) -> None:
        stage.start()
        await stage.pass_time(5.0)
        stage.cut = True
        stage.gpus.xid(79)
        await stage.pass_time(25 * 3600.0)
        stage.cut = False
        await stage.pass_time(120.0)

        assert "xid/79/GPU-m-0" in stage.checks_told()

    play(story)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_the_wire_and_the_kills_do_every_xid_arrives_in_order_and_once(seed: int) -> None:
    chance = SeededEntropy(f"chaos/{seed}")

    async def story(stage: Stage) -> None:
        stage.start()
        for number in range(20):
            stage.cut = chance.uniform(0, 1) < 0.5
            stage.faults.clear()
            if chance.uniform(0, 1) < 0.3:
                stage.faults["report_health"] = UnreachableError("lost")
            if chance.uniform(0, 1) < 0.1:
                stage.plane.known.clear()
            stage.gpus.xid(1000 + number)
            await stage.pass_time(chance.uniform(1.2, 60.0))
            if chance.uniform(0, 1) < 0.4:
                await stage.kill()
                await stage.pass_time(chance.uniform(0.0, 5.0))
                stage.start()
        stage.cut = False
        stage.faults.clear()
        await stage.pass_time(120.0)

        told = [c.split("/")[1] for c in stage.checks_told() if c.startswith("xid/")]
        first = list(dict.fromkeys(told))
        assert first == [str(1000 + number) for number in range(20)]
        numbers = [report.number for report in stage.plane.reports]
        assert numbers == sorted(numbers)

    play(story)
