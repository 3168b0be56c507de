"""Check the power draw and power limit of each GPU."""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.core.inventory import Gpu
from navarch.health.checks.issues import GpuCheck, Issue, degraded
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCheck(GpuCheck):
    """Finds GPUs far above their power limit, or limited far below their default."""

    name: str = "power"
    over: float = 1.25
    """GPUs exceed their limit briefly, but not by a quarter."""
    capped: float = 0.6

    def _find_issues(self, _view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        used, limit, usual = health.power_w, health.power_limit_w, health.power_default_w
        if used and limit and used > self.over * limit:
            yield degraded(f"GPU {gpu.index} draws {used:.0f} W, above its limit of {limit:.0f} W")
        if limit and usual and limit < self.capped * usual:
            yield degraded(
                f"GPU {gpu.index} is limited to {limit:.0f} W of its default {usual:.0f} W"
            )
