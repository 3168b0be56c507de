"""Is the machine's clock right?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult, Health
from navarch.ports.checks import MachineView


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockCheck:
    """Asks the kernel by how much the clock may be wrong.

    A clock that nobody corrects may still be right, as in machines whose host keeps it: that
    is said, and not held against the machine.
    """

    name: str = "clock"
    interval: timedelta | None = timedelta(minutes=5)
    wrong_s_max: float = 0.5

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Look once."""
        wrong_s = view.host.clock_error_s()
        health, reason = Health.HEALTHY, ""
        if wrong_s == float("inf"):
            reason = "nobody corrects the clock"
        elif wrong_s is not None and wrong_s > self.wrong_s_max:
            health, reason = Health.DEGRADED, f"the clock may be {wrong_s:.1f} s wrong"
        yield CheckResult(check=self.name, health=health, reason=reason)
