"""Check the width, speed and errors of each GPU's PCIe link."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import Issue, check_each_gpu, degraded
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth

LATELY = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieCheck:
    """Watches link width, generation and replayed packets."""

    name: str = "pcie"
    interval: timedelta | None = None
    replays_per_hour_max: int = 480
    """Eight a minute, more than a sound slot has in a year."""
    busy_pct: float = 50.0

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every GPU."""
        yield check_each_gpu(
            self.name, view, lambda gpu, facts: self._find_issues(view, gpu, facts)
        )

    def _find_issues(self, view: MachineView, gpu: Gpu, facts: GpuHealth) -> Iterator[Issue]:
        name = f"GPU {gpu.index}"
        width, width_max = facts.pcie_width, facts.pcie_width_max
        if width and width_max and width < width_max:
            yield degraded(f"{name} uses {width} of {width_max} PCIe lanes")
        generation, best = facts.pcie_generation, facts.pcie_generation_max
        # An idle GPU lowers its link generation to save power.
        busy = (facts.utilization_pct or 0.0) >= self.busy_pct
        if busy and generation and best and generation < best:
            yield degraded(f"{name} runs PCIe generation {generation} instead of {best}")
        if facts.pcie_replays is not None:
            key = f"pcie/{gpu.uuid}"
            new = view.history.rise(key, facts.pcie_replays, at=view.now, within=LATELY)
            if new > self.replays_per_hour_max:
                yield degraded(f"{name} replayed {new} PCIe packets within an hour")
