"""Checks of the machine: clock, disks, mounts, memory, out-of-memory kills, InfiniBand."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.health.checks.issues import HostCheck, Issue, degraded, rise_in_hour, unhealthy
from navarch.ports.checks import MachineView


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockCheck:
    """Compares the kernel's estimate of the clock error with a limit.

    A clock without NTP may still be right, as in virtual machines with a host that keeps the
    time. That is reported as healthy, with a note.
    """

    name: str = "clock"
    interval: timedelta | None = timedelta(minutes=5)
    wrong_s_max: float = 0.5

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check the clock once."""
        wrong_s = view.host.clock_error_s()
        health, reason = Health.HEALTHY, ""
        if wrong_s == float("inf"):
            reason = "the clock is not synchronised"
        elif wrong_s is not None and wrong_s > self.wrong_s_max:
            health, reason = Health.DEGRADED, f"the clock may be {wrong_s:.1f} s wrong"
        yield CheckResult(check=self.name, health=health, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCheck(HostCheck):
    """Watches free bytes and free inodes of the writable filesystems that respond."""

    name: str = "disk"
    full: float = 0.95

    def _find_issues(self, view: MachineView) -> Iterator[Issue]:
        for disk in view.host.filesystems():
            if disk.read_only or not disk.answers:
                continue
            if disk.total_bytes and disk.free_bytes < (1 - self.full) * disk.total_bytes:
                gib = disk.free_bytes / (1 << 30)
                yield degraded(f"{disk.path} has only {gib:.1f} GiB left")
            if disk.files_total and disk.files_free < (1 - self.full) * disk.files_total:
                yield degraded(f"{disk.path} has room for only {disk.files_free} more files")


@dataclass(frozen=True, slots=True, kw_only=True)
class MountsCheck(HostCheck):
    """Finds network filesystems that hang, and disks that the kernel remounted read-only."""

    name: str = "mounts"

    def _find_issues(self, view: MachineView) -> Iterator[Issue]:
        for fs in view.host.filesystems():
            if not fs.answers:
                yield degraded(f"{fs.path} ({fs.kind}) does not respond")
            if fs.read_only and fs.wanted_writable:
                yield unhealthy(f"{fs.path} ({fs.kind}) has become read-only")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdacCheck(HostCheck):
    """Watches the error counters of the memory controllers that the kernel exposes."""

    name: str = "memory"
    corrected_per_hour_max: int = 100

    def _find_issues(self, view: MachineView) -> Iterator[Issue]:
        errors = view.host.memory_errors()
        if errors is None:
            return
        if errors.uncorrected:
            yield unhealthy(f"{errors.uncorrected} uncorrected errors in main memory")
        new = rise_in_hour(view, "edac", errors.corrected)
        if new > self.corrected_per_hour_max:
            yield degraded(f"{new} corrected errors in main memory within an hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class OomCheck(HostCheck):
    """Watches the kernel's count. Single kills are the program's fault; many point to the host."""

    name: str = "oom"
    kills_per_hour_max: int = 3

    def _find_issues(self, view: MachineView) -> Iterator[Issue]:
        kills = view.host.oom_kills()
        new = 0 if kills is None else rise_in_hour(view, "oom", kills)
        if new > self.kills_per_hour_max:
            yield degraded(
                f"the kernel killed {new} processes within an hour because memory ran out"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class InfinibandCheck(HostCheck):
    """Watches port states, flaps and symbol errors.

    A port that was never up is taken to have no cable, unless other ports of its kind are up.
    """

    name: str = "infiniband"
    interval: timedelta | None = timedelta(seconds=30)
    flaps_per_hour_max: int = 2
    symbol_errors_per_hour_max: int = 120

    def _find_issues(self, view: MachineView) -> Iterator[Issue]:
        ports = view.host.network_ports()
        up = {port.ethernet for port in ports if port.state == "ACTIVE"}
        for port in ports:
            if port.state != "ACTIVE" and (port.ethernet in up or port.link_downed):
                physical = f", physically {port.physical}" if port.physical else ""
                yield degraded(f"port {port.name} is {port.state}{physical}")
            flaps = rise_in_hour(view, f"infiniband/{port.name}/downed", port.link_downed)
            if flaps > self.flaps_per_hour_max:
                yield degraded(f"port {port.name} went down {flaps} times within an hour")
            errors = rise_in_hour(view, f"infiniband/{port.name}/symbols", port.symbol_errors)
            if errors > self.symbol_errors_per_hour_max:
                yield degraded(f"port {port.name} had {errors} symbol errors within an hour")
