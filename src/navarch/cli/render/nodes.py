"""Nodes, as a table and one by one, and scans of one machine."""

from collections.abc import Callable, Iterator, Sequence

from navarch.agent.recording import Scan, ScannedGpu
from navarch.cli.printing import one_line
from navarch.cli.render.table import (
    COLORS,
    Canvas,
    Cell,
    Column,
    age,
    colored,
    duration,
    gibibytes,
    price,
    printable,
    render_table,
    time_and_age,
    title,
)
from navarch.core.health import CheckResult, Health
from navarch.core.node import Phase
from navarch.health.checks.xid import describe_source
from navarch.ports.api import NodeDetail, NodeView
from navarch.ports.gpu import GpuHealth


def render_nodes(nodes: Sequence[NodeView], canvas: Canvas) -> str:
    """Return the table that `navarch list` prints."""
    if not nodes:
        return "No nodes found"
    columns: list[Column[NodeView]] = [
        Column("Node ID", lambda node: node.id),
        Column("Provider", lambda node: node.provider, rank=7),
        Column("Region", lambda node: node.region, rank=5),
        Column("Zone", lambda node: node.zone, rank=8),
        Column("Instance Type", lambda node: node.instance_type, rank=4),
        Column("Status", status_cell),
        Column("Health", health_cell),
        Column("Last Heartbeat", lambda node: heartbeat(node, canvas), rank=1),
        Column("GPUs", lambda node: str(node.gpus), rank=2, right=True),
        Column("Pool", pool_of, rank=6),
        Column("Note", lambda node: note(node, canvas), rank=3, width_min=16, optional=True),
    ]
    return render_table(columns, nodes, canvas)


def pool_of(node: NodeView) -> str:
    """Return the pool of a node; of a self-registered one the pool that its agent names."""
    return node.pool or node.labels.get("pool", "")


def status_word(node: NodeView) -> str:
    """Return a node's status, or its phase while it has no status."""
    return title(node.status or node.phase)


def status_cell(node: NodeView) -> Cell:
    """Return a node's status with its colour."""
    return Cell(status_word(node), COLORS.get(node.status or node.phase))


def heartbeat(node: NodeView, canvas: Canvas) -> str:
    """Return the age of the last heartbeat; `-` for a node that is gone."""
    return "-" if node.phase is Phase.GONE else age(node.last_heartbeat, canvas.now)


def health_cell(node: NodeView) -> Cell:
    """Return a node's health with its colour."""
    return Cell(title(node.health), COLORS[node.health])


def note(node: NodeView, canvas: Canvas) -> str:
    """Return the most relevant remark about a node."""
    if node.retiring is not None:
        return f"{'left' if node.phase is Phase.GONE else 'leaving'}: {node.retiring}"
    if node.recovering is not None:
        return f"recovering: {node.recovering}"
    if node.held is not None and not node.held.released:
        return f"held back: {node.held.because}"
    if node.conditions:
        worst = node.conditions[0]
        return f"{worst.check}: {worst.reason}"
    if node.cordoned is not None:
        return f"cordoned: {node.cordoned}"
    if node.waiting and node.phase is Phase.READY:
        return f"waiting for the rest of {node.gang}"
    if node.phase in (Phase.REQUESTED, Phase.BOOTING):
        taking = f"for {duration(canvas.now - node.since)}"
        return f"{taking}, instead of {node.replaces}" if node.replaces else taking
    return ""


def render_node(detail: NodeDetail, canvas: Canvas) -> str:
    """Return what `navarch get` prints."""
    lines = [f"{name + ':':<16}{word}" for name, word in _facts(detail.node, canvas) if word]
    for heading, block in (
        ("Conditions", _conditions(detail.node, canvas)),
        ("Witnesses", _testimonies(detail.node, canvas)),
        ("GPUs", _gpus(detail)),
        ("Metadata", _metadata(detail)),
        ("Labels", [f"{key}: {word}" for key, word in sorted(detail.node.labels.items())]),
        ("Commands", _commands(detail, canvas)),
    ):
        body = [f"  {line}" for line in block]
        if body:
            lines += [f"{heading}:", *body]
    return "\n".join(map(one_line, lines))


