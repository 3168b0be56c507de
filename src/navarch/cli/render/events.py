"""The journal, one line per event."""

from collections.abc import Sequence

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.formatting import age, clock_time, timestamp
from navarch.cli.render.table import Cell, Column, render_table
from navarch.core.event import Recorded

COLUMNS = (
    Column(name="Time (UTC)"),
    Column(name="About", rank=1, width_min=16),
    Column(name="Event", rank=2),
    Column(name="Reason", width_min=24, wrap=True),
)

NOTHING = "No events found"


def render_events(events: Sequence[Recorded], canvas: Canvas) -> str:
    """Return the table that `navarch events` prints, oldest first."""
    if not events:
        return NOTHING
    return render_table(COLUMNS, [_row(entry, canvas) for entry in events], canvas)


def _row(entry: Recorded, canvas: Canvas) -> list[Cell | str]:
    event = entry.event
    return [
        timestamp(event.at) if canvas.width is None else clock_time(event.at, canvas.now),
        event.about,
        Cell(event.kind, kind_color(event.kind)),
        event.reason,
    ]


def render_event(entry: Recorded, canvas: Canvas) -> str:
    """Return one event of a stream, in fixed columns: later events are not known yet."""
    at, about, kind, reason = _row(entry, canvas)
    columns = (
        Column(name=" " * 8),
        Column(name=" " * (20 if canvas.width is not None and canvas.width < 120 else 26)),
        Column(name=" " * 16),
        Column(name="", width_min=24, wrap=True),
    )
    return render_table(columns, [(at, about, kind, reason)], canvas).partition("\n")[2]


def render_recent(events: Sequence[Recorded], canvas: Canvas) -> str:
    """Return events newest first, with ages instead of times."""
    newest = sorted(events, key=lambda entry: -entry.number)
    rows: list[list[Cell | str]] = [
        [age(entry.event.at, canvas.now), *_row(entry, canvas)[1:]] for entry in newest
    ]
    # The status screen has no room to wrap reasons.
    columns = (Column(name="Recently"), *COLUMNS[1:3], Column(name="Reason", width_min=32))
    return render_table(columns, rows, canvas)


KIND_COLORS = {
    "unhealthy": "red",
    "refused": "red",
    "failed": "red",
    "retiring": "yellow",
    "draining": "yellow",
    "cordoned": "yellow",
    "registered": "green",
    "healthy": "green",
    "completed": "green",
}


def kind_color(kind: str) -> str | None:
    """Return the colour for an event kind."""
    return KIND_COLORS.get(kind.rpartition(".")[2])
