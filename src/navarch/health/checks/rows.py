"""Check the spare rows and retired pages of GPU memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.core.records import evolve
from navarch.health.checks.issues import Issue, check_each_gpu, degraded, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth, SpareRows

SPARE = "spare/"
"""Prefix of the facts that hold a GPU's spare rows; the GPU's UUID follows."""

Banks = tuple[int, int, int, int, int]
"""Counts of memory banks by spare rows left: full, high, partial, low and none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsCheck:
    """Watches remapped rows, retired pages, pending and failed ones, and spare rows.

    Every result carries the spare rows of GPUs that have used some, even if healthy: the control
    plane estimates wear from them.
    """

    name: str = "rows"
    interval: timedelta | None = None
    remapped_max: int = 512
    pages_max: int = 60
    """GPUs before Ampere have room for 64."""

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every GPU."""
        worn: dict[str, str] = {}

        def find_issues(gpu: Gpu, facts: GpuHealth) -> Iterator[Issue]:
            if facts.spare_rows is not None and _is_worn(facts.spare_rows):
                worn[f"{SPARE}{gpu.uuid}"] = _words(facts.spare_rows)
            yield from self._find_issues(gpu, facts)

        yield evolve(check_each_gpu(self.name, view, find_issues), facts=worn)

    def _find_issues(self, gpu: Gpu, facts: GpuHealth) -> Iterator[Issue]:
        name = f"GPU {gpu.index}"
        if facts.remap_failed:
            yield unhealthy(f"{name} failed to remap a bad memory row")
        if (facts.rows_remapped or 0) >= self.remapped_max:
            yield unhealthy(f"{name} has remapped {facts.rows_remapped} bad memory rows")
        if facts.remap_pending:
            yield degraded(f"{name} needs a reset to remap a bad memory row")
        if facts.spare_rows is not None and facts.spare_rows.none:
            yield degraded(f"{name} has {facts.spare_rows.none} memory banks without a spare row")
        elif facts.spare_rows is not None and facts.spare_rows.low:
            yield degraded(f"{name} has {facts.spare_rows.low} memory banks short of spare rows")
        if (facts.pages_retired or 0) >= self.pages_max:
            yield unhealthy(f"{name} has retired {facts.pages_retired} memory pages")
        if facts.pages_pending:
            yield degraded(f"{name} needs a reset to retire a bad memory page")


def spare_rows(facts: Mapping[str, str]) -> Iterator[tuple[str, Banks]]:
    """Yield each GPU in the facts of a result with its banks; malformed facts are skipped."""
    for name, words in facts.items():
        if not name.startswith(SPARE):
            continue
        numbers = words.split()
        if len(numbers) != 5 or not all(map(_is_number, numbers)):
            continue
        full, high, partial, low, none = map(int, numbers)
        yield name.removeprefix(SPARE), (full, high, partial, low, none)


def _is_worn(rows: SpareRows) -> bool:
    return bool(rows.high or rows.partial or rows.low or rows.none)


def _words(rows: SpareRows) -> str:
    return f"{rows.full} {rows.high} {rows.partial} {rows.low} {rows.none}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10
