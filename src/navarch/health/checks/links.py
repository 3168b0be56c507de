"""Checks of a GPU's links: PCIe, NVLink and its fabric."""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.core.instance import Gpu
from navarch.health.checks.issues import GpuCheck, Issue, degraded, rise_in_hour, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth

COMPLETED = 3
"""The state of a fabric that is configured."""
_YES = 1

_FLAGS = (
    # Two bits each: 0 not reported, 1 yes, 2 no.
    (0, "has degraded bandwidth", False),
    (2, "is being routed around a fault", False),
    (4, "has an unhealthy route", True),
    (6, "is recovering from an access that timed out", False),
)
_CONFIGURATION_SHIFT, _CONFIGURATION_MASK, _RIGHT = 8, 0xF, 1


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricCheck(GpuCheck):
    """Decodes the fabric's state and health mask. A fabric that is still starting is skipped."""

    name: str = "fabric"

    def _find_issues(self, _view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        fabric, name = health.fabric, f"GPU {gpu.index}"
        if fabric is None or fabric.state != COMPLETED:
            return
        if fabric.status:
            yield unhealthy(f"{name} was rejected by the NVLink fabric (status {fabric.status})")
        for shift, words, bad in _FLAGS:
            if fabric.health_mask >> shift & 0b11 == _YES:
                yield (unhealthy if bad else degraded)(f"{name} {words} in the NVLink fabric")
        configuration = fabric.health_mask >> _CONFIGURATION_SHIFT & _CONFIGURATION_MASK
        if configuration > _RIGHT:
            yield unhealthy(
                f"{name} is configured wrongly in the NVLink fabric (kind {configuration})"
            )
