"""Check that the machine's clock is right."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
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
