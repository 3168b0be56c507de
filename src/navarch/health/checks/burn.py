"""Check under sustained load that GPUs compute correctly and at the expected speed."""

from collections.abc import Sequence
from dataclasses import dataclass

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import (
    ActiveCheck,
    Issue,
    combine,
    degraded,
    find_slow,
    unhealthy,
)
from navarch.ports.diagnostics import Diagnostics, NotRunError, TestFailedError

SLOW = 0.85
"""A GPU is slow below this share of the fastest GPU in the same machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnCheck(ActiveCheck):
    """Multiplies matrices on every multiprocessor and compares every product with a reference."""

    name: str = "burn"
    seconds: float = 10.0

    def _test(self, gpus: Sequence[Gpu], diagnostics: Diagnostics) -> CheckResult:
        if not gpus:
            raise NotRunError("there are no GPUs")
        issues: list[Issue] = []
        measurements: list[str] = []
        reached: dict[int, float] = {}
        for gpu in gpus:
            try:
                figures = diagnostics.burn(gpu, seconds=self.seconds)
            except TestFailedError as error:
                issues.append(unhealthy(f"GPU {gpu.index} failed: {error}"))
                continue
            reached[gpu.index] = figures.tflops
            measurements.append(
                f"GPU {gpu.index}: {figures.tflops:.0f} TFLOP/s {figures.precision}"
            )
            if figures.wrong:
                words = f"GPU {gpu.index} computed {figures.wrong} wrong results"
                issues.append(unhealthy(words, fatal=True))
        for index, figure in find_slow(reached, SLOW):
            issues.append(degraded(f"GPU {index} reaches {figure} TFLOP/s"))
        return combine(self.name, issues, measurements)
