"""Check the NVLinks between GPUs."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import Issue, check_each_gpu, degraded
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth, NvLink

LATELY = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NvlinkCheck:
    """Finds links that are down while others are up, and errors on links that are up."""

    name: str = "nvlink"
    interval: timedelta | None = None
    recoveries_per_hour_max: int = 0
    """Retraining a link interrupts every process that uses it."""
    errors_per_hour_max: int = 1000

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every GPU."""
        yield check_each_gpu(
            self.name, view, lambda gpu, facts: self._find_issues(view, gpu, facts)
        )

    def _find_issues(self, view: MachineView, gpu: Gpu, facts: GpuHealth) -> Iterator[Issue]:
        links = facts.nvlinks
        down = [str(link.index) for link in links if not link.active]
        if down and len(down) < len(links):
            yield degraded(f"GPU {gpu.index} has NVLink {', '.join(down)} down")
        recoveries = sum(link.recoveries for link in links)
        if self._rise(view, gpu, "recoveries", recoveries) > self.recoveries_per_hour_max:
            yield degraded(f"GPU {gpu.index} had to recover an NVLink{_which(links)}")
        errors = sum(link.replays + link.crc_errors for link in links)
        if self._rise(view, gpu, "errors", errors) > self.errors_per_hour_max:
            yield degraded(
                f"GPU {gpu.index} has more than {self.errors_per_hour_max} NVLink errors an hour"
            )

    def _rise(self, view: MachineView, gpu: Gpu, what: str, value: int) -> int:
        return view.history.rise(f"nvlink/{gpu.uuid}/{what}", value, at=view.now, within=LATELY)


def _which(links: tuple[NvLink, ...]) -> str:
    hit = [str(link.index) for link in links if link.recoveries]
    return f" ({', '.join(hit)})" if hit else ""
