"""Check that filesystems respond and are writable."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.health.checks.issues import Issue, combine, degraded, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.host import Filesystem


@dataclass(frozen=True, slots=True, kw_only=True)
class MountsCheck:
    """Finds network filesystems that hang, and disks that the kernel remounted read-only."""

    name: str = "mounts"
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every filesystem."""
        yield combine(
            self.name, [issue for fs in view.host.filesystems() for issue in _find_issues(fs)]
        )


def _find_issues(fs: Filesystem) -> Iterator[Issue]:
    if not fs.answers:
        yield degraded(f"{fs.path} ({fs.kind}) does not respond")
    if fs.read_only and fs.wanted_writable:
        yield unhealthy(f"{fs.path} ({fs.kind}) has become read-only")
