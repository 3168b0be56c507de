"""Does every GPU get the power it is made for, and no more?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import Issue, check_each_gpu, degraded
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCheck:
    """Notices a card that draws far more than it may, or may draw far less than it is made for."""

    name: str = "power"
    interval: timedelta | None = None
    over: float = 1.25
    """Cards pass their limit for moments; a quarter more is not a moment."""
    capped: float = 0.6

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Look at every GPU."""
        yield check_each_gpu(self.name, view, self._find_issues)

    def _find_issues(self, gpu: Gpu, facts: GpuHealth) -> Iterator[Issue]:
        used, limit, usual = facts.power_w, facts.power_limit_w, facts.power_default_w
        if used and limit and used > self.over * limit:
            yield degraded(f"GPU {gpu.index} draws {used:.0f} W and may draw {limit:.0f}")
        if limit and usual and limit < self.capped * usual:
            yield degraded(f"GPU {gpu.index} is limited to {limit:.0f} of {usual:.0f} W")
