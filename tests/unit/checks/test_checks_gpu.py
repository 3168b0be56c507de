"""Results of the GPU checks from readings."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from navarch.core.health import CheckResult, Health, History
from navarch.core.instance import Gpu, GpuMetrics, MachineKind
from navarch.health.checks.boot import BootCheck
from navarch.health.checks.devices import CountCheck, HoldersCheck, NvmlCheck, RecoveryCheck
from navarch.health.checks.issues import GpuCheck
from navarch.health.checks.links import FabricCheck, NvlinkCheck, PcieCheck
from navarch.health.checks.memory import EccCheck, RowsCheck, spare_rows
from navarch.health.checks.power import PowerCheck, SettingsCheck, ThrottleCheck
from navarch.health.checks.standard import standard_checks
from navarch.health.checks.work import GpuWork, WorkCheck, gpus_at_work
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.checks import HealthCheck, MachineView
from navarch.ports.gpu import (
    Fabric,
    GpuError,
    GpuEvent,
    GpuHealth,
    GpuHungError,
    GpuLostError,
    NvLink,
    SpareRows,
)
from navarch.sim.kernel.clock import SeededEntropy, SimClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)

GPU_CHECKS = [
    check for check in standard_checks() if isinstance(check, GpuCheck | CountCheck | WorkCheck)
]

SOUND = GpuHealth(
    temperature_c=45.0,
    slowdown_c=89.0,
    shutdown_c=95.0,
    memory_temperature_c=43.0,
    memory_max_c=95.0,
    utilization_pct=0.0,
    sm_clock_mhz=1980,
    clock_reasons=1,
    thermal_slowdown_ns=0,
    software_slowdown_ns=0,
    power_brake_ns=0,
    power_w=128.5,
    power_limit_w=700.0,
    power_default_w=700.0,
    ecc_uncorrected=0,
    ecc_corrected=0,
    ecc_uncorrected_ever=0,
    ecc_corrected_ever=0,
    ecc_on=True,
    ecc_on_next=True,
    sram_worn=False,
    rows_remapped=0,
    remap_pending=False,
    remap_failed=False,
    spare_rows=SpareRows(full=3072),
    pcie_generation=5,
    pcie_generation_max=5,
    pcie_width=16,
    pcie_width_max=16,
    pcie_replays=0,
    nvlinks=tuple(NvLink(index=i, active=True) for i in range(18)),
    fabric=Fabric(state=3, status=0, health_mask=0x1AA),
    persistent=True,
    recovery_action=0,
)
"""A GPU without faults; the fabric's mask denies every fault."""


@dataclass
class Cards:
    """GPUs with the readings of a test case."""

    health_of: list[GpuHealth | GpuError] = field(default_factory=lambda: [SOUND, SOUND])
    trouble: GpuError | None = None
    version: str = "580.1"

    def list_gpus(self) -> Sequence[Gpu]:
        if self.trouble is not None:
            raise self.trouble
        return [
            Gpu(index=i, uuid=f"GPU-{i}", memory_bytes=140 << 30, driver_version=self.version)
            for i in range(len(self.health_of))
        ]

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        raise NotImplementedError(gpu)

    def health(self, gpu: Gpu) -> GpuHealth:
        found = self.health_of[gpu.index]
        if isinstance(found, GpuError):
            raise found
        return found

    def events(self) -> Sequence[GpuEvent]:
        return ()

    def settle(self, number: int) -> None:
        raise NotImplementedError(number)

    def close(self) -> None:
        raise NotImplementedError


def a_host() -> SimulatedHost:
    return SimulatedHost(SimClock(), SeededEntropy("host"), "m")


@dataclass
class Round:
    """A machine that can be checked repeatedly."""

    cards: Cards = field(default_factory=Cards)
    host: SimulatedHost = field(default_factory=a_host)
    history: History = field(default_factory=History)
    now: datetime = NOW
    expected: int | None = None
    kind: MachineKind | None = None

    def look(self, check: HealthCheck, *, after: timedelta = timedelta(0)) -> CheckResult:
        self.now += after
        view = MachineView(
            now=self.now,
            gpus=self.cards,
            host=self.host,
            history=self.history,
            gpus_expected=self.expected,
            kind=self.kind,
        )
        [result] = list(check.run(view))
        return result


