"""Results of the host checks."""

from datetime import UTC, datetime, timedelta

import pytest

from navarch.core.health import CheckResult, Health, History
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.host import (
    ClockCheck,
    DiskCheck,
    EdacCheck,
    InfinibandCheck,
    MountsCheck,
    OomCheck,
)
from navarch.health.checks.issues import HostCheck
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.checks import HealthCheck, MachineView
from navarch.ports.host import Filesystem, MemoryErrors, NetworkPort
from navarch.sim.kernel.clock import SeededEntropy, SimClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)

HOST_CHECKS = [check for check in standard_checks() if isinstance(check, HostCheck | ClockCheck)]


def a_host() -> SimulatedHost:
    return SimulatedHost(SimClock(), SeededEntropy("host"), "m")


def look(
    check: HealthCheck, host: SimulatedHost, history: History | None = None, at: datetime = NOW
) -> CheckResult:
    gpus = SimulatedGpus(SimClock(), SeededEntropy("gpus"), count=0, seed="m")
    view = MachineView(now=at, gpus=gpus, host=host, history=history or History())
    [result] = list(check.run(view))
    return result


@pytest.mark.parametrize("check", HOST_CHECKS, ids=lambda check: check.name)
def test_a_machine_without_readings_passes(check: HealthCheck) -> None:
    assert look(check, a_host()).health is Health.HEALTHY


GIB = 1 << 30


def test_disks_without_space_or_inodes_are_named() -> None:
    host = a_host()
    host.disks = (
        Filesystem(path="/", kind="ext4", total_bytes=100 * GIB, free_bytes=4 * GIB),
        Filesystem(path="/data", kind="xfs", files_total=1000, files_free=3),
        Filesystem(path="/ok", kind="xfs", total_bytes=100 * GIB, free_bytes=50 * GIB),
        Filesystem(path="/image", kind="ext4", total_bytes=GIB, free_bytes=0, read_only=True),
    )

    result = look(DiskCheck(), host)

    assert result.health is Health.DEGRADED
    assert result.reason == ("/ has only 4.0 GiB left; /data has room for only 3 more files")


def test_a_hung_server_is_degraded_and_a_failed_disk_unhealthy() -> None:
    host = a_host()
    host.disks = (Filesystem(path="/home", kind="nfs4", answers=False),)
    assert look(MountsCheck(), host).reason == "/home (nfs4) does not respond"
    assert look(MountsCheck(), host).health is Health.DEGRADED

    host.disks = (Filesystem(path="/", kind="ext4", read_only=True, wanted_writable=True),)
    assert look(MountsCheck(), host).health is Health.UNHEALTHY
    host.disks = (Filesystem(path="/image", kind="ext4", read_only=True),)
    assert look(MountsCheck(), host).health is Health.HEALTHY


def test_main_memory_is_judged_by_uncorrected_errors_and_the_rate_of_corrected_ones() -> None:
    host, history = a_host(), History()
    host.errors = MemoryErrors(corrected=1000)
    assert look(EdacCheck(), host, history).health is Health.HEALTHY

    host.errors = MemoryErrors(corrected=1200)
    assert look(EdacCheck(), host, history).health is Health.DEGRADED
    host.errors = MemoryErrors(uncorrected=1)
    assert look(EdacCheck(), host, history).health is Health.UNHEALTHY


@pytest.mark.parametrize(
    ("wrong_s", "health", "words"),
    [
        (0.001, Health.HEALTHY, ""),
        (2.5, Health.DEGRADED, "the clock may be 2.5 s wrong"),
        (float("inf"), Health.HEALTHY, "the clock is not synchronised"),
    ],
)
def test_the_clock_is_judged_by_its_estimated_error(
    wrong_s: float, health: Health, words: str
) -> None:
    host = a_host()
    host.clock_wrong_s = wrong_s

    result = look(ClockCheck(), host)

    assert (result.health, result.reason) == (health, words)


def test_many_oom_kills_within_an_hour_are_a_finding_and_one_is_not() -> None:
    host, history = a_host(), History()
    look(OomCheck(), host, history)
    host.killed = 1
    assert look(OomCheck(), host, history).health is Health.HEALTHY

    host.killed = 5
    assert "killed 5 processes" in look(OomCheck(), host, history).reason


def port(
    name: str, state: str = "ACTIVE", *, link_downed: int = 0, symbol_errors: int = 0
) -> NetworkPort:
    return NetworkPort(
        name=name,
        state=state,
        physical="LinkUp",
        link_downed=link_downed,
        symbol_errors=symbol_errors,
    )


def test_a_port_is_down_if_others_are_up_or_it_was_up_before() -> None:
    host = a_host()
    host.ports = (port("mlx5_0/1", "DOWN"), port("mlx5_1/1", "DOWN"))
    assert look(InfinibandCheck(), host).health is Health.HEALTHY, "nothing is plugged in"

    host.ports = (port("mlx5_0/1"), port("mlx5_1/1", "DOWN"))
    assert "port mlx5_1/1 is DOWN" in look(InfinibandCheck(), host).reason


def test_a_flapping_port_is_a_finding_even_while_it_is_up() -> None:
    host, history = a_host(), History()
    host.ports = (port("mlx5_0/1"),)
    look(InfinibandCheck(), host, history)

    host.ports = (port("mlx5_0/1", link_downed=3, symbol_errors=200),)
    result = look(InfinibandCheck(), host, history, NOW + timedelta(minutes=10))

    assert result.health is Health.DEGRADED
    assert "went down 3 times" in result.reason
    assert "200 symbol errors" in result.reason
