"""Check that local filesystems have free space."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.health.checks.issues import Issue, combine, degraded
from navarch.ports.checks import MachineView
from navarch.ports.host import Filesystem


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCheck:
    """Watches free bytes and free inodes."""

    name: str = "disk"
    interval: timedelta | None = None
    full: float = 0.95

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every writable filesystem that responds."""
        disks = [disk for disk in view.host.filesystems() if disk.answers and not disk.read_only]
        yield combine(self.name, [issue for disk in disks for issue in self._find_issues(disk)])

    def _find_issues(self, disk: Filesystem) -> Iterator[Issue]:
        if disk.total_bytes and disk.free_bytes < (1 - self.full) * disk.total_bytes:
            gib = disk.free_bytes / (1 << 30)
            yield degraded(f"{disk.path} has only {gib:.1f} GiB left")
        if disk.files_total and disk.files_free < (1 - self.full) * disk.files_total:
            yield degraded(f"{disk.path} has room for only {disk.files_free} more files")