@pytest.mark.parametrize("check", GPU_CHECKS, ids=lambda check: check.name)
def test_a_sound_gpu_passes(check: HealthCheck) -> None:
    assert Round().look(check) == CheckResult(check=check.name, health=Health.HEALTHY)


@pytest.mark.parametrize("check", GPU_CHECKS, ids=lambda check: check.name)
def test_a_gpu_without_readings_passes(check: HealthCheck) -> None:
    assert Round(Cards([GpuHealth()])).look(check).health is Health.HEALTHY


@pytest.mark.parametrize("check", GPU_CHECKS, ids=lambda check: check.name)
def test_a_failing_driver_is_reported_by_one_check_only(check: HealthCheck) -> None:
    machine = Round(Cards(trouble=GpuHungError("the driver did not respond within 5 s")))

    result = machine.look(check)

    assert result.health is Health.UNKNOWN
    assert "did not respond within 5 s" in result.reason
    assert machine.look(NvmlCheck()).health is Health.UNHEALTHY


def test_a_lost_gpu_does_not_hide_the_issue_of_another() -> None:
    broken = replace(SOUND, remap_failed=True)
    machine = Round(Cards([GpuLostError("GPU is lost"), broken]))

    assert machine.look(RowsCheck()).reason == "GPU 1 failed to remap a bad memory row"
    assert machine.look(PowerCheck()).health is Health.UNKNOWN
    assert machine.look(NvmlCheck()).fatal


BAD = [
    (NvmlCheck(), replace(SOUND, temperature_c=89.0), Health.UNHEALTHY, "above its limit"),
    (NvmlCheck(), replace(SOUND, memory_temperature_c=93.0), Health.DEGRADED, "memory is at 93"),
    (NvmlCheck(), replace(SOUND, ecc_uncorrected=1), Health.UNHEALTHY, "1 uncorrected"),
    (EccCheck(), replace(SOUND, sram_worn=True), Health.UNHEALTHY, "SRAM errors"),
    (EccCheck(), replace(SOUND, ecc_uncorrected_ever=600), Health.UNHEALTHY, "600 uncorrected"),
    (RowsCheck(), replace(SOUND, remap_pending=True), Health.DEGRADED, "needs a reset"),
    (RowsCheck(), replace(SOUND, remap_failed=True), Health.UNHEALTHY, "failed to remap"),
    (RowsCheck(), replace(SOUND, rows_remapped=512), Health.UNHEALTHY, "remapped 512"),
    (RowsCheck(), replace(SOUND, spare_rows=SpareRows(none=1)), Health.DEGRADED, "without a spare"),
    (RowsCheck(), replace(SOUND, spare_rows=SpareRows(low=4)), Health.DEGRADED, "short of spare"),
    (RowsCheck(), replace(SOUND, pages_retired=60), Health.UNHEALTHY, "retired 60"),
    (RowsCheck(), replace(SOUND, pages_pending=True), Health.DEGRADED, "retire a bad memory page"),
    (PowerCheck(), replace(SOUND, power_w=900.0), Health.DEGRADED, "draws 900 W"),
    (
        PowerCheck(),
        replace(SOUND, power_limit_w=300.0),
        Health.DEGRADED,
        "limited to 300 W of its default 700",
    ),
    (PcieCheck(), replace(SOUND, pcie_width=8), Health.DEGRADED, "8 of 16 PCIe lanes"),
    (
        PcieCheck(),
        replace(SOUND, pcie_generation=3, utilization_pct=90.0),
        Health.DEGRADED,
        "generation 3 instead of 5",
    ),
    (
        NvlinkCheck(),
        replace(SOUND, nvlinks=tuple(NvLink(index=i, active=i != 7) for i in range(18))),
        Health.DEGRADED,
        "NVLink 7 down",
    ),
    (FabricCheck(), replace(SOUND, fabric=Fabric(state=3, status=9)), Health.UNHEALTHY, "status 9"),
    (
        FabricCheck(),
        replace(SOUND, fabric=Fabric(state=3, health_mask=0x1A9)),
        Health.DEGRADED,
        "degraded bandwidth",
    ),
    (
        FabricCheck(),
        replace(SOUND, fabric=Fabric(state=3, health_mask=0x19A)),
        Health.UNHEALTHY,
        "unhealthy route",
    ),
    (
        FabricCheck(),
        replace(SOUND, fabric=Fabric(state=3, health_mask=0x2AA)),
        Health.UNHEALTHY,
        "configured wrongly",
    ),
    (RecoveryCheck(), replace(SOUND, recovery_action=1), Health.UNHEALTHY, "a reset of the GPU"),
    (
        RecoveryCheck(),
        replace(SOUND, recovery_action=4),
        Health.DEGRADED,
        "a drain and a GPU reset",
    ),
    (RecoveryCheck(), replace(SOUND, recovery_action=99), Health.DEGRADED, "action 99"),
    (SettingsCheck(), replace(SOUND, ecc_on=False), Health.DEGRADED, "correction off"),
    (SettingsCheck(), replace(SOUND, ecc_on_next=False), Health.DEGRADED, "off after a restart"),
    (SettingsCheck(), replace(SOUND, persistent=False), Health.DEGRADED, "persistence mode off"),
    (BootCheck(), replace(SOUND, pcie_width=8), Health.UNHEALTHY, "8 of 16 PCIe lanes"),
    (BootCheck(), replace(SOUND, remap_failed=True), Health.UNHEALTHY, "failed to remap"),
    (BootCheck(), replace(SOUND, fabric=Fabric(state=3, status=9)), Health.UNHEALTHY, "rejected"),
    (
        BootCheck(),
        replace(SOUND, fabric=Fabric(state=2)),
        Health.UNKNOWN,
        "is waiting for the NVLink",
    ),
]


