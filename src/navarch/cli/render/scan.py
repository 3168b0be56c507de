"""A scan of one machine: its GPUs, then the result of every check."""

from collections.abc import Sequence

from navarch.agent.scan import Scan, ScannedGpu
from navarch.cli.render.canvas import Canvas
from navarch.cli.render.formatting import COLORS, colored, gibibytes, title
from navarch.cli.render.table import Cell, Column, render_table
from navarch.core.health import CheckResult, Health
from navarch.health.checks.xid import describe_source
from navarch.ports.gpu import GpuHealth

GPU_COLUMNS = (
    Column(name="GPU", right=True),
    Column(name="Model"),
    Column(name="Bus", rank=6),
    Column(name="Memory", rank=5, right=True),
    Column(name="Temp", right=True),
    Column(name="Power", rank=3, right=True),
    Column(name="Busy", rank=4, right=True),
    Column(name="ECC", rank=1),
    Column(name="Rows", rank=2, right=True),
    Column(name="PCIe", rank=2),
    Column(name="NVLink", rank=3, optional=True),
)
CHECK_COLUMNS = (
    Column(name="Check"),
    Column(name="Result"),
    Column(name="Found", width_min=20, wrap=True),
)


def render_scan(scan: Scan, canvas: Canvas) -> str:
    """Return what `navarch agent scan` prints."""
    blocks = []
    if scan.gpus:
        blocks.append(render_table(GPU_COLUMNS, [_gpu(gpu) for gpu in scan.gpus], canvas))
    blocks.append(render_results(scan.results, canvas))
    if scan.sources:
        blocks.append(
            "\n".join(f"{source.name}: {describe_source(source)}" for source in scan.sources)
        )
    blocks.append(_summary(scan, canvas))
    return "\n\n".join(blocks)


def render_results(results: Sequence[CheckResult], canvas: Canvas) -> str:
    """Return a table with one line per result."""
    return render_table(CHECK_COLUMNS, [_result(result) for result in results], canvas)


def _result(result: CheckResult) -> list[Cell | str]:
    word = "not run" if result.health is Health.UNKNOWN else title(result.health)
    return [
        result.check,
        Cell(word, COLORS.get(result.health)),
        result.reason + (" (fatal)" if result.fatal else ""),
    ]


def _gpu(scanned: ScannedGpu) -> list[Cell | str]:
    gpu, facts = scanned.gpu, scanned.health or GpuHealth()
    return [
        str(gpu.index),
        Cell(scanned.trouble, "red") if scanned.trouble else gpu.name,
        gpu.pci_bus_id.removeprefix("0000"),
        gibibytes(gpu.memory_bytes) if gpu.memory_bytes else "",
        _format(facts.temperature_c, "{:.0f} °C"),
        _format(facts.power_w, "{:.0f} W"),
        _format(facts.utilization_pct, "{:.0f} %"),
        _ecc(facts),
        _format(facts.rows_remapped, "{}"),
        _pcie(facts),
        _nvlink(facts),
    ]


def _format(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _ecc(facts: GpuHealth) -> Cell | str:
    if facts.ecc_on is False:
        return Cell("off", "yellow")
    if facts.ecc_uncorrected is None:
        return ""
    return f"{facts.ecc_corrected or 0} + {facts.ecc_uncorrected}"


def _pcie(facts: GpuHealth) -> str:
    if facts.pcie_width is None:
        return ""
    return f"gen {facts.pcie_generation or '?'} x{facts.pcie_width}"


def _nvlink(facts: GpuHealth) -> str:
    up = sum(link.active for link in facts.nvlinks)
    return f"{up}/{len(facts.nvlinks)}" if facts.nvlinks else ""


def _summary(scan: Scan, canvas: Canvas) -> str:
    bad = [r for r in scan.results if r.health in (Health.UNHEALTHY, Health.DEGRADED)]
    not_run = sum(result.health is Health.UNKNOWN for result in scan.results)
    skipped = f", {not_run} not run" if not_run else ""
    passed = len(scan.results) - len(bad) - not_run
    word = "can be used" if scan.passed else "should not be used"
    shown = colored(word, "green" if scan.passed else "red", on=canvas.color)
    return f"{scan.host} {shown}: {passed} checks passed, {len(bad)} failed{skipped}"
