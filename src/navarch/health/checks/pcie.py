"""Check the width, speed and errors of each GPU's PCIe link."""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.core.inventory import Gpu
from navarch.health.checks.issues import GpuCheck, Issue, degraded, rise_in_hour
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieCheck(GpuCheck):
    """Watches link width, generation and replayed packets."""

    name: str = "pcie"
    replays_per_hour_max: int = 480
    """Eight a minute, more than a sound slot has in a year."""
    busy_pct: float = 50.0

    def _find_issues(self, view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        name = f"GPU {gpu.index}"
        width, width_max = health.pcie_width, health.pcie_width_max
        if width and width_max and width < width_max:
            yield degraded(f"{name} uses {width} of {width_max} PCIe lanes")
        generation, best = health.pcie_generation, health.pcie_generation_max
        # An idle GPU lowers its link generation to save power.
        busy = (health.utilization_pct or 0.0) >= self.busy_pct
        if busy and generation and best and generation < best:
            yield degraded(f"{name} runs PCIe generation {generation} instead of {best}")
        if health.pcie_replays is not None:
            new = rise_in_hour(view, f"pcie/{gpu.uuid}", health.pcie_replays)
            if new > self.replays_per_hour_max:
                yield degraded(f"{name} replayed {new} PCIe packets within an hour")
