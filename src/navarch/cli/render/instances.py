"""Machines as their providers list them."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.formatting import COLORS, age, colored, printable, timestamp, title
from navarch.cli.render.table import Cell, Column, render_table
from navarch.ports.api import InstanceView

COLUMNS = (
    Column(name="Instance ID"),
    Column(name="Provider", rank=5),
    Column(name="Region", rank=3),
    Column(name="Zone", rank=7),
    Column(name="Instance Type", rank=4),
    Column(name="State"),
    Column(name="Node ID", rank=1),
    Column(name="Pool", rank=6),
    Column(name="Created", rank=2),
    Column(name="Message", rank=8, width_min=16, optional=True),
)

NOTHING = "No instances found"


def render_instances(instances: Sequence[InstanceView], canvas: Canvas) -> str:
    """Return the table that `navarch instance list` prints."""
    if not instances:
        return NOTHING
    return render_table(COLUMNS, [_row(instance, canvas) for instance in instances], canvas)


def _row(instance: InstanceView, canvas: Canvas) -> list[Cell | str]:
    return [
        instance.id,
        instance.provider,
        instance.region,
        instance.zone,
        instance.instance_type,
        Cell(title(instance.state), COLORS.get(instance.state)),
        instance.node,
        instance.pool or "",
        age(instance.created_at, canvas.now),
        instance.message,
    ]


def render_instance(instance: InstanceView, canvas: Canvas) -> str:
    """Return what `navarch instance get` prints."""
    lines = [f"{name + ':':<16}{word}" for name, word in _facts(instance, canvas) if word]
    labels = sorted(instance.labels.items())
    if labels:
        lines += ["Labels:", *(f"  {key}: {word}" for key, word in labels)]
    return "\n".join(lines)


def _facts(instance: InstanceView, canvas: Canvas) -> Iterator[tuple[str, str]]:
    def when(at: datetime | None) -> str:
        return f"{timestamp(at)} UTC ({age(at, canvas.now)})" if at else ""

    yield "Instance ID", instance.id
    yield "Provider", instance.provider
    yield "Region", instance.region
    yield "Zone", instance.zone
    yield "Instance Type", instance.instance_type
    yield (
        "State",
        colored(title(instance.state), COLORS.get(instance.state), on=canvas.color),
    )
    yield "Node ID", instance.node
    yield "Pool", instance.pool or ""
    yield "Created", when(instance.created_at)
    yield "Ready", when(instance.ready_at)
    yield "Terminated", when(instance.terminated_at)
    yield "Message", printable(instance.message)