def _facts(node: NodeView, canvas: Canvas) -> Iterator[tuple[str, str]]:
    yield "Node ID", node.id
    yield "Pool", pool_of(node)
    yield "Provider", node.provider
    yield "Region", node.region
    yield "Zone", node.zone
    yield "Instance Type", node.instance_type
    yield "Instance ID", node.instance or ""
    status = status_cell(node)
    yield "Status", colored(status.text, status.color, on=canvas.color)
    yield "Phase", f"{node.phase} for {duration(canvas.now - node.since)}"
    yield "Boot", printable(_boot(node, canvas))
    health = health_cell(node)
    yield "Health", colored(health.text, health.color, on=canvas.color)
    yield "Cordoned", printable(node.cordoned or "")
    yield "Left" if node.phase is Phase.GONE else "Leaving", printable(node.retiring or "")
    yield "Recovering", printable(node.recovering or "")
    yield "Held back", printable(_held(node))
    yield "Replaces", node.replaces or ""
    if node.topology is not None:
        yield "Block", printable(node.topology.block)
        yield "Rack", printable(node.topology.rack)
        yield "Switch", printable(node.topology.switch)
    waits = ", waiting for the others" if node.waiting else ""
    yield "Gang", f"{node.gang}{waits}" if node.gang else ""
    yield "Last Heartbeat", heartbeat(node, canvas)
    yield "Created", time_and_age(node.created_at, canvas.now)
    paid = "" if node.capacity_type in ("", "on demand") else f", {node.capacity_type}"
    yield "Price", f"{price(node.price_per_hour)}/h{paid}" if node.price_per_hour else paid[2:]


def _boot(node: NodeView, canvas: Canvas) -> str:
    if node.boot is None or node.phase is not Phase.BOOTING:
        return ""
    step = f"{node.boot.step} ({age(node.boot.at, canvas.now)})" if node.boot.step else ""
    return "; ".join(filter(None, (node.boot.failed, step)))


def _held(node: NodeView) -> str:
    if node.held is None:
        return ""
    if node.held.released:
        return f"{node.held.action}, released: {node.held.released}"
    return f"{node.held.action}, because {node.held.because}"


def _conditions(node: NodeView, canvas: Canvas) -> list[str]:
    return [
        f"{condition.check}: {condition.health}, {printable(condition.reason)}"
        f" ({age(condition.since, canvas.now)}"
        + (f", {condition.times} times" if condition.times > 1 else "")
        + (", fatal)" if condition.fatal else ")")
        for condition in node.conditions
    ]


_MEANINGS = {True: "works", False: "dead", None: "no proof"}


def _testimonies(node: NodeView, canvas: Canvas) -> list[str]:
    return [
        f"{each.witness}: {_MEANINGS[each.alive]}, {printable(each.reason)}"
        f" ({age(each.since, canvas.now)})"
        for each in node.testimonies
    ]


def _gpus(detail: NodeDetail) -> list[str]:
    if detail.inventory is None:
        return []
    readings = detail.metrics.gpus if detail.metrics else ()
    lines: list[str] = []
    for place, gpu in enumerate(detail.inventory.gpus):
        lines.append(f"GPU {gpu.index}:")
        facts = {"UUID": gpu.uuid, "Name": gpu.name, "PCI Bus ID": gpu.pci_bus_id}
        if gpu.memory_bytes:
            facts["Memory"] = gibibytes(gpu.memory_bytes)
        if place < len(readings):
            now = readings[place]
            facts["Now"] = (
                f"{now.utilization_pct:.0f} % busy, {now.temperature_c:.0f} °C, {now.power_w:.0f} W"
            )
        lines += [f"  {name + ':':<12}{printable(word)}" for name, word in facts.items() if word]
    return lines


def _metadata(detail: NodeDetail) -> list[str]:
    found, node = detail.inventory, detail.node
    facts = {
        "Hostname": found.hostname if found else "",
        "Internal IP": (found.internal_ip if found else "") or node.private_address,
        "External IP": (found.external_ip if found else "") or node.public_address,
        "Kernel": found.kernel_version if found else "",
    }
    return [f"{name + ':':<14}{printable(word)}" for name, word in facts.items() if word]


def _commands(detail: NodeDetail, canvas: Canvas) -> list[str]:
    return [
        f"{command.kind} {command.status}, {age(command.issued_at, canvas.now)}"
        + (f": {printable(command.result)}" if command.result else "")
        for command in detail.commands
    ]


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
