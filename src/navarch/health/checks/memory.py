"""Checks of GPU memory: ECC errors and remapped rows."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from navarch.core.instance import Gpu
from navarch.health.checks.issues import GpuCheck, Issue, degraded, rise_in_hour, unhealthy
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuHealth

SPARE = "spare/"
"""Prefix of the facts that hold a GPU's spare rows; the GPU's UUID follows."""

Banks = tuple[int, int, int, int, int]
"""Counts of memory banks by spare rows left: full, high, partial, low and none."""
_BANKS = re.compile(r"\d{1,9}(?:\s+\d{1,9}){4}", re.ASCII)


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
