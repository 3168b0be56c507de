"""Tests of idle GPUs: bandwidth, load, memory patterns, NCCL and DCGM."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from navarch.core.errors import InvalidError
from navarch.core.health import CHECK_VERSION, CheckResult, Health
from navarch.core.instance import Gpu
from navarch.health.checks.issues import (
    ActiveCheck,
    Issue,
    combine,
    degraded,
    find_slow,
    not_run,
    unhealthy,
)
from navarch.ports.checks import Diagnostics, NotRunError, TestFailedError

SLOW = 0.7
BURN_SLOW = 0.85
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

_ROW = re.compile(r"^\|\s*(?P<test>[^|]+?)\s*\|\s*(?P<word>Pass|Fail|Skip)\b[^|]*\|", re.MULTILINE)
_DCGM_VERSION = re.compile(r"^\|\s*DCGM Version\s*\|\s*(?P<version>[^\s|]+)", re.MULTILINE)
_PEER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*:[1-9]\d{0,3}")
_BUS = re.compile(r"Avg bus bandwidth\s*:\s*([\d.]+)")
_WRONG = re.compile(r"Out of bounds values\s*:\s*(\d+)")


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
        for index, figure in find_slow(reached, BURN_SLOW):
            issues.append(degraded(f"GPU {index} reaches {figure} TFLOP/s"))
        return combine(self.name, issues, measurements)


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmCheck(ActiveCheck):
    """Runs `dcgmi diag`, if it is installed, and reports which of its tests failed.

    The results carry the version of DCGM, which is updated apart from the agent.
    """

    name: str = "dcgm"
    level: int = 2

    def _test(self, gpus: Sequence[Gpu], diagnostics: Diagnostics) -> CheckResult:
        del gpus
        run = diagnostics.tool("dcgmi", "diag", "-r", str(self.level), within_s=1800.0)
        rows = _ROW.findall(run.output)
        version = _DCGM_VERSION.search(run.output)
        facts = {CHECK_VERSION: version["version"]} if version is not None else {}
        failed = [test for test, word in rows if word == "Fail"]
        if failed:
            reason = f"dcgmi diag failed: {', '.join(failed)}"
            return CheckResult(check=self.name, health=Health.UNHEALTHY, reason=reason, facts=facts)
        if run.code != 0 or not rows:
            last = run.output.strip().rpartition("\n")[2] or f"code {run.code}"
            return not_run(self.name, f"dcgmi diag did not finish: {last}")
        passed = sum(word == "Pass" for _, word in rows)
        reason = f"{passed} tests passed"
        return CheckResult(check=self.name, health=Health.HEALTHY, reason=reason, facts=facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclCheck(ActiveCheck):
    """Runs `all_reduce_perf` of the NCCL tests over all GPUs, if it is installed.

    `peers` are further machines, each as address and GPU count (`10.0.0.2:8`). With peers, `mpirun`
    starts one process per GPU. The caller must make sure that the peers are idle.
    """

    name: str = "nccl"
    peers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Reject anything but HOST:GPUS: it could be taken for an option or a command."""
        for peer in self.peers:
            if not _PEER.fullmatch(peer):
                raise InvalidError(f"{peer!r} is not HOST:GPUS, as in 10.0.0.2:8")

    def _check_count(self, gpus: int) -> None:
        if gpus < 2 and not self.peers:
            raise NotRunError("there is only one GPU to reduce over")

    def _test(self, gpus: Sequence[Gpu], diagnostics: Diagnostics) -> CheckResult:
        tool, *arguments = self._command(len(gpus))
        run = diagnostics.tool(tool, *arguments, within_s=300.0)
        bus, wrong = _BUS.search(run.output), _WRONG.search(run.output)
        if wrong is not None and int(wrong[1]):
            reason = f"{wrong[1]} values of the all-reduce were wrong"
            return CheckResult(check=self.name, health=Health.UNHEALTHY, reason=reason)
        if run.code != 0 or bus is None:
            last = run.output.strip().rpartition("\n")[2] or f"code {run.code}"
            return not_run(self.name, f"all_reduce_perf did not finish: {last}")
        among = f" among {1 + len(self.peers)} nodes" if self.peers else ""
        words = f"{float(bus[1]):.0f} GB/s bus bandwidth{among}"
        return CheckResult(check=self.name, health=Health.HEALTHY, reason=words)

    def _command(self, gpus: int) -> Sequence[str]:
        sizes = ("-b", "1G", "-e", "1G", "-g")
        if not self.peers:
            return "all_reduce_perf", *sizes, str(gpus)
        hosts = (f"localhost:{gpus}", *self.peers)
        count = gpus + sum(int(peer.rpartition(":")[2]) for peer in self.peers)
        start = ("mpirun", "--allow-run-as-root", "-np", str(count), "-H", ",".join(hosts))
        return *start, "all_reduce_perf", *sizes, "1"


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
