"""GPU errors from the kernel log and from the driver."""

import asyncio
import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.direct_link import DirectLink
from tests.support.fake_control_plane import FakeControlPlane

from navarch.agent.agent import Agent
from navarch.agent.event_sources import EventSources, address, wake_on_kernel_log
from navarch.agent.recording import scan_machine
from navarch.agent.settings import Identity
from navarch.agent.spool.disk import FolderDisk
from navarch.cli.render.nodes import render_scan
from navarch.cli.render.table import Canvas
from navarch.clock import SystemClock, SystemEntropy, ThreadOffload
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.health.checks.xid import XidCheck
from navarch.hosts.kmsg import FileBookmark, Kmsg, MemoryBookmark, open_kmsg
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.checks import MachineView
from navarch.ports.host import HostError, KernelRecord
from navarch.sim.kernel.clock import SeededEntropy

LOST = "NVRM: Xid (PCI:0000:03:00): 79, pid=7, name=python, GPU has fallen off the bus."


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


class Log:
    """A kernel log written by the test; a new reader starts from the beginning."""

    name = "kmsg"
    lost = 0

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.kept: list[KernelRecord] = []
        self.read_to = 0
        self.broken = False

    def write(self, text: str, *, from_kernel: bool = True) -> None:
        number = len(self.kept) + 1
        self.kept.append(
            KernelRecord(
                sequence=number, at=self.clock.now(), text=text, from_kernel=from_kernel, raw=text
            )
        )

    def read(self) -> Sequence[KernelRecord]:
        if self.broken:
            raise HostError("no such device")
        new, self.read_to = self.kept[self.read_to :], len(self.kept)
        return new

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        pass


class Machine:
    def __init__(self) -> None:
        self.clock = Clock()
        self.gpus = SimulatedGpus(self.clock, SeededEntropy("g"), count=4, seed="m")
        self.log = Log(self.clock)
        self.bookmark = MemoryBookmark()

    def event_sources(self, boot_id: str = "boot-1") -> EventSources:
        self.log.read_to = 0
        return EventSources(
            self.clock, self.gpus, [self.log], bookmark=self.bookmark, boot_id=boot_id
        )

    def check(self, event_sources: EventSources) -> list[CheckResult]:
        host = SimulatedHost(self.clock, SeededEntropy("h"), "m")
        view = MachineView(
            now=self.clock.now(), gpus=event_sources, host=host, sources=event_sources.sources()
        )
        return list(XidCheck().run(view))


def events_of(event_sources: EventSources) -> list[tuple[int, str, str]]:
    return [(event.code, event.gpu, event.text) for event in event_sources.events()]


def test_the_address_forms_of_all_sources_are_equal() -> None:
    same = {address("00000000:3B:00.0"), address("0000:3b:00"), address("0000:3b:00.0")}

    assert same == {"0000:3b:00"}
    assert address("00000009:01:00.0") == address("0009:01:00")


def test_an_error_in_log_and_driver_is_one_event_with_the_gpus_uuid() -> None:
    machine = Machine()
    event_sources = machine.event_sources()
    machine.log.write(LOST)
    machine.gpus.xid(79, index=2)

    assert events_of(event_sources) == [(79, "GPU-m-2", "GPU has fallen off the bus.")]
    event_sources.settle(1)
    assert events_of(event_sources) == []
    assert machine.gpus.events() == []
    assert machine.bookmark.sequence == 1


def test_user_space_cannot_forge_an_error() -> None:
    machine = Machine()
    machine.log.write(LOST, from_kernel=False)

    assert events_of(machine.event_sources()) == []


def test_a_restart_resumes_after_the_last_settled_event() -> None:
    machine = Machine()
    machine.log.write(LOST)
    before = machine.event_sources()
    assert len(events_of(before)) == 1
    assert len(events_of(machine.event_sources())) == 1, "not settled, so seen again"
    before.settle(1)
    assert events_of(machine.event_sources()) == []
    machine.log.write(LOST.replace("79", "31"))
    assert [code for code, _, _ in events_of(machine.event_sources())] == [31]


def test_another_boot_is_read_from_the_start() -> None:
    machine = Machine()
    machine.bookmark.save("boot-1", 1000)
    machine.log.write(LOST)

    assert events_of(machine.event_sources("boot-1")) == []
    assert len(events_of(machine.event_sources("boot-2"))) == 1


def test_without_a_driver_the_log_still_yields_events() -> None:
    machine = Machine()
    machine.gpus.break_driver()
    machine.log.write(LOST)

    assert events_of(machine.event_sources()) == [(79, "0000:03:00", "GPU has fallen off the bus.")]


