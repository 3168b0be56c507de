"""Nodes, as a table and one by one."""

from collections.abc import Iterator, Sequence

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.formatting import (
    COLORS,
    age,
    colored,
    duration,
    gibibytes,
    price,
    printable,
    time_and_age,
    title,
)
from navarch.cli.render.table import Cell, Column, render_table
from navarch.core.node import Phase
from navarch.ports.api import NodeDetail, NodeView


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
        Column("Pool", lambda node: node.pool or "", rank=6),
        Column("Note", lambda node: note(node, canvas), rank=3, width_min=16, optional=True),
    ]
    return render_table(columns, nodes, canvas)


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
        ("GPUs", _gpus(detail)),
        ("Metadata", _metadata(detail)),
        ("Labels", [f"{key}: {word}" for key, word in sorted(detail.node.labels.items())]),
        ("Commands", _commands(detail, canvas)),
    ):
        body = [f"  {line}" for line in block]
        if body:
            lines += [f"{heading}:", *body]
    return "\n".join(lines)


def _facts(node: NodeView, canvas: Canvas) -> Iterator[tuple[str, str]]:
    yield "Node ID", node.id
    yield "Pool", node.pool or ""
    yield "Provider", node.provider
    yield "Region", node.region
    yield "Zone", node.zone
    yield "Instance Type", node.instance_type
    yield "Instance ID", node.instance or ""
    status = status_cell(node)
    yield "Status", colored(status.text, status.color, on=canvas.color)
    yield "Phase", f"{node.phase} for {duration(canvas.now - node.since)}"
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
