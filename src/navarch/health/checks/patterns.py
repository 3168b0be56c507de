"""Check that GPU memory keeps what is written to it."""

from collections.abc import Sequence
from dataclasses import dataclass

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import ActiveCheck, Issue, combine, unhealthy
from navarch.ports.diagnostics import Diagnostics, NotRunError, TestFailedError


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternsCheck(ActiveCheck):
    """Writes patterns to nearly all of the free memory and reads them back."""

    name: str = "patterns"
    share: float = 0.9

    def _test(self, gpus: Sequence[Gpu], diagnostics: Diagnostics) -> CheckResult:
        if not gpus:
            raise NotRunError("there are no GPUs")
        issues: list[Issue] = []
        measurements: list[str] = []
        for gpu in gpus:
            try:
                figures = diagnostics.patterns(gpu, share=self.share)
            except TestFailedError as error:
                issues.append(unhealthy(f"GPU {gpu.index} failed: {error}"))
                continue
            gib = figures.tested_bytes / (1 << 30)
            measurements.append(f"GPU {gpu.index}: {gib:.0f} GiB, {figures.patterns} patterns")
            if figures.wrong:
                where = f", first at {figures.first_wrong:#x}" if figures.first_wrong else ""
                words = f"{figures.wrong} memory words read back wrong{where}"
                issues.append(unhealthy(f"GPU {gpu.index}: {words}", fatal=True))
        return combine(self.name, issues, measurements)
