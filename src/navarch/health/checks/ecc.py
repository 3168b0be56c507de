"""Check the ECC error counters of GPU memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import Issue, check_each_gpu, degraded, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth

LATELY = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EccCheck:
    """Watches the rate of corrected errors, lifetime uncorrected errors, and SRAM wear.

    Corrected errors are harmless by themselves, but a high rate slows the GPU down and precedes
    uncorrected errors. Uncorrected errors since the driver was loaded are reported by the `gpu`
    check.
    """

    name: str = "ecc"
    interval: timedelta | None = None
    corrected_per_hour_max: int = 1000
    uncorrected_ever_max: int = 512
    """NVIDIA's limit for rows remapped because of such errors."""

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every GPU."""
        yield check_each_gpu(
            self.name, view, lambda gpu, facts: self._find_issues(view, gpu, facts)
        )

    def _find_issues(self, view: MachineView, gpu: Gpu, facts: GpuHealth) -> Iterator[Issue]:
        name = f"GPU {gpu.index}"
        if facts.sram_worn:
            yield unhealthy(f"{name} has exceeded NVIDIA's limit for SRAM errors")
        if (facts.ecc_uncorrected_ever or 0) >= self.uncorrected_ever_max:
            count = facts.ecc_uncorrected_ever
            yield unhealthy(f"{name} has had {count} uncorrected memory errors in its lifetime")
        if facts.ecc_corrected is not None:
            key = f"ecc/{gpu.uuid}"
            new = view.history.rise(key, facts.ecc_corrected, at=view.now, within=LATELY)
            if new > self.corrected_per_hour_max:
                yield degraded(
                    f"{name} corrects more than {self.corrected_per_hour_max} memory errors an hour"
                )
