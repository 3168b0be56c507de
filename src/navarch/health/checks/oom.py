"""Does the kernel kill programs for want of memory?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.health.checks.issues import combine, degraded
from navarch.ports.checks import MachineView

LATELY = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OomCheck:
    """Watches the kernel's count. One that asked for too much is its own fault; many are not."""

    name: str = "oom"
    interval: timedelta | None = None
    kills_per_hour_max: int = 3

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Look once."""
        kills = view.host.oom_kills()
        new = 0
        if kills is not None:
            new = view.history.rise("oom", kills, at=view.now, within=LATELY)
        words = f"the kernel killed {new} programs for want of memory within an hour"
        yield combine(self.name, [degraded(words)] if new > self.kills_per_hour_max else [])
