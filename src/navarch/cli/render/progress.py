"""Progress of a pool that starts or terminates: a table to redraw, or lines to append."""

from collections.abc import Mapping, Sequence

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.formatting import duration
from navarch.cli.render.nodes import health_cell, note, status_cell, status_word
from navarch.cli.render.table import Column, render_table
from navarch.core.ids import NodeId
from navarch.ports.api import NodeView


def render_progress(headline: str, nodes: Sequence[NodeView], canvas: Canvas) -> str:
    """Return the state of a pool that starts or terminates, as a table."""
    if not nodes:
        return headline

    def remark(node: NodeView) -> str:
        # For a starting node the note is its age, which has its own column.
        return note(node, canvas) if node.retiring or node.conditions or node.cordoned else ""

    columns: list[Column[NodeView]] = [
        Column("Node ID", lambda node: node.id),
        Column("Status", status_cell),
        Column("For", lambda node: duration(canvas.now - node.since), right=True),
        Column("Health", health_cell, rank=3),
        Column("Instance ID", lambda node: node.instance or "", rank=2),
        Column("Instance Type", lambda node: node.instance_type, rank=4),
        Column("Note", remark, rank=1, width_min=16, optional=True),
    ]
    return f"{headline}\n{render_table(columns, nodes, canvas)}"


def render_changes(before: Mapping[NodeId, NodeView], nodes: Sequence[NodeView]) -> list[str]:
    """Return a line for each node that changed or disappeared."""
    lines = []
    for node in nodes:
        old = before.get(node.id)
        if old is None or _change(old) != _change(node):
            lines.append(_change(node))
    here = {node.id for node in nodes}
    lines += [f"{name} is gone" for name in before if name not in here]
    return lines


def _change(node: NodeView) -> str:
    machine = f" on {node.instance}" if node.instance else ""
    reason = f": {node.retiring}" if node.retiring else ""
    return f"{node.id} is {status_word(node).lower()}{machine}{reason}"
