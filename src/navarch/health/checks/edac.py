"""Check main memory for ECC errors."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.health.checks.issues import Issue, combine, degraded, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.host import MemoryErrors

LATELY = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdacCheck:
    """Watches the error counters of the memory controllers."""

    name: str = "memory"
    interval: timedelta | None = None
    corrected_per_hour_max: int = 100

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check the memory controllers that the kernel exposes."""
        errors = view.host.memory_errors()
        yield combine(self.name, [] if errors is None else self._find_issues(view, errors))

    def _find_issues(self, view: MachineView, errors: MemoryErrors) -> Iterator[Issue]:
        if errors.uncorrected:
            yield unhealthy(f"{errors.uncorrected} uncorrected errors in main memory")
        new = view.history.rise("edac", errors.corrected, at=view.now, within=LATELY)
        if new > self.corrected_per_hour_max:
            yield degraded(f"{new} corrected errors in main memory within an hour")
