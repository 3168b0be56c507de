"""The journal, one line per event."""

from collections.abc import Sequence

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.formatting import age, clock_time, timestamp
from navarch.cli.render.table import Cell, Column, render_table
from navarch.core.event import Recorded

ABOUT: Column[Recorded] = Column("About", lambda entry: entry.event.about, rank=1, width_min=16)
EVENT: Column[Recorded] = Column(
    "Event", lambda entry: Cell(entry.event.kind, kind_color(entry.event.kind)), rank=2
)


def render_events(events: Sequence[Recorded], canvas: Canvas) -> str:
    """Return the table that `navarch events` prints, oldest first."""
    if not events:
        return "No events found"
    columns: list[Column[Recorded]] = [
        Column("Time (UTC)", lambda entry: _time(entry, canvas)),
        ABOUT,
        EVENT,
        Column("Reason", lambda entry: entry.event.reason, width_min=24, wrap=True),
    ]
    return render_table(columns, events, canvas)


def _time(entry: Recorded, canvas: Canvas) -> str:
    at = entry.event.at
    return timestamp(at) if canvas.width is None else clock_time(at, canvas.now)


def render_event(entry: Recorded, canvas: Canvas) -> str:
    """Return one event of a stream, in fixed columns: later events are not known yet."""
    about_width = 20 if canvas.width is not None and canvas.width < 120 else 26
    columns: list[Column[Recorded]] = [
        Column(" " * 8, lambda entry: _time(entry, canvas)),
        Column(" " * about_width, ABOUT.value),
        Column(" " * 16, EVENT.value),
        Column("", lambda entry: entry.event.reason, width_min=24, wrap=True),
    ]
    return render_table(columns, [entry], canvas).partition("\n")[2]


def render_recent(events: Sequence[Recorded], canvas: Canvas) -> str:
    """Return events newest first, with ages instead of times."""
    columns: list[Column[Recorded]] = [
        Column("Recently", lambda entry: age(entry.event.at, canvas.now)),
        ABOUT,
        EVENT,
        # The status screen has no room to wrap reasons.
        Column("Reason", lambda entry: entry.event.reason, width_min=32),
    ]
    return render_table(columns, sorted(events, key=lambda entry: -entry.number), canvas)


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
