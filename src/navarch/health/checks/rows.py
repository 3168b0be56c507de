"""Is there memory left to replace bad memory with?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.opinion import Opinion, degraded, judge_each, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsCheck:
    """Watches rows replaced and pages retired, pending and failed ones, and the spare ones left."""

    name: str = "rows"
    interval: timedelta | None = None
    remapped_max: int = 512
    pages_max: int = 60
    """Cards before Ampere have room for 64."""

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Look at every GPU."""
        yield judge_each(self.name, view, self._judge)

    def _judge(self, gpu: Gpu, facts: GpuHealth) -> Iterator[Opinion]:
        name = f"GPU {gpu.index}"
        if facts.remap_failed:
            yield unhealthy(f"{name} could not replace a bad memory row")
        if (facts.rows_remapped or 0) >= self.remapped_max:
            yield unhealthy(f"{name} has replaced {facts.rows_remapped} bad memory rows")
        if facts.remap_pending:
            yield degraded(f"{name} must be reset to replace a bad memory row")
        if facts.spare_rows is not None and facts.spare_rows.none:
            yield degraded(f"{name} has {facts.spare_rows.none} memory banks without a spare row")
        elif facts.spare_rows is not None and facts.spare_rows.low:
            yield degraded(f"{name} has {facts.spare_rows.low} memory banks short of spare rows")
        if (facts.pages_retired or 0) >= self.pages_max:
            yield unhealthy(f"{name} has retired {facts.pages_retired} memory pages")
        if facts.pages_pending:
            yield degraded(f"{name} must be reset to retire a bad memory page")
