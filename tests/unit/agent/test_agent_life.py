"""The agent in virtual time, against a control plane that records every call."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import pytest
from tests.support.direct_link import DirectLink
from tests.support.fake_control_plane import FakeControlPlane

from navarch.agent.agent import Agent
from navarch.agent.settings import Identity, Timing
from navarch.agent.spool import outbox
from navarch.agent.spool.disk import DiskError, MemoryDisk
from navarch.core.errors import InvalidError, NavarchError, NotPossibleError, UnreachableError
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId, ProviderName, Token
from navarch.core.instance import Sample
from navarch.core.launch import Offering
from navarch.core.node import NodeStatus
from navarch.core.recovery import CommandKind
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.agents import Registration, UnauthorizedError, Welcome
from navarch.ports.checks import HealthCheck, MachineView
from navarch.ports.clock import Offload
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop

NODE = NodeId("gpu-7")
T = TypeVar("T")


@dataclass
class Harness:
    """One machine, its agent and its control plane."""

    tasks: asyncio.TaskGroup
    clock: SimClock = field(default_factory=SimClock)
    plane: FakeControlPlane = field(default_factory=FakeControlPlane)
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    identity: Identity = field(default_factory=lambda: Identity(node=NODE))
    checks: Sequence[HealthCheck] = field(default_factory=standard_checks)
    boot: str = "boot-1"
    probe_offload: Offload = field(default_factory=InlineOffload)
    gpu_count: int = 8
    cut: bool = False
    on_terminate: Callable[[], None] | None = None
    starts: int = 0

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
        self.starts += 1
        entropy = SeededEntropy(f"agent/{self.starts}")
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
        self.run_task = self.tasks.create_task(self.agent.run())
        return self.agent

    async def kill(self) -> None:
        self.run_task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.run_task

    async def pass_time(self, seconds: float) -> None:
        await self.clock.sleep(seconds)

    async def stop(self) -> None:
        self.agent.stop()
        await self.run_task

    def reported_checks(self) -> list[str]:
        return [result.check for result in self.plane.results()]


class MetricsLink(DirectLink):
    """A direct link to a control plane that accepts buffered metrics."""

    def __init__(self, clock: SimClock, plane: Callable[[], FakeControlPlane]) -> None:
        super().__init__(clock, plane, wire_s=lambda: 0.01)
        self._plane = plane

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        await self._plane().report_metrics(node, samples)


def run_scenario(scenario: Callable[[Harness], Awaitable[None]], **harness: object) -> Harness:
    async def main() -> Harness:
        async with asyncio.TaskGroup() as tasks:
            set_up = Harness(tasks, **harness)  # type: ignore[arg-type]
            await scenario(set_up)
            if not set_up.run_task.done():
                await set_up.stop()
        return set_up

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(main())


def test_it_registers_and_reports_at_once_and_not_after_an_interval() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(1.0)

        assert [r.node for r in harness.plane.registrations] == [NODE]
        assert len(harness.plane.registrations[0].inventory.gpus) == 8
        assert harness.plane.registrations[0].boot_id == "boot-1"
        assert len(harness.plane.beats) == 1
        metrics = harness.plane.beats[0][1]
        assert metrics is not None
        assert len(metrics.gpus) == 8
        assert {"boot", "gpu", "xid"} <= set(harness.reported_checks())

    run_scenario(scenario)


def test_the_registration_carries_the_first_report() -> None:
    async def scenario(harness: Harness) -> None:
        harness.gpus.xid(79, index=3)
        harness.start()
        await harness.pass_time(1.0)

        report = harness.plane.registrations[0].report
        assert report is not None
        assert {"boot", "xid/79/GPU-m-3"} <= {result.check for result in report.results}
        assert report.boot_id == "boot-1"
        assert "report_health" not in harness.calls, "the registration carried it"

    run_scenario(scenario)


def test_a_report_that_registration_did_not_accept_is_uploaded_normally() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(1.0)

        assert harness.calls.count("report_health") == 1
        assert [report.number for report in harness.plane.reports] == [1]

    run_scenario(scenario, plane=FakeControlPlane(takes_first_reports=False))


def test_a_slow_round_of_checks_does_not_delay_registration() -> None:
    class SlowOffload(InlineOffload):
        async def run(self, call: Callable[[], T]) -> T:
            await asyncio.sleep(0.5)
            return await super().run(call)

    async def scenario(harness: Harness) -> None:
        harness.probe_offload = SlowOffload()
        harness.start()
        await harness.pass_time(4.0)

        assert len(harness.plane.registrations) == 1
        assert harness.plane.registrations[0].report is None, "ten checks take five seconds"
        assert len(harness.plane.beats) == 1
        await harness.pass_time(4.0)
        assert len(harness.reported_checks()) == 10

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Slow:
        name: str
        interval: timedelta | None = None

        def run(self, view: MachineView) -> Iterator[CheckResult]:
            del view
            yield CheckResult(check=self.name, health=Health.HEALTHY)

    run_scenario(scenario, checks=[Slow(name=f"slow-{number}") for number in range(10)])


def test_a_registration_with_a_lost_reply_sends_its_report_under_the_same_number() -> None:
    class Lossy(FakeControlPlane):
        lost = 2

        async def register(self, registration: Registration, *, link: str = "") -> Welcome:
            welcome = await super().register(registration, link=link)
            self.lost -= 1
            if self.lost >= 0:
                raise UnreachableError("the answer was lost")
            return welcome

    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(10.0)

        carried = [registration.report for registration in harness.plane.registrations]
        assert [report and report.number for report in carried] == [1, None, 1]
        assert harness.plane.repeats == 1
        assert [report.number for report in harness.plane.reports] == [1]

    run_scenario(scenario, plane=Lossy())


@pytest.mark.parametrize("refusal", [InvalidError, UnreachableError])
def test_a_report_that_is_refused_does_not_block_registration(
    refusal: type[NavarchError],
) -> None:
    class Picky(FakeControlPlane):
        async def register(self, registration: Registration, *, link: str = "") -> Welcome:
            if registration.report is not None and registration.report.number == 1:
                raise refusal("the report is invalid")
            return await super().register(registration, link=link)

        async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
            if report.number == 1:
                raise InvalidError("is too large a number")
            return await super().report_health(node, report)

    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(3.0)
        assert len(harness.plane.registrations) == 1
        await harness.pass_time(60.0)
        assert min(report.number for report in harness.plane.reports) == 2

    run_scenario(scenario, plane=Picky())


def test_it_keeps_the_intervals_that_the_control_plane_sets() -> None:
    async def scenario(harness: Harness) -> None:
        harness.plane.heartbeat_interval = timedelta(seconds=5)
        harness.plane.health_check_interval = timedelta(seconds=15)
        harness.start()
        await harness.pass_time(601.0)

        assert 114 <= len(harness.plane.beats) <= 127
        assert 40 <= len(harness.plane.reports) <= 42

    run_scenario(scenario)


def test_the_registration_carries_the_place_and_the_expected_gpus() -> None:
    place = Offering(provider=ProviderName("p"), instance_type="t", region="r", zone="z")

    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(1.0)

        registration = harness.plane.registrations[0]
        assert registration.token == "launch-1"
        assert registration.place is not None
        assert registration.place.gpus == 8
        assert registration.inventory.labels == {"pool": "a"}

    identity = Identity(node=NODE, token=Token("launch-1"), place=place, labels={"pool": "a"})
    run_scenario(scenario, identity=identity)


def test_it_registers_again_when_the_control_plane_lost_its_state() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        harness.gpus.xid(79, index=3)
        await harness.pass_time(5.0)
        sent = len(harness.plane.reports)
        harness.plane.known.clear()
        await harness.pass_time(30.0)

        assert len(harness.plane.registrations) == 2
        after = {r.check for report in harness.plane.reports[sent:] for r in report.results}
        assert {"boot", "xid/79/GPU-m-3"} <= after, "earlier findings are reported again"

    run_scenario(scenario)


def test_an_agent_with_a_refused_token_retries_until_it_is_accepted() -> None:
    async def scenario(harness: Harness) -> None:
        harness.faults["register"] = UnauthorizedError("invalid bearer token")
        harness.start()
        await harness.pass_time(300.0)
        assert harness.plane.registrations == []
        assert harness.calls.count("register") < 40, "it should back off"

        harness.faults.clear()
        await harness.pass_time(31.0)
        assert len(harness.plane.registrations) == 1
        assert harness.plane.reports

    run_scenario(scenario)


def test_reports_stored_while_disconnected_arrive_in_order_and_once() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.0)
        harness.cut = True
        for code in (31, 63, 79, 94):
            await harness.pass_time(100.0)
            harness.gpus.xid(code, index=1)
        await harness.pass_time(100.0)
        harness.cut = False
        await harness.pass_time(60.0)

        xids = [check for check in harness.reported_checks() if check.startswith("xid/")]
        assert xids == [f"xid/{code}/GPU-m-1" for code in (31, 63, 79, 94)]
        numbers = [report.number for report in harness.plane.reports]
        assert numbers == list(range(1, len(numbers) + 1))
        times = [report.at for report in harness.plane.reports if report.at is not None]
        assert times == sorted(times)
        assert harness.plane.samples, "readings taken meanwhile arrive as well"

    run_scenario(scenario)


def test_an_agent_killed_while_disconnected_uploads_its_reports_after_a_restart() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.0)
        harness.cut = True
        await harness.pass_time(20.0)
        harness.gpus.xid(48, index=2)
        await harness.pass_time(3.0)
        await harness.kill()
        harness.start()
        await harness.pass_time(50.0)
        await harness.kill()
        harness.cut = False
        harness.start()
        await harness.pass_time(50.0)

        assert harness.reported_checks().count("xid/48/GPU-m-2") == 1
        assert len({report.stream for report in harness.plane.reports}) == 1
        numbers = [report.number for report in harness.plane.reports]
        assert numbers == list(range(1, len(numbers) + 1))

    run_scenario(scenario)


def test_a_report_with_a_lost_reply_is_sent_again_under_the_same_number() -> None:
    class Lossy(FakeControlPlane):
        lost = 2

        async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
            status = await super().report_health(node, report)
            self.lost -= 1
            if self.lost >= 0:
                raise UnreachableError("the answer was lost")
            return status

    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(45.0)

        assert harness.plane.repeats == 2
        assert [report.number for report in harness.plane.reports][:2] == [1, 2]

    run_scenario(scenario, plane=Lossy())


def test_a_report_that_is_always_refused_does_not_block_the_others() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(2.0)
        harness.faults["report_health"] = InvalidError("no")
        harness.gpus.xid(63)
        await harness.pass_time(2.0)
        harness.faults.clear()
        await harness.pass_time(60.0)

        assert [report.number for report in harness.plane.reports][:2] == [1, 3]

    run_scenario(scenario)


def test_xids_are_reported_within_two_seconds_and_never_twice() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(7.0)
        harness.gpus.xid(79, index=5, text="GPU has fallen off the bus")
        await harness.pass_time(2.0)
        assert "xid/79/GPU-m-5" in harness.reported_checks()
        await harness.pass_time(600.0)

        results = [r for r in harness.plane.results() if r.check == "xid/79/GPU-m-5"]
        assert [(r.health, r.fatal, r.lasting) for r in results] == [(Health.UNHEALTHY, True, True)]

    run_scenario(scenario)


def test_a_repeated_xid_is_reported_at_once_and_then_once_per_interval_with_a_count() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.5)
        before = len(harness.plane.reports)
        for _ in range(60):
            harness.gpus.xid(94, index=5)
            await harness.pass_time(1.0)
        await harness.pass_time(25.0)

        assert len(harness.plane.reports) - before <= 8, "the interval is 20 s"
        counts = [
            int(found.group(1)) if (found := re.search(r"\((\d+) times\)", r.reason)) else 1
            for r in harness.plane.results()
            if r.check.startswith("xid/94/")
        ]
        assert sum(counts) == 60, "none is forgotten"

    run_scenario(scenario)


def test_a_flood_of_events_is_stored_before_it_fills_the_memory() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.5)
        for _ in range(10):
            for _ in range(300):
                harness.gpus.xid(94)
            await harness.pass_time(1.0)
            assert len(harness.gpus.events()) <= 1000

    run_scenario(scenario)


def test_xids_are_not_settled_until_they_are_stored() -> None:
    async def scenario(harness: Harness) -> None:
        class Watched(MemoryDisk):
            def append(self, name: str, data: bytes, *, sync: bool) -> None:
                assert harness.gpus.events() or b"xid/48" not in data
                super().append(name, data, sync=sync)

        harness.disk = Watched()
        harness.gpus.xid(48)
        harness.start()
        await harness.pass_time(0.5)

        assert harness.gpus.events() == []
        assert b"xid/48" in b"".join(harness.disk.files.values())

    run_scenario(scenario)


def test_reports_arrive_even_if_the_disk_cannot_be_written() -> None:
    class Full(MemoryDisk):
        def append(self, name: str, data: bytes, *, sync: bool) -> None:
            del data, sync
            raise DiskError(f"{name}: no space left on device")

    async def scenario(harness: Harness) -> None:
        harness.gpus.xid(48)
        harness.start()
        await harness.pass_time(60.0)

        assert "xid/48/GPU-m-0" in harness.reported_checks()
        assert {report.number for report in harness.plane.reports} == {0}

    run_scenario(scenario, disk=Full())


def test_an_unreadable_disk_does_not_delay_registration() -> None:
    class Worn(MemoryDisk):
        is_worn = False

        def replace(self, name: str, data: bytes, *, sync: bool) -> None:
            if self.is_worn:
                raise DiskError(f"{name}: read-only file system")
            super().replace(name, data, sync=sync)

    disk = Worn()

    async def scenario(harness: Harness) -> None:
        harness.cut = True
        harness.start()
        await harness.pass_time(60.0)
        await harness.kill()
        await harness.pass_time(25 * 3600.0)
        harness.cut, disk.is_worn = False, True
        harness.probe_offload = HangingOffload()  # otherwise the first round fails on the disk
        harness.start()
        await harness.pass_time(Timing().inventory_s + 0.1)

        assert len(harness.plane.registrations) == 1

    run_scenario(scenario, disk=disk)


def test_a_machine_without_a_driver_reports_no_gpus_and_the_reason() -> None:
    async def scenario(harness: Harness) -> None:
        harness.gpus.break_driver("no NVIDIA driver")
        harness.start()
        await harness.pass_time(1.0)

        assert harness.plane.registrations[0].inventory.gpus == ()
        boot = next(r for r in harness.plane.results() if r.check == "boot")
        assert boot.health is Health.UNHEALTHY
        assert "no NVIDIA driver" in boot.reason

    run_scenario(scenario)


def test_a_driver_that_starts_late_makes_the_machine_register_again() -> None:
    async def scenario(harness: Harness) -> None:
        harness.gpus.break_driver()
        harness.start()
        await harness.pass_time(30.0)
        harness.gpus.repair()
        await harness.pass_time(60.0)

        assert [len(r.inventory.gpus) for r in harness.plane.registrations] == [0, 8]
        boots = [r.health for r in harness.plane.results() if r.check == "boot"]
        assert boots[-1] is Health.HEALTHY
        assert boots[0] is Health.UNHEALTHY

    run_scenario(scenario)


def test_a_fatal_finding_while_disconnected_marks_the_machine_not_ready() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.0)
        harness.cut = True
        await harness.pass_time(60.0)
        assert "not-ready" not in harness.disk.files
        harness.gpus.xid(79, index=4)
        await harness.pass_time(2.0)
        assert b"XID 79" in harness.disk.files["not-ready"]
        assert harness.agent.not_ready is not None

        await harness.kill()
        harness.start()
        await harness.pass_time(30.0)
        assert "not-ready" in harness.disk.files, "a restart clears nothing"

        harness.plane.status = NodeStatus.UNHEALTHY
        harness.cut = False
        await harness.pass_time(60.0)
        assert "not-ready" in harness.disk.files, "the control plane agrees"

        harness.plane.status = NodeStatus.ACTIVE
        await harness.pass_time(60.0)
        assert "not-ready" not in harness.disk.files, "the control plane received it and decided"

    run_scenario(scenario)


def test_a_fatal_finding_that_can_be_reported_is_left_to_the_control_plane() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.0)
        harness.gpus.xid(79)
        await harness.pass_time(60.0)

        assert "not-ready" not in harness.disk.files

    run_scenario(scenario)


def test_passing_checks_remove_the_mark_except_for_an_xid() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.0)
        harness.cut = True
        await harness.pass_time(60.0)
        harness.gpus.lose(1)
        await harness.pass_time(30.0)
        assert "not-ready" in harness.disk.files
        harness.gpus.repair()
        await harness.pass_time(30.0)
        assert "not-ready" not in harness.disk.files

    run_scenario(scenario)


def test_a_reboot_removes_the_mark_once_the_checks_pass() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.0)
        harness.cut = True
        await harness.pass_time(60.0)
        harness.gpus.xid(79)
        await harness.pass_time(2.0)
        await harness.kill()

        harness.boot = "boot-2"
        harness.start()
        await harness.pass_time(5.0)
        assert "not-ready" in harness.disk.files, "the GPU is still gone"
        harness.gpus.repair()
        await harness.pass_time(70.0)
        assert "not-ready" not in harness.disk.files

    run_scenario(scenario)


def test_a_command_is_acknowledged_runs_once_and_its_result_is_reported() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.0)
        harness.plane.command(CommandKind.RUN_DIAGNOSTIC, name="c1", at=harness.clock.now())
        harness.gpus.heat(88.0, index=2)
        await harness.pass_time(20.0)

        assert harness.plane.acknowledged == ["c1"]
        [(name, succeeded, result)] = harness.plane.finished
        assert (name, succeeded) == ("c1", True)
        assert "GPU 2 is at 88 °C" in result

    run_scenario(scenario)


def test_a_command_delivered_again_after_a_restart_does_not_run_again() -> None:
    async def scenario(harness: Harness) -> None:
        harness.faults["acknowledge"] = UnreachableError("lost")
        harness.faults["finish"] = UnreachableError("lost")
        harness.start()
        harness.plane.command(CommandKind.RUN_DIAGNOSTIC, name="c1", at=harness.clock.now())
        await harness.pass_time(30.0)
        harness.gpus.heat(99.0)
        await harness.kill()
        harness.faults.clear()
        harness.start()
        await harness.pass_time(30.0)

        [(name, _, result)] = harness.plane.finished
        assert name == "c1"
        assert "healthy" in result, "the result is that of the first time"

    run_scenario(scenario)


def test_a_command_acknowledged_before_a_crash_runs_after_the_restart() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(1.0)
        harness.plane.command(CommandKind.DRAIN, name="c1", at=harness.clock.now())
        while not harness.plane.acknowledged:
            await harness.pass_time(0.001)
        await harness.kill()
        assert harness.plane.finished == []
        assert not harness.plane.waiting, "it will not be sent again"
        harness.start()
        await harness.pass_time(5.0)

        assert [name for name, _, _ in harness.plane.finished] == ["c1"]

    run_scenario(scenario)


def test_terminate_reports_its_result_before_it_calls_the_callback() -> None:
    ended: list[str] = []

    async def scenario(harness: Harness) -> None:
        harness.start()
        harness.plane.command(CommandKind.TERMINATE, name="c1", at=harness.clock.now())
        await harness.pass_time(20.0)

        assert ended == ["ended"]
        assert not harness.run_task.done(), "only the callback stops anything"
        assert [name for name, _, _ in harness.plane.finished] == ["c1"]
        await harness.pass_time(60.0)
        assert ended == ["ended"]

    run_scenario(scenario, on_terminate=lambda: ended.append("ended"))


def test_without_a_callback_terminate_stops_only_this_agent() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        harness.plane.command(CommandKind.TERMINATE, name="c1", at=harness.clock.now())
        await harness.pass_time(20.0)

        assert harness.run_task.done()
        assert [name for name, _, _ in harness.plane.finished] == ["c1"]

    run_scenario(scenario)


def test_uncordon_clears_earlier_findings() -> None:
    async def scenario(harness: Harness) -> None:
        harness.gpus.xid(48)
        harness.start()
        await harness.pass_time(5.0)
        assert b"xid/48" in harness.disk.files["findings.json"]
        harness.plane.command(CommandKind.UNCORDON, name="c1", at=harness.clock.now())
        await harness.pass_time(20.0)
        assert b"xid/48" not in harness.disk.files["findings.json"]

    run_scenario(scenario)


def test_a_stop_uploads_what_is_stored() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.0)
        harness.gpus.xid(79)
        harness.agent.run_all_checks()
        await harness.pass_time(0.0)
        harness.agent.stop()
        await harness.run_task

        assert "xid/79/GPU-m-0" in harness.reported_checks()

    run_scenario(scenario)


def test_a_stop_while_disconnected_is_bounded_by_its_timeout() -> None:
    async def scenario(harness: Harness) -> None:
        harness.cut = True
        harness.start()
        await harness.pass_time(100.0)
        before = harness.clock.monotonic()
        await harness.stop()

        assert harness.clock.monotonic() - before <= 8.0

    run_scenario(scenario)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenCheck:
    name: str = "broken"
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        view.gpus.events()
        raise ZeroDivisionError


def test_a_check_that_raises_is_a_finding_and_loses_no_xid() -> None:
    async def scenario(harness: Harness) -> None:
        harness.gpus.xid(79)
        harness.start()
        await harness.pass_time(5.0)

        broken = next(r for r in harness.plane.results() if r.check == "broken")
        assert broken.health is Health.UNKNOWN
        assert "ZeroDivisionError" in broken.reason
        assert len(harness.gpus.events()) == 1

    run_scenario(scenario, checks=[BrokenCheck()])


@dataclass(frozen=True, slots=True, kw_only=True)
class NonsenseCheck:
    answer: object
    name: str = "nonsense"
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        del view
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        7,
        ["broken"],
        [CheckResult(check="nonsense", health="unhealthy", reason="")],  # type: ignore[arg-type]
        [CheckResult(check="nonsense", health=Health.UNHEALTHY, reason=None)],  # type: ignore[arg-type]
        [CheckResult(check="nonsense", health=Health.UNHEALTHY, facts={"code": 79})],  # type: ignore[dict-item]
        SystemExit(1),
        asyncio.CancelledError(),
    ],
)
def test_a_check_that_returns_nonsense_is_unknown_and_ends_no_agent(answer: object) -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.0)
        found = next(r for r in harness.plane.results() if r.check == "nonsense")
        assert found.health is Health.UNKNOWN
        assert "the check itself failed" in found.reason
        assert [r.health for r in harness.plane.results() if r.check == "lustre"]
        await harness.pass_time(60.0)
        assert len(harness.plane.beats) > 4, "the agent goes on"

    run_scenario(scenario, checks=[NonsenseCheck(answer=answer), LustreCheck()])


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreCheck:
    """A check of a site, with releases of its own."""

    name: str = "lustre"
    interval: timedelta | None = None
    version: str = "2.0"

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        del view
        yield CheckResult(check=self.name, health=Health.HEALTHY, facts={"mount": "/data"})


def test_results_of_a_check_with_a_version_of_its_own_carry_it() -> None:
    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.0)
        facts = {result.check: result.facts for result in harness.plane.results()}
        assert facts["lustre"] == {"mount": "/data", "check_version": "2.0"}
        assert "check_version" not in facts["broken"]

    run_scenario(scenario, checks=[LustreCheck(), BrokenCheck()])


class HangingOffload:
    """An Offload that never returns, like a hung driver."""

    async def run(self, call: Callable[[], T]) -> T:
        del call
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


def test_a_hung_driver_is_a_finding_and_delays_no_heartbeat() -> None:
    async def scenario(harness: Harness) -> None:
        harness.probe_offload = HangingOffload()
        harness.start()
        await harness.pass_time(8.0)
        assert len(harness.plane.beats) == 1, "it is alive, whatever its driver does"
        await harness.pass_time(300.0)

        assert harness.agent.hung
        assert len(harness.plane.beats) >= 27, "the interval is 10 s"
        gpu = [r for r in harness.plane.results() if r.check == "gpu"]
        assert gpu[-1].health is Health.UNHEALTHY
        assert "has not returned" in gpu[-1].reason

    run_scenario(scenario)


def test_a_machine_that_is_refused_retries_with_backoff() -> None:
    async def scenario(harness: Harness) -> None:
        harness.faults["register"] = NotPossibleError("node gpu-7 is gone")
        harness.start()
        await harness.pass_time(600.0)

        assert 20 < harness.calls.count("register") < 70

    run_scenario(scenario)


def test_findings_that_expired_from_the_buffer_are_reported_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # An agent checks its GPUs every second: a day takes nine seconds.
    monkeypatch.setattr(outbox, "AGE_MAX", timedelta(hours=1))

    async def scenario(harness: Harness) -> None:
        harness.start()
        await harness.pass_time(5.0)
        harness.cut = True
        harness.gpus.xid(79)
        await harness.pass_time(1.1 * 3600.0)
        harness.cut = False
        await harness.pass_time(120.0)

        assert "xid/79/GPU-m-0" in harness.reported_checks()

    run_scenario(scenario)


@pytest.mark.parametrize("seed", range(30))
def test_under_network_faults_and_kills_every_xid_arrives_in_order_and_once(seed: int) -> None:
    chance = SeededEntropy(f"chaos/{seed}")

    async def scenario(harness: Harness) -> None:
        harness.start()
        for number in range(20):
            harness.cut = chance.uniform(0, 1) < 0.5
            harness.faults.clear()
            if chance.uniform(0, 1) < 0.3:
                harness.faults["report_health"] = UnreachableError("lost")
            if chance.uniform(0, 1) < 0.1:
                harness.plane.known.clear()
            harness.gpus.xid(1000 + number)
            await harness.pass_time(chance.uniform(1.2, 60.0))
            if chance.uniform(0, 1) < 0.4:
                await harness.kill()
                await harness.pass_time(chance.uniform(0.0, 5.0))
                harness.start()
        harness.cut = False
        harness.faults.clear()
        await harness.pass_time(120.0)

        sent = [c.split("/")[1] for c in harness.reported_checks() if c.startswith("xid/")]
        first = list(dict.fromkeys(sent))
        assert first == [str(1000 + number) for number in range(20)]
        numbers = [report.number for report in harness.plane.reports]
        assert numbers == sorted(numbers)

    run_scenario(scenario)
