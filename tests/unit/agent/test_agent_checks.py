"""Each check on a small simulated machine."""

from datetime import UTC, datetime

import pytest

from navarch.core.health import CheckResult, Health, History
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.boot import BootCheck
from navarch.health.checks.devices import NvmlCheck
from navarch.health.checks.xid import XidCheck
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.checks import HealthCheck, MachineView
from navarch.sim.kernel.clock import SeededEntropy

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class StoppedClock:
    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError(seconds)


def some_gpus(count: int = 4) -> SimulatedGpus:
    return SimulatedGpus(StoppedClock(), SeededEntropy("gpus"), count=count, seed="m")


def run_check(
    check: HealthCheck, gpus: SimulatedGpus, *, expected: int | None = None
) -> list[CheckResult]:
    host = SimulatedHost(StoppedClock(), SeededEntropy("host"), "m")
    view = MachineView(now=NOW, gpus=gpus, host=host, gpus_expected=expected)
    return list(check.run(view))


@pytest.mark.parametrize(
    ("count", "missing", "expected", "trouble"),
    [
        (8, [], None, ""),
        (8, [], 8, ""),
        (8, [3], 8, "7 of 8 GPUs found"),
        (8, [3], None, ""),
        (4, [], 8, "4 of 8 GPUs found"),
        (0, [], None, "no GPUs found"),
        (0, [], 0, ""),
    ],
)
def test_the_boot_check_compares_the_gpu_count(
    count: int, missing: list[int], expected: int | None, trouble: str
) -> None:
    gpus = some_gpus(count)
    for index in missing:
        gpus.remove(index)

    [result] = run_check(BootCheck(), gpus, expected=expected)

    assert result.reason == trouble
    assert result.health is (Health.UNHEALTHY if trouble else Health.HEALTHY)


def test_the_boot_check_reports_why_there_is_no_driver() -> None:
    gpus = some_gpus()
    gpus.break_driver("Driver/library version mismatch")

    [result] = run_check(BootCheck(), gpus)

    assert result.health is Health.UNHEALTHY
    assert "Driver/library version mismatch" in result.reason


@pytest.mark.parametrize(
    ("heat", "health"),
    [
        (84.9, Health.HEALTHY),
        (85.0, Health.DEGRADED),
        (91.9, Health.DEGRADED),
        (92.0, Health.UNHEALTHY),
    ],
)
def test_the_gpu_check_uses_the_cards_own_temperature_threshold(
    heat: float, health: Health
) -> None:
    gpus = some_gpus()
    gpus.heat(heat, index=2)

    [result] = run_check(NvmlCheck(), gpus)

    assert result.health is health
    assert not result.fatal
    assert ("GPU 2" in result.reason) == (health is not Health.HEALTHY)


def test_the_gpu_check_names_every_bad_gpu_and_reports_the_worst_health() -> None:
    gpus = some_gpus()
    gpus.heat(88.0, index=0)
    gpus.corrupt(3, index=1)
    gpus.lose(2)

    [result] = run_check(NvmlCheck(), gpus)

    assert result.health is Health.UNHEALTHY
    assert result.fatal, "a GPU that is lost does not come back by itself"
    for words in ("GPU 0 is at 88 °C", "GPU 1 has 3 uncorrected", "GPU 2 is lost"):
        assert words in result.reason


def test_the_gpu_check_is_unhealthy_when_the_driver_fails() -> None:
    gpus = some_gpus()
    gpus.break_driver("Unknown Error")

    [result] = run_check(NvmlCheck(), gpus)

    assert (result.health, result.reason) == (Health.UNHEALTHY, "Unknown Error")


@pytest.mark.parametrize(
    ("code", "health", "fatal"),
    [
        (79, Health.UNHEALTHY, True),
        (48, Health.UNHEALTHY, True),
        (63, Health.DEGRADED, False),
        (31, Health.HEALTHY, False),
        (999, Health.DEGRADED, False),
    ],
)
def test_each_xid_is_a_separate_lasting_result(code: int, health: Health, fatal: bool) -> None:
    gpus = some_gpus()
    gpus.xid(code, index=1, text="words")

    quiet, result = run_check(XidCheck(), gpus)

    assert (quiet.check, quiet.health) == ("xid", Health.HEALTHY)
    assert result.check == f"xid/{code}/GPU-m-1"
    assert (result.health, result.fatal, result.lasting) == (health, fatal, True)
    assert "words" in result.reason


def test_a_repeated_xid_is_one_result_with_a_count() -> None:
    gpus = some_gpus()
    for _ in range(3):
        gpus.xid(74, index=0)
    gpus.xid(74, index=1)

    _, first, second = run_check(XidCheck(), gpus)

    assert "(3 times)" in first.reason
    assert "times" not in second.reason


def test_a_context_switch_timeout_is_acted_on_the_second_time() -> None:
    gpus, history = some_gpus(), History()
    host = SimulatedHost(StoppedClock(), SeededEntropy("host"), "m")

    def run_again() -> CheckResult:
        view = MachineView(now=NOW, gpus=gpus, host=host, history=history)
        return next(r for r in XidCheck().run(view) if r.check == "xid/109/GPU-m-1")

    gpus.xid(109, index=1)
    for _ in range(2):  # The same event, read twice.
        assert (run_again().health, run_again().fatal) == (Health.DEGRADED, False)
    gpus.xid(109, index=0)
    assert run_again().health is Health.DEGRADED
    gpus.xid(109, index=1)
    assert (run_again().health, run_again().fatal) == (Health.UNHEALTHY, True)