@pytest.mark.parametrize(("check", "card", "health", "words"), BAD)
def test_a_bad_reading_is_reported_with_its_gpu(
    check: HealthCheck, card: GpuHealth, health: Health, words: str
) -> None:
    result = Round(Cards([SOUND, card])).look(check)

    assert (result.check, result.health) == (check.name, health)
    assert "GPU 1" in result.reason
    assert "GPU 0" not in result.reason
    assert words in result.reason


HARMLESS = [
    (PcieCheck(), replace(SOUND, pcie_generation=1), "an idle card saves power"),
    (
        NvlinkCheck(),
        replace(SOUND, nvlinks=tuple(NvLink(index=i, active=False) for i in range(18))),
        "links that nobody uses",
    ),
    (FabricCheck(), replace(SOUND, fabric=Fabric(state=2)), "a fabric that still starts"),
    (ThrottleCheck(), replace(SOUND, clock_reasons=0x4), "a power cap is how cards work"),
    (ThrottleCheck(), replace(SOUND, clock_reasons=0x48), "a bit that is set for a moment"),
    (EccCheck(), replace(SOUND, ecc_corrected=10**6), "old errors"),
    (PowerCheck(), replace(SOUND, power_w=760.0), "a moment above the limit"),
]


@pytest.mark.parametrize(("check", "card", "why"), HARMLESS)
def test_harmless_readings_are_not_findings(check: HealthCheck, card: GpuHealth, why: str) -> None:
    assert Round(Cards([card])).look(check).health is Health.HEALTHY, why


RISING = [
    (EccCheck(), replace(SOUND, ecc_corrected=20_000), "corrects more than"),
    (PcieCheck(), replace(SOUND, pcie_replays=500), "replayed 500 PCIe packets"),
    (
        NvlinkCheck(),
        replace(SOUND, nvlinks=(NvLink(index=3, active=True, recoveries=1),)),
        "recover an NVLink (3)",
    ),
    (
        NvlinkCheck(),
        replace(SOUND, nvlinks=(NvLink(index=3, active=True, crc_errors=5000),)),
        "NVLink errors an hour",
    ),
    (ThrottleCheck(), replace(SOUND, thermal_slowdown_ns=90 * 10**9), "by heat for 90 s"),
    (ThrottleCheck(), replace(SOUND, power_brake_ns=61 * 10**9), "the power supply for 61 s"),
]


@pytest.mark.parametrize(("check", "worse", "words"), RISING)
def test_a_counter_is_judged_by_its_recent_increase(
    check: HealthCheck, worse: GpuHealth, words: str
) -> None:
    machine = Round(Cards([SOUND]))
    assert machine.look(check).health is Health.HEALTHY

    machine.cards.health_of[0] = worse
    result = machine.look(check, after=timedelta(seconds=60))
    later = machine.look(check, after=timedelta(hours=2))

    assert result.health is Health.DEGRADED
    assert words in result.reason
    assert later.health is Health.HEALTHY


