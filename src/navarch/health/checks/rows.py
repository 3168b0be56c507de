"""Check the spare rows and retired pages of GPU memory."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from navarch.core.inventory import Gpu
from navarch.health.checks.issues import GpuCheck, Issue, degraded, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth

SPARE = "spare/"
"""Prefix of the facts that hold a GPU's spare rows; the GPU's UUID follows."""

Banks = tuple[int, int, int, int, int]
"""Counts of memory banks by spare rows left: full, high, partial, low and none."""
_BANKS = re.compile(r"\d{1,9}(?:\s+\d{1,9}){4}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsCheck(GpuCheck):
    """Watches remapped rows, retired pages, pending and failed ones, and spare rows.

    Every result carries the spare rows of GPUs that have used some, even if healthy: the control
    plane estimates wear from them.
    """

    name: str = "rows"
    remapped_max: int = 512
    pages_max: int = 60
    """GPUs before Ampere have room for 64."""

    def _find_issues(self, _view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        name, rows = f"GPU {gpu.index}", health.spare_rows
        if health.remap_failed:
            yield unhealthy(f"{name} failed to remap a bad memory row")
        if (health.rows_remapped or 0) >= self.remapped_max:
            yield unhealthy(f"{name} has remapped {health.rows_remapped} bad memory rows")
        if health.remap_pending:
            yield degraded(f"{name} needs a reset to remap a bad memory row")
        if rows is not None and rows.none:
            yield degraded(f"{name} has {rows.none} memory banks without a spare row")
        elif rows is not None and rows.low:
            yield degraded(f"{name} has {rows.low} memory banks short of spare rows")
        if (health.pages_retired or 0) >= self.pages_max:
            yield unhealthy(f"{name} has retired {health.pages_retired} memory pages")
        if health.pages_pending:
            yield degraded(f"{name} needs a reset to retire a bad memory page")

    def _facts(self, gpu: Gpu, health: GpuHealth) -> Mapping[str, str]:
        rows = health.spare_rows
        if rows is None or not (rows.high or rows.partial or rows.low or rows.none):
            return {}
        words = f"{rows.full} {rows.high} {rows.partial} {rows.low} {rows.none}"
        return {f"{SPARE}{gpu.uuid}": words}


def spare_rows(facts: Mapping[str, str]) -> Iterator[tuple[str, Banks]]:
    """Yield each GPU in the facts of a result with its banks; malformed facts are skipped."""
    for name, words in facts.items():
        if name.startswith(SPARE) and _BANKS.fullmatch(words):
            full, high, partial, low, none = map(int, words.split())
            yield name.removeprefix(SPARE), (full, high, partial, low, none)
