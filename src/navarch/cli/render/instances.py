"""Machines as their providers list them."""

from collections.abc import Iterator, Sequence

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.formatting import COLORS, age, colored, printable, time_and_age, title
from navarch.cli.render.table import Cell, Column, render_table
from navarch.ports.api import InstanceView


def render_instances(instances: Sequence[InstanceView], canvas: Canvas) -> str:
    """Return the table that `navarch instance list` prints."""
    if not instances:
        return "No instances found"
    columns: list[Column[InstanceView]] = [
        Column("Instance ID", lambda instance: instance.id),
        Column("Provider", lambda instance: instance.provider, rank=5),
        Column("Region", lambda instance: instance.region, rank=3),
        Column("Zone", lambda instance: instance.zone, rank=7),
        Column("Instance Type", lambda instance: instance.instance_type, rank=4),
        Column("State", lambda instance: Cell(title(instance.state), COLORS.get(instance.state))),
        Column("Node ID", lambda instance: instance.node, rank=1),
        Column("Pool", lambda instance: instance.pool or "", rank=6),
        Column("Created", lambda instance: age(instance.created_at, canvas.now), rank=2),
        Column("Message", lambda instance: instance.message, rank=8, width_min=16, optional=True),
    ]
    return render_table(columns, instances, canvas)


def render_instance(instance: InstanceView, canvas: Canvas) -> str:
    """Return what `navarch instance get` prints."""
    lines = [f"{name + ':':<16}{word}" for name, word in _facts(instance, canvas) if word]
    labels = sorted(instance.labels.items())
    if labels:
        lines += ["Labels:", *(f"  {key}: {word}" for key, word in labels)]
    return "\n".join(lines)


def _facts(instance: InstanceView, canvas: Canvas) -> Iterator[tuple[str, str]]:
    yield "Instance ID", instance.id
    yield "Provider", instance.provider
    yield "Region", instance.region
    yield "Zone", instance.zone
    yield "Instance Type", instance.instance_type
    yield "State", colored(title(instance.state), COLORS.get(instance.state), on=canvas.color)
    yield "Node ID", instance.node
    yield "Pool", instance.pool or ""
    yield "Created", time_and_age(instance.created_at, canvas.now)
    yield "Ready", time_and_age(instance.ready_at, canvas.now)
    yield "Terminated", time_and_age(instance.terminated_at, canvas.now)
    yield "Message", printable(instance.message)
