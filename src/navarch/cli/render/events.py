"""The journal and incidents, as lines and tables."""

from collections.abc import Iterator, Sequence

from navarch.cli.render.table import (
    Canvas,
    Cell,
    Column,
    age,
    clock_time,
    printable,
    render_table,
    time_and_age,
    timestamp,
    title,
    wrap_text,
)
from navarch.core.event import Recorded
from navarch.core.incident import Incident, IncidentState, Symptom
from navarch.ports.fleet_health import HeldNode

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


INDENT = 13
HELD_MAX = 5

_COLORS = {
    IncidentState.OPEN: "red",
    IncidentState.HELD: "red",
    IncidentState.RECOVERING: "yellow",
    IncidentState.RESOLVED: "green",
}


def render_incidents(incidents: Sequence[Incident], canvas: Canvas) -> str:
    """Return the table that `navarch incident list` prints."""
    if not incidents:
        return "No incidents found"
    columns: list[Column[Incident]] = [
        Column("Incident", lambda incident: incident.id),
        Column("Node", _where, rank=1),
        Column("Kind", lambda incident: title(incident.kind), rank=3),
        Column("State", lambda incident: Cell(title(incident.state), _COLORS[incident.state])),
        Column("GPUs", lambda incident: str(len(incident.gpus) or ""), rank=4, right=True),
        Column("Opened", lambda incident: age(incident.opened_at, canvas.now), rank=2),
        Column("Action", lambda incident: _words(incident.action), rank=5),
        Column("What", lambda incident: incident.title, width_min=20),
    ]
    return render_table(columns, incidents, canvas)


def render_incident(incident: Incident, canvas: Canvas, waiting: Sequence[HeldNode] = ()) -> str:
    """Return what `navarch incident get` prints, including held-back actions."""
    lines = []
    for name, word in (*_facts(incident, canvas), *_held(incident, waiting)):
        if word:
            first, *rest = wrap_text(printable(word), canvas.width, INDENT)
            lines.append(f"{name + ':':<{INDENT}}{first}")
            lines += [f"{'':<{INDENT}}{line}" for line in rest]

    def check(symptom: Symptom) -> str:
        is_cause = (symptom.check, symptom.node) == (incident.check, incident.node)
        return f"{symptom.check} (cause)" if is_cause else symptom.check

    columns: list[Column[Symptom]] = [
        Column("First seen", lambda symptom: f"{symptom.first_at:%H:%M:%S.%f}"[:-3]),
        Column("Times", lambda symptom: str(symptom.count), right=True),
        Column("Check", check, rank=2),
        Column("What", lambda symptom: symptom.reason, width_min=20, wrap=True),
    ]
    return "\n".join([*lines, "", render_table(columns, incident.symptoms, canvas)])


def _facts(incident: Incident, canvas: Canvas) -> Iterator[tuple[str, str]]:
    yield "Incident", incident.id
    yield "What", incident.title
    yield "Kind", title(incident.kind)
    yield "State", title(incident.state)
    yield "Cause", f"{incident.check} on {incident.node}"
    yield "Action", _words(incident.action)
    yield "Nodes", ", ".join(incident.nodes)
    yield "Pool", incident.pool or ""
    yield "Domain", incident.domain
    yield "GPUs", ", ".join(incident.gpus)
    yield "Slots", ", ".join(incident.slots)
    yield "Host", incident.host
    yield "Process", f"{incident.process} ({incident.pid})" if incident.pid else ""
    yield "Boot", incident.boot_id
    yield "Opened", time_and_age(incident.opened_at, canvas.now)
    yield "Last seen", time_and_age(incident.last_at, canvas.now)
    yield "Closed", time_and_age(incident.closed_at, canvas.now)
    yield "Recovery", incident.recovery
    yield "Note", incident.note


def _held(incident: Incident, waiting: Sequence[HeldNode]) -> Iterator[tuple[str, str]]:
    """Yield the held actions, their reasons, and the command that releases them."""
    for each in waiting[:HELD_MAX]:
        yield "Held", f"{each.node}: {each.held.action}, because {each.held.because}"
    if len(waiting) > HELD_MAX:
        yield "Held", f"... and {len(waiting) - HELD_MAX} more: navarch held list"
    if any(each.held.releasable for each in waiting):
        yield "Release", f"navarch incident release {incident.id}"


def _where(incident: Incident) -> str:
    more = len(incident.nodes) - 1
    return f"{incident.node} +{more}" if more > 0 else str(incident.node)


def _words(action: str) -> str:
    return action.replace("_", " ")
