"""Check that local filesystems have free space."""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.health.checks.issues import HostCheck, Issue, degraded
from navarch.ports.checks import MachineView


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
