"""Check the power draw and power limit of each GPU."""

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
    """Finds GPUs far above their power limit, or limited far below their default."""

    name: str = "power"
    interval: timedelta | None = None
    over: float = 1.25
    """GPUs exceed their limit briefly, but not by a quarter."""
    capped: float = 0.6

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every GPU."""
        yield check_each_gpu(self.name, view, self._find_issues)

    def _find_issues(self, gpu: Gpu, facts: GpuHealth) -> Iterator[Issue]:
        used, limit, usual = facts.power_w, facts.power_limit_w, facts.power_default_w
        if used and limit and used > self.over * limit:
            yield degraded(f"GPU {gpu.index} draws {used:.0f} W, above its limit of {limit:.0f} W")
        if limit and usual and limit < self.capped * usual:
            yield degraded(
                f"GPU {gpu.index} is limited to {limit:.0f} W of its default {usual:.0f} W"
            )
