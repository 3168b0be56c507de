"""Check main memory for ECC errors."""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.health.checks.issues import HostCheck, Issue, degraded, rise_in_hour, unhealthy
from navarch.ports.checks import MachineView


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