def test_without_a_log_the_driver_still_yields_events() -> None:
    machine = Machine()
    machine.log.broken = True
    machine.gpus.xid(79, index=2)

    assert events_of(machine.event_sources()) == [(79, "GPU-m-2", "")]


def test_a_late_text_is_reported_if_it_may_change_the_verdict() -> None:
    machine = Machine()
    event_sources = machine.event_sources()
    machine.gpus.xid(64, index=2)
    assert events_of(event_sources) == [(64, "GPU-m-2", "")]
    event_sources.settle(1)
    machine.log.write("NVRM: Xid (PCI:0000:03:00): 64, Row Remapping table is full")
    assert events_of(event_sources) == [(64, "GPU-m-2", "Row Remapping table is full")]
    event_sources.settle(1)
    machine.log.write("NVRM: Xid (PCI:0000:03:00): 64, Row Remapping table is full")
    assert events_of(event_sources) == []


def test_a_silent_source_is_a_finding_that_cordons_no_node() -> None:
    machine = Machine()
    event_sources = machine.event_sources()
    for _ in range(4):
        machine.gpus.xid(31, index=2)
        machine.check(event_sources)
        machine.clock.seconds += 10.0

    results = {result.check: result for result in machine.check(event_sources)}

    silent = results["xid-source/kmsg"]
    assert (silent.health, silent.fatal) == (Health.DEGRADED, False)
    assert "missed the last 3 errors" in silent.reason
    assert results["xid-source/nvml"].health is Health.HEALTHY


def test_a_kernel_line_is_reported_at_once_and_not_with_the_next_round(
    tmp_path: Path,
) -> None:
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    clock, plane = SystemClock(), FakeControlPlane()
    event_sources = EventSources(
        clock,
        SimulatedGpus(clock, SeededEntropy("g"), count=8, seed="m"),
        [Kmsg(clock, file=ours.detach())],
        bookmark=FileBookmark(tmp_path / "kernel-log" / "bookmark.json"),
        boot_id="boot-1",
    )
    offload, probe_offload = ThreadOffload("disk"), ThreadOffload("probe")
    disk = FolderDisk(tmp_path / "state")
    agent = Agent(
        clock,
        SystemEntropy(),
        DirectLink(clock, lambda: plane),
        event_sources,
        SimulatedHost(clock, SeededEntropy("h"), "m"),
        disk,
        identity=Identity(node=NodeId("m")),
        checks=standard_checks(),
        offload=offload,
        probe_offload=probe_offload,
        sources=event_sources.sources,
    )

    def is_reported(check: str) -> bool:
        return any(result.check.startswith(check) for result in plane.results())

    async def wait_for(check: str) -> float:
        since = time.perf_counter()
        async with asyncio.timeout(20):
            while not is_reported(check):
                await clock.sleep(0.001)
        return time.perf_counter() - since

    async def scenario() -> list[float]:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(agent.run())
            with wake_on_kernel_log(agent, event_sources):
                await wait_for("xid")
                took = []
                for code in (31, 43, 48, 74, 79):
                    line = f"NVRM: Xid (PCI:0000:03:00): {code}, pid=7, name=c, words"
                    theirs.send(f"4,{code},1,-;{line}".encode())
                    took.append(await wait_for(f"xid/{code}/GPU-m-2"))
                agent.stop()
                return took

    took = asyncio.run(scenario())
    offload.close()
    probe_offload.close()
    event_sources.close()
    disk.close()
    theirs.close()
    # Rounds are many seconds apart. Milliseconds are measured by `make bench-kernel-line`.
    assert min(took) < 2, took


def test_a_scan_reports_earlier_kernel_errors_with_their_source() -> None:
    machine = Machine()
    machine.log.write(LOST)
    machine.clock.seconds = 3600.0
    event_sources = machine.event_sources()
    host = SimulatedHost(machine.clock, SeededEntropy("h"), "m")

    scan = scan_machine(
        machine.clock, event_sources, host, [XidCheck()], sources=event_sources.sources
    )

    assert "xid/79/GPU-m-2" in {result.check for result in scan.results}
    assert {s.name: (s.events, s.missed) for s in scan.sources} == {"kmsg": (1, 0), "nvml": (0, 0)}
    text = render_scan(scan, Canvas(width=80, now=machine.clock.now()))
    assert "kmsg: 1 errors in 1 messages, 0 missed" in text


