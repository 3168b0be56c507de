"""Check that filesystems respond and are writable."""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.health.checks.issues import HostCheck, Issue, degraded, unhealthy
from navarch.ports.checks import MachineView


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
