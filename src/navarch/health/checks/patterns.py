"""Check that GPU memory keeps what is written to it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import WEEKLY, Issue, run_on_each_gpu, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.diagnostics import Diagnostics


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternsCheck:
    """Writes patterns to nearly all of the free memory and reads them back."""

    name: str = "patterns"
    interval: timedelta | None = WEEKLY
    share: float = 0.9

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Test one GPU after the other."""
        yield run_on_each_gpu(self.name, view, self._test)

    def _test(self, gpu: Gpu, diagnostics: Diagnostics) -> Iterator[Issue | str]:
        figures = diagnostics.patterns(gpu, share=self.share)
        gib = figures.tested_bytes / (1 << 30)
        yield f"GPU {gpu.index}: {gib:.0f} GiB, {figures.patterns} patterns"
        if figures.wrong:
            where = f", first at {figures.first_wrong:#x}" if figures.first_wrong else ""
            words = f"{figures.wrong} memory words read back wrong{where}"
            yield unhealthy(f"GPU {gpu.index}: {words}", fatal=True)
