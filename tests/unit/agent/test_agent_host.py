"""Readings of a Linux host."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from navarch.agent.heartbeat import MetricsReader, busy_pct
from navarch.clock import SystemClock
from navarch.gpus.simulated import SimulatedGpus
from navarch.hosts.linux import LinuxHost, parse_cpu_times, parse_memory
from navarch.ports.gpu import GpuError
from navarch.ports.host import CpuTimes, HostError, Memory
from navarch.sim.kernel.clock import SeededEntropy

STAT = "cpu  100 20 30 1000 50 6 7 8 90 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
MEMINFO = "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:    4096 kB\nHugePages_Total: 0\n"


def test_io_wait_is_idle_and_guest_time_is_not_counted_twice() -> None:
    assert parse_cpu_times(STAT) == CpuTimes(idle=1050, total=1221)


def test_used_memory_is_what_is_not_available(tmp_path: Path) -> None:
    memory = parse_memory(MEMINFO)

    assert memory == Memory(total_bytes=16 << 20, available_bytes=4 << 20)
    (tmp_path / "meminfo").write_text(MEMINFO)
    gpus = SimulatedGpus(SystemClock(), SeededEntropy("x"), count=1, seed="m")
    assert MetricsReader(LinuxHost(tmp_path), gpus).read().memory_pct == 75.0


@pytest.mark.parametrize("noise", ["", "\n", "cpu", "cpu a b c d e", "intr 1 2 3 4 5 6"])
def test_malformed_proc_files_are_refused(noise: str) -> None:
    with pytest.raises(HostError):
        parse_cpu_times(noise)
    with pytest.raises(HostError):
        parse_memory(noise)


@pytest.mark.parametrize(
    ("before", "after", "busy"),
    [((0, 0), (50, 200), 75.0), ((5, 10), (5, 10), 0.0), ((9, 10), (0, 20), 100.0)],
)
def test_busy_time_is_what_was_not_idle_between_two_readings(
    before: tuple[int, int], after: tuple[int, int], busy: float
) -> None:
    first, second = (CpuTimes(idle=idle, total=total) for idle, total in (before, after))

    assert busy_pct(first, second) == busy


def test_this_machine_can_be_read() -> None:
    host = LinuxHost()

    assert len(host.boot_id()) == 36
    assert host.hostname()
    assert host.cpu_times().total > 0
    assert host.memory().total_bytes > host.memory().available_bytes > 0


PRINT_ADDRESS = """
import sys
from navarch.hosts.linux import LinuxHost
print(LinuxHost(server=sys.argv[1]).internal_ip())
"""


def address_in_a_namespace(setup: str, server: str) -> str:
    """Return the address that a machine with these links and routes reports."""
    script = f'ip link add br0 type bridge; ip link set br0 up; {setup}; exec "$@"'
    print_address = [sys.executable, "-c", PRINT_ADDRESS, server]
    done = subprocess.run(
        ["unshare", "-n", "sh", "-ec", script, "sh", *print_address],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
@pytest.mark.skipif(shutil.which("ip") is None, reason="there is no ip here (Debian: iproute2)")
def test_a_machine_without_a_default_route_has_the_address_of_its_route_to_the_server() -> None:
    private = "ip address add 10.9.0.5/24 dev br0; ip address add 10.8.0.5/24 dev br0"
    routed = f"{private}; ip route add default via 10.8.0.1"
    assert address_in_a_namespace(private, "10.9.0.1") == "10.9.0.5"
    assert address_in_a_namespace(private, "10.7.0.1") == ""
    assert address_in_a_namespace(private, "server.example") == ""
    assert address_in_a_namespace(f"{private}; ip link set lo up", "127.0.0.1") == ""
    assert address_in_a_namespace(routed, "10.9.0.1") == "10.8.0.5"


def test_an_unreadable_machine_has_zero_metrics(tmp_path: Path) -> None:
    gpus = SimulatedGpus(SystemClock(), SeededEntropy("x"), count=3, seed="m")
    gpus.lose(1)
    meter = MetricsReader(LinuxHost(tmp_path), gpus)

    metrics = meter.read()

    assert (metrics.cpu_pct, metrics.memory_pct) == (0.0, 0.0)
    assert [gpu.temperature_c > 0 for gpu in metrics.gpus] == [True, False, True]
    gpus.break_driver()
    assert meter.read().gpus == ()
    with pytest.raises(GpuError):
        gpus.list_gpus()
