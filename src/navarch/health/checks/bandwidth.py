"""Check that GPUs copy memory at the expected speed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from navarch.core.health import CheckResult, Health
from navarch.health.checks.issues import WEEKLY, Issue, combine, degraded, in_use, not_run
from navarch.ports.checks import MachineView
from navarch.ports.diagnostics import CopyFigures, Diagnostics, NotRunError, TestFailedError
from navarch.ports.gpu import GpuError

SLOW = 0.7
"""A GPU is slow below this share of the fastest GPU in the same machine."""
WAYS = (
    ("to_device_gbs", "host to device"),
    ("from_device_gbs", "device to host"),
    ("on_device_gbs", "on the device"),
    ("between_devices_gbs", "between devices"),
)
CASES = (
    "host_to_device_memcpy_ce",
    "device_to_host_memcpy_ce",
    "device_to_device_memcpy_write_ce",
)
"""The nvbandwidth tests to run; all of them together take an hour."""
TOOL_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthCheck:
    """Measures copies between host and device, on the device, and between devices.

    If `nvbandwidth` is installed, its results are added.
    """

    name: str = "bandwidth"
    interval: timedelta | None = WEEKLY

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Measure every GPU."""
        if view.diagnostics is None:
            yield not_run(self.name, "this machine has no way to use its GPUs")
            return
        try:
            gpus = view.gpus.list_gpus()
            if used := in_use(view, gpus):
                yield not_run(self.name, used)
                return
            figures = view.diagnostics.copies(gpus)
        except (NotRunError, GpuError) as error:
            yield not_run(self.name, str(error))
            return
        except TestFailedError as error:
            yield CheckResult(check=self.name, health=Health.UNHEALTHY, reason=str(error))
            return
        slow, summary = _run_nvbandwidth(view.diagnostics)
        result = combine(self.name, [*_slow(figures), *slow])
        words = "; ".join(filter(None, (result.reason, *_summary(figures), summary)))
        yield CheckResult(check=self.name, health=result.health, reason=words)


def _slow(figures: Sequence[CopyFigures]) -> Iterator[Issue]:
    for field, way in WAYS:
        found = [(index, getattr(one, field)) for index, one in enumerate(figures)]
        known = [(index, gbs) for index, gbs in found if gbs is not None]
        best = max((gbs for _, gbs in known), default=0.0)
        for index, gbs in known:
            if gbs < SLOW * best:
                yield degraded(f"GPU {index} moves {gbs:.0f} of {best:.0f} GB/s {way}")


def _summary(figures: Sequence[CopyFigures]) -> Iterator[str]:
    for field, way in WAYS:
        known = [gbs for one in figures if (gbs := getattr(one, field)) is not None]
        if known:
            yield f"{min(known):.0f} GB/s {way}"


class _Case(msgspec.Struct):
    """One nvbandwidth test. The cells of its matrix are numbers as text, or `N/A`."""

    name: str = ""
    status: str = ""
    sum: float = 0.0
    bandwidth_matrix: list[list[str]] = msgspec.field(default_factory=list)


class _Cases(msgspec.Struct):
    testcases: list[_Case] = msgspec.field(default_factory=list)
    error: str = ""


class _Output(msgspec.Struct):
    nvbandwidth: _Cases = msgspec.field(default_factory=_Cases)


def _run_nvbandwidth(diagnostics: Diagnostics) -> tuple[list[Issue], str]:
    """Run nvbandwidth; return the slow GPUs and a summary, or why it did not run."""
    try:
        run = diagnostics.tool("nvbandwidth", "-j", "-t", *CASES, within_s=TOOL_S)
    except (NotRunError, TestFailedError) as error:
        return [], f"nvbandwidth not run: {error}"
    try:
        output = msgspec.json.decode(run.output[run.output.find("{") :], type=_Output).nvbandwidth
    except msgspec.DecodeError:
        return [], f"nvbandwidth did not finish: code {run.code}"
    passed = [case for case in output.testcases if case.status == "Passed"]
    if not passed:
        return [], f"nvbandwidth did not finish: {output.error or f'code {run.code}'}"
    sums = ", ".join(f"{case.name} {case.sum:.0f} GB/s" for case in passed)
    return [slow for case in passed for slow in _slow_column(case)], f"nvbandwidth: {sums}"


def _slow_column(case: _Case) -> Iterator[Issue]:
    """Yield the slow GPUs of a host-device test, which has one figure per GPU."""
    if len(case.bandwidth_matrix) != 1:
        return
    figures = [_number(cell) for cell in case.bandwidth_matrix[0]]
    best = max((figure for figure in figures if figure is not None), default=0.0)
    for index, figure in enumerate(figures):
        if figure is not None and figure < SLOW * best:
            reached = f"{figure:.0f} of {best:.0f} GB/s"
            yield degraded(f"GPU {index} reaches {reached} in nvbandwidth's {case.name}")


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
