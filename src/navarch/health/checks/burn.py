"""Check under sustained load that GPUs compute correctly and at the expected speed."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import WEEKLY, Issue, degraded, run_on_each_gpu, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.diagnostics import Diagnostics

SLOW = 0.85
"""A GPU is slow below this share of the fastest GPU in the same machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnCheck:
    """Multiplies matrices on every multiprocessor and compares every product with a reference."""

    name: str = "burn"
    interval: timedelta | None = WEEKLY
    seconds: float = 10.0

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Test one GPU after the other."""
        reached: dict[int, float] = {}

        def test(gpu: Gpu, diagnostics: Diagnostics) -> Iterator[Issue | str]:
            figures = diagnostics.burn(gpu, seconds=self.seconds)
            reached[gpu.index] = figures.tflops
            yield f"GPU {gpu.index}: {figures.tflops:.0f} TFLOP/s {figures.precision}"
            if figures.wrong:
                yield unhealthy(
                    f"GPU {gpu.index} computed {figures.wrong} wrong results", fatal=True
                )

        def compare() -> Iterator[Issue]:
            best = max(reached.values(), default=0.0)
            for index, tflops in sorted(reached.items()):
                if tflops < SLOW * best:
                    yield degraded(f"GPU {index} reaches {tflops:.0f} of {best:.0f} TFLOP/s")

        yield run_on_each_gpu(self.name, view, test, compare)
