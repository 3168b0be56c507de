"""Check whether the kernel's OOM killer is active."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.health.checks.issues import combine, degraded
from navarch.ports.checks import MachineView

LATELY = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OomCheck:
    """Watches the kernel's count. Single kills are the program's fault; many point to the host."""

    name: str = "oom"
    interval: timedelta | None = None
    kills_per_hour_max: int = 3

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check the counter once."""
        kills = view.host.oom_kills()
        new = 0
        if kills is not None:
            new = view.history.rise("oom", kills, at=view.now, within=LATELY)
        words = f"the kernel killed {new} processes within an hour because memory ran out"
        yield combine(self.name, [degraded(words)] if new > self.kills_per_hour_max else [])
