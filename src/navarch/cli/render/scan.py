"""A scan of one machine: its GPUs, then the result of every check."""

from collections.abc import Callable, Sequence

from navarch.agent.scan import Scan, ScannedGpu
from navarch.cli.render.canvas import Canvas
from navarch.cli.render.formatting import COLORS, colored, gibibytes, title
from navarch.cli.render.table import Cell, Column, render_table
from navarch.core.health import CheckResult, Health
from navarch.health.checks.xid import describe_source
from navarch.ports.gpu import GpuHealth


def render_scan(scan: Scan, canvas: Canvas) -> str:
    """Return what `navarch agent scan` prints."""
    blocks = []
    if scan.gpus:
        blocks.append(render_table(GPUS, scan.gpus, canvas))
    blocks.append(render_results(scan.results, canvas))
    if scan.sources:
        blocks.append(
            "\n".join(f"{source.name}: {describe_source(source)}" for source in scan.sources)
        )
    blocks.append(_summary(scan, canvas))
    return "\n\n".join(blocks)


def render_results(results: Sequence[CheckResult], canvas: Canvas) -> str:
    """Return a table with one line per result."""
    return render_table(RESULTS, results, canvas)


def _verdict(result: CheckResult) -> Cell:
    word = "not run" if result.health is Health.UNKNOWN else title(result.health)
    return Cell(word, COLORS.get(result.health))


RESULTS: list[Column[CheckResult]] = [
    Column("Check", lambda result: result.check),
    Column("Result", _verdict),
    Column(
        "Found",
        lambda result: result.reason + (" (fatal)" if result.fatal else ""),
        width_min=20,
        wrap=True,
    ),
]


def _model(scanned: ScannedGpu) -> Cell | str:
    return Cell(scanned.trouble, "red") if scanned.trouble else scanned.gpu.name


def _memory(scanned: ScannedGpu) -> str:
    return gibibytes(scanned.gpu.memory_bytes) if scanned.gpu.memory_bytes else ""


def _reading(name: str, form: str) -> Callable[[ScannedGpu], str]:
    """Return the text of one reading; nothing if the GPU did not report it."""

    def text(scanned: ScannedGpu) -> str:
        value = getattr(scanned.health, name, None)
        return "" if value is None else form.format(value)

    return text


def _ecc(scanned: ScannedGpu) -> Cell | str:
    facts = scanned.health or GpuHealth()
    if facts.ecc_on is False:
        return Cell("off", "yellow")
    if facts.ecc_uncorrected is None:
        return ""
    return f"{facts.ecc_corrected or 0} + {facts.ecc_uncorrected}"


def _pcie(scanned: ScannedGpu) -> str:
    facts = scanned.health or GpuHealth()
    if facts.pcie_width is None:
        return ""
    return f"gen {facts.pcie_generation or '?'} x{facts.pcie_width}"


def _nvlink(scanned: ScannedGpu) -> str:
    links = scanned.health.nvlinks if scanned.health else ()
    return f"{sum(link.active for link in links)}/{len(links)}" if links else ""


GPUS: list[Column[ScannedGpu]] = [
    Column("GPU", lambda scanned: str(scanned.gpu.index), right=True),
    Column("Model", _model),
    Column("Bus", lambda scanned: scanned.gpu.pci_bus_id.removeprefix("0000"), rank=6),
    Column("Memory", _memory, rank=5, right=True),
    Column("Temp", _reading("temperature_c", "{:.0f} °C"), right=True),
    Column("Power", _reading("power_w", "{:.0f} W"), rank=3, right=True),
    Column("Busy", _reading("utilization_pct", "{:.0f} %"), rank=4, right=True),
    Column("ECC", _ecc, rank=1),
    Column("Rows", _reading("rows_remapped", "{}"), rank=2, right=True),
    Column("PCIe", _pcie, rank=2),
    Column("NVLink", _nvlink, rank=3, optional=True),
]


def _summary(scan: Scan, canvas: Canvas) -> str:
    bad = [r for r in scan.results if r.health in (Health.UNHEALTHY, Health.DEGRADED)]
    not_run = sum(result.health is Health.UNKNOWN for result in scan.results)
    skipped = f", {not_run} not run" if not_run else ""
    passed = len(scan.results) - len(bad) - not_run
    word = "can be used" if scan.passed else "should not be used"
    shown = colored(word, "green" if scan.passed else "red", on=canvas.color)
    return f"{scan.host} {shown}: {passed} checks passed, {len(bad)} failed{skipped}"
