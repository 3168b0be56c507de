"""Check the ECC error counters of GPU memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from navarch.core.inventory import Gpu
from navarch.health.checks.issues import GpuCheck, Issue, degraded, rise_in_hour, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class EccCheck(GpuCheck):
    """Watches the rate of corrected errors, lifetime uncorrected errors, and SRAM wear.

    Corrected errors are harmless by themselves, but a high rate slows the GPU down and precedes
    uncorrected errors. Uncorrected errors since the driver was loaded are reported by the `gpu`
    check.
    """

    name: str = "ecc"
    corrected_per_hour_max: int = 1000
    uncorrected_ever_max: int = 512
    """NVIDIA's limit for rows remapped because of such errors."""

    def _find_issues(self, view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        name = f"GPU {gpu.index}"
        if health.sram_worn:
            yield unhealthy(f"{name} has exceeded NVIDIA's limit for SRAM errors")
        if (health.ecc_uncorrected_ever or 0) >= self.uncorrected_ever_max:
            count = health.ecc_uncorrected_ever
            yield unhealthy(f"{name} has had {count} uncorrected memory errors in its lifetime")
        if health.ecc_corrected is not None:
            new = rise_in_hour(view, f"ecc/{gpu.uuid}", health.ecc_corrected)
            if new > self.corrected_per_hour_max:
                yield degraded(
                    f"{name} corrects more than {self.corrected_per_hour_max} memory errors an hour"
                )