def test_a_gpu_without_throttle_counters_is_judged_by_its_bits_under_load_only() -> None:
    bare = GpuHealth(clock_reasons=0x40)

    assert Round(Cards([bare])).look(ThrottleCheck()).health is Health.HEALTHY
    busy = replace(bare, utilization_pct=100.0)
    assert Round(Cards([busy])).look(ThrottleCheck()).reason == "GPU 0 is slowed by heat"


def test_the_boot_check_compares_with_the_catalogue() -> None:
    kind = MachineKind(
        provider="aws", instance_type="p5en.48xlarge", gpu_model="H200", gpus=8, gpu_memory_gib=141
    )

    assert Round(kind=kind).look(BootCheck()).reason == "2 of 8 GPUs found"
    two = replace(kind, gpus=2)
    assert Round(kind=two).look(BootCheck()).health is Health.HEALTHY
    bigger = replace(two, gpu_memory_gib=192)
    assert "has 140 GiB of memory instead of 192" in Round(kind=bigger).look(BootCheck()).reason


def test_the_boot_check_compares_module_and_library_versions() -> None:
    machine = Round()
    machine.host.module = "575.2"

    assert machine.look(BootCheck()).reason == (
        "the kernel module has version 575.2, the driver library 580.1"
    )


def test_the_count_check_compares_with_the_pci_bus() -> None:
    machine = Round()
    machine.host.gpus_on_bus = 3

    assert machine.look(CountCheck()).reason == "the driver lists 2 of 3 GPUs on the PCI bus"
    machine.host.gpus_on_bus = 0
    assert machine.look(CountCheck()).health is Health.HEALTHY
    machine.expected = 4
    assert machine.look(CountCheck()).reason == "2 of 4 GPUs found"


def test_only_ended_holders_are_a_finding() -> None:
    machine = Round(Cards([replace(SOUND, holders=(10, 11, 12))]))
    assert machine.look(HoldersCheck()).health is Health.HEALTHY, "others cannot be seen"

    machine.host.processes = {10: "S", 11: "Z"}

    assert machine.look(HoldersCheck()).reason == (
        "GPU 0 is held by a process that has ended: 11, 12"
    )


def test_check_names_are_unique() -> None:
    names = [check.name for check in standard_checks()]

    assert len(set(names)) == len(names)


def test_used_spare_rows_are_reported_before_they_are_a_finding() -> None:
    worn = replace(SOUND, spare_rows=SpareRows(full=630, high=9, partial=1))
    result = Round(Cards([SOUND, worn])).look(RowsCheck())

    assert result.health is Health.HEALTHY
    assert dict(spare_rows(result.facts)) == {"GPU-1": (630, 9, 1, 0, 0)}


def test_malformed_spare_rows_are_skipped() -> None:
    nonsense = {"spare/a": "1 2 3", "spare/b": "1 2 3 4 x", "spare/c": "", "code": "48"}

    assert list(spare_rows({**nonsense, "spare/d": "1 0 0 0 0"})) == [("d", (1, 0, 0, 0, 0))]


def test_a_busy_gpu_reports_its_job_and_speed() -> None:
    busy = replace(SOUND, utilization_pct=98.0, holders=(7, 8), sm_clock_mhz=1755, power_w=655.25)
    machine = Round(Cards([busy, SOUND, replace(busy, holders=(9,))]))
    machine.host.jobs = {7: "train 3", 8: "train 3"}

    found = list(gpus_at_work(machine.look(WorkCheck()).facts))

    assert found == [GpuWork(gpu="GPU-0", job="train 3", clock_mhz=1755.0, power_w=655.2)]


def test_a_gpu_shared_by_two_jobs_is_not_reported() -> None:
    shared = replace(SOUND, utilization_pct=98.0, holders=(7, 8))
    machine = Round(Cards([shared]))
    machine.host.jobs = {7: "one", 8: "other"}

    assert machine.look(WorkCheck()).facts == {}


@pytest.mark.parametrize("words", ["", "fast 600 job", "1980 600", "nan 600 job", "-1 600 job"])
def test_malformed_work_is_skipped(words: str) -> None:
    assert list(gpus_at_work({"work/GPU-0": words})) == []


def test_a_check_without_its_judgement_cannot_be_built() -> None:
    class Forgetful(GpuCheck):
        """A check whose judgement has another name."""

    with pytest.raises(TypeError, match="_find_issues"):
        Forgetful(name="forgetful")  # type: ignore[abstract]
