"""Progress of a pool that starts or terminates: a table to redraw, or lines to append."""

from collections.abc import Mapping, Sequence

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.formatting import COLORS, duration, title
from navarch.cli.render.nodes import note, status_cell, status_word
from navarch.cli.render.table import Cell, Column, render_table
from navarch.core.ids import NodeId
from navarch.ports.api import NodeView

COLUMNS = (
    Column(name="Node ID"),
    Column(name="Status"),
    Column(name="For", right=True),
    Column(name="Health", rank=3),
    Column(name="Instance ID", rank=2),
    Column(name="Instance Type", rank=4),
    Column(name="Note", rank=1, width_min=16, optional=True),
)


def render_progress(headline: str, nodes: Sequence[NodeView], canvas: Canvas) -> str:
    """Return the state of a pool that starts or terminates, as a table."""
    if not nodes:
        return headline
    rows: list[list[Cell | str]] = [
        [
            node.id,
            status_cell(node),
            duration(canvas.now - node.since),
            Cell(title(node.health), COLORS.get(node.health, "red")),
            node.instance or "",
            node.instance_type,
            # For a starting node the note is its age, which has its own column.
            note(node, canvas) if node.retiring or node.conditions or node.cordoned else "",
        ]
        for node in nodes
    ]
    return f"{headline}\n{render_table(COLUMNS, rows, canvas)}"


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