def test_the_kernel_log_never_blocks_never_repeats_and_finds_its_gpu() -> None:
    """The log must be read without blocking, from the bookmark, with addresses that match GPUs."""
    machine = Machine()
    bus_ids = {gpu.uuid: gpu.pci_bus_id for gpu in machine.gpus.list_gpus()}
    assert bus_ids["GPU-m-2"] == "00000000:03:00.0", "NVML writes eight digits, the log four"
    theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def events_after_start(boot_id: str, *records: str) -> list[tuple[int, str]]:
        """Return the events that a newly started agent finds in a log with `records`."""
        file = ours.dup()
        file.setblocking(False)
        log = Kmsg(machine.clock, file=file.detach())
        event_sources = EventSources(
            machine.clock, machine.gpus, [log], bookmark=machine.bookmark, boot_id=boot_id
        )
        assert not event_sources.poll_kernel_logs(), "with nothing to read it returns at once"
        for record in records:
            theirs.send(record.encode())
        found = [(event.code, event.gpu) for event in event_sources.events()]
        event_sources.settle(1000)
        assert event_sources.events() == []
        log.close()
        return found

    first, second = f"4,10,1,-;{LOST}", f"4,11,2,-;{LOST.replace('03:00', '04:00')}"
    assert events_after_start("boot-1", first) == [(79, "GPU-m-2")]
    assert events_after_start("boot-1", first, second) == [(79, "GPU-m-3")], (
        "the first is not reported again"
    )
    assert events_after_start("boot-1", first, second) == []
    assert events_after_start("boot-2", first) == [(79, "GPU-m-2")], (
        "another boot counts from the start"
    )
    theirs.close()
    ours.close()


def test_the_real_log_of_this_machine_is_read_without_blocking() -> None:
    """The same on the device itself."""
    log = open_kmsg(SystemClock())
    if log is None:
        pytest.skip("/dev/kmsg cannot be read here")
    numbers = [record.sequence for _ in range(100) for record in log.read()]
    log.close()
    assert numbers == sorted(set(numbers))


BY_KERNEL = "pcieport 0000:02:00.0: AER: {} error received: 0000:03:00.0"


def kernel_results(machine: Machine, event_sources: EventSources) -> dict[str, CheckResult]:
    found = machine.check(event_sources)
    return {each.check: each for each in found if each.check.startswith("kernel/")}


def test_a_fault_of_the_kernel_log_is_a_lasting_finding_of_its_gpu() -> None:
    machine = Machine()
    event_sources = machine.event_sources()
    machine.log.write("NVRM: GPU 0000:03:00.0: RmInitAdapter failed! (0x26:0xffff:1290)")
    (result,) = kernel_results(machine, event_sources).values()
    assert result.check == "kernel/rm-init/GPU-m-2"
    assert result.lasting
    assert result.health is Health.UNHEALTHY
    assert not result.fatal, "one line alone replaces no machine"
    assert result.action == "reboot_node"
    assert result.reason.startswith("GPU 2: the driver could not start the GPU: ")
    assert result.facts["pci"] == "0000:03:00"
    assert "code" not in result.facts


def test_a_fault_is_reported_until_it_is_settled_and_once() -> None:
    machine = Machine()
    event_sources = machine.event_sources()
    machine.log.write(BY_KERNEL.format("Uncorrected (Fatal)"))
    assert kernel_results(machine, event_sources)
    again = machine.event_sources()
    (result,) = kernel_results(machine, again).values()
    assert result.health is Health.UNHEALTHY
    again.settle(1)
    assert kernel_results(machine, again) == {}
    assert kernel_results(machine, machine.event_sources()) == {}


def test_a_flood_of_corrected_errors_is_one_degraded_finding() -> None:
    machine = Machine()
    event_sources = machine.event_sources()
    event_sources.list_gpus()
    for number in range(10_000):
        machine.clock.seconds = number / 100
        machine.log.write(BY_KERNEL.format("Corrected"))
        if number % 100 == 0:
            event_sources.poll_kernel_logs()
    (result,) = kernel_results(machine, event_sources).values()
    assert result.check == "kernel/aer-corrected/GPU-m-2"
    assert result.health is Health.DEGRADED


def test_a_fatal_error_of_another_device_only_degrades_the_node() -> None:
    machine = Machine()
    event_sources = machine.event_sources()
    machine.log.write("mlx5_core 0000:c1:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), x")
    (result,) = kernel_results(machine, event_sources).values()
    assert result.health is Health.DEGRADED
    assert result.facts["gpu"] == ""


def test_a_fault_that_user_space_has_written_is_none() -> None:
    machine = Machine()
    event_sources = machine.event_sources()
    machine.log.write(BY_KERNEL.format("Uncorrected (Fatal)"), from_kernel=False)
    assert kernel_results(machine, event_sources) == {}


def test_no_other_source_misses_a_fault_that_only_the_kernel_reports() -> None:
    machine = Machine()
    event_sources = machine.event_sources()
    for number in range(5):
        machine.clock.seconds = number * 60.0
        machine.log.write(BY_KERNEL.format("Uncorrected (Fatal)"))
        event_sources.events()
    assert not any(source.missed for source in event_sources.sources())
