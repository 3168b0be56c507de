"""Check that GPUs copy memory at the expected speed."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from navarch.core.health import CheckResult
from navarch.core.inventory import Gpu
from navarch.health.checks.issues import ActiveCheck, Issue, combine, degraded, find_slow
from navarch.ports.diagnostics import Diagnostics, NotRunError, TestFailedError

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
class BandwidthCheck(ActiveCheck):
    """Measures copies between host and device, on the device, and between devices.

    If `nvbandwidth` is installed, its results are added.
    """

    name: str = "bandwidth"

    def _test(self, gpus: Sequence[Gpu], diagnostics: Diagnostics) -> CheckResult:
        figures = diagnostics.copies(gpus)
        issues: list[Issue] = []
        measurements: list[str] = []
        for field, way in WAYS:
            found = {index: getattr(one, field) for index, one in enumerate(figures)}
            known = {index: gbs for index, gbs in found.items() if gbs is not None}
            if known:
                measurements.append(f"{min(known.values()):.0f} GB/s {way}")
            for index, gbs in find_slow(known, SLOW):
                issues.append(degraded(f"GPU {index} moves {gbs} GB/s {way}"))
        slow, summary = _run_nvbandwidth(diagnostics)
        return combine(self.name, [*issues, *slow], [*measurements, summary])


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
    slow: list[Issue] = []
    for case in passed:
        # A host-device test has one row, with one figure per GPU.
        cells = case.bandwidth_matrix[0] if len(case.bandwidth_matrix) == 1 else []
        column = {index: _number(cell) for index, cell in enumerate(cells)}
        known = {index: figure for index, figure in column.items() if figure is not None}
        for index, figure in find_slow(known, SLOW):
            reached = f"GPU {index} reaches {figure} GB/s in nvbandwidth's {case.name}"
            slow.append(degraded(reached))
    sums = ", ".join(f"{case.name} {case.sum:.0f} GB/s" for case in passed)
    return slow, f"nvbandwidth: {sums}"


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
