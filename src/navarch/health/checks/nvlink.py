"""Check the NVLinks between GPUs."""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.core.inventory import Gpu
from navarch.health.checks.issues import GpuCheck, Issue, degraded, rise_in_hour
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class NvlinkCheck(GpuCheck):
    """Finds links that are down while others are up, and errors on links that are up."""

    name: str = "nvlink"
    recoveries_per_hour_max: int = 0
    """Retraining a link interrupts every process that uses it."""
    errors_per_hour_max: int = 1000

    def _find_issues(self, view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        links = health.nvlinks
        down = [str(link.index) for link in links if not link.active]
        if down and len(down) < len(links):
            yield degraded(f"GPU {gpu.index} has NVLink {', '.join(down)} down")
        recoveries = sum(link.recoveries for link in links)
        recovered = rise_in_hour(view, f"nvlink/{gpu.uuid}/recoveries", recoveries)
        if recovered > self.recoveries_per_hour_max:
            hit = ", ".join(str(link.index) for link in links if link.recoveries)
            yield degraded(
                f"GPU {gpu.index} had to recover an NVLink" + (f" ({hit})" if hit else "")
            )
        errors = sum(link.replays + link.crc_errors for link in links)
        if rise_in_hour(view, f"nvlink/{gpu.uuid}/errors", errors) > self.errors_per_hour_max:
            yield degraded(
                f"GPU {gpu.index} has more than {self.errors_per_hour_max} NVLink errors an hour"
            )
