"""Incidents, as a table and one by one."""

from collections.abc import Iterator, Sequence

from navarch.cli.render.canvas import Canvas
from navarch.cli.render.formatting import age, printable, timestamp, title, wrap_text
from navarch.cli.render.table import Cell, Column, render_table
from navarch.core.incident import Incident, IncidentState, Symptom
from navarch.ports.held import HeldNode

COLUMNS = (
    Column(name="Incident"),
    Column(name="Node", rank=1),
    Column(name="Kind", rank=3),
    Column(name="State"),
    Column(name="GPUs", rank=4, right=True),
    Column(name="Opened", rank=2),
    Column(name="Action", rank=5),
    Column(name="What", width_min=20),
)

SYMPTOM_COLUMNS = (
    Column(name="First seen"),
    Column(name="Times", right=True),
    Column(name="Check", rank=2),
    Column(name="What", width_min=20, wrap=True),
)

INDENT = 13
HELD_MAX = 5

NOTHING = "No incidents found"

_COLORS = {
    IncidentState.OPEN: "red",
    IncidentState.HELD: "red",
    IncidentState.RECOVERING: "yellow",
    IncidentState.RESOLVED: "green",
}


def render_incidents(incidents: Sequence[Incident], canvas: Canvas) -> str:
    """Return the table that `navarch incident list` prints."""
    if not incidents:
        return NOTHING
    return render_table(COLUMNS, [_row(incident, canvas) for incident in incidents], canvas)


def _row(incident: Incident, canvas: Canvas) -> list[Cell | str]:
    return [
        incident.id,
        _where(incident),
        title(incident.kind),
        Cell(title(incident.state), _COLORS[incident.state]),
        str(len(incident.gpus) or ""),
        age(incident.opened_at, canvas.now),
        _words(incident.action),
        incident.title,
    ]


def render_incident(incident: Incident, canvas: Canvas, waiting: Sequence[HeldNode] = ()) -> str:
    """Return what `navarch incident get` prints, including held-back actions."""
    lines = [
        line
        for name, word in (*_facts(incident, canvas), *_held(incident, waiting))
        if word
        for line in _fact(name, printable(word), canvas.width)
    ]
    rows = [_symptom(symptom, incident) for symptom in incident.symptoms]
    return "\n".join([*lines, "", render_table(SYMPTOM_COLUMNS, rows, canvas)])


def _fact(name: str, word: str, width: int | None) -> list[str]:
    first, *rest = wrap_text(word, width, INDENT)
    return [f"{name + ':':<{INDENT}}{first}", *(f"{'':<{INDENT}}{line}" for line in rest)]


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
    yield "Opened", f"{timestamp(incident.opened_at)} UTC ({age(incident.opened_at, canvas.now)})"
    yield "Last seen", f"{timestamp(incident.last_at)} UTC ({age(incident.last_at, canvas.now)})"
    if incident.closed_at is not None:
        yield (
            "Closed",
            f"{timestamp(incident.closed_at)} UTC ({age(incident.closed_at, canvas.now)})",
        )
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


def _symptom(symptom: Symptom, incident: Incident) -> list[Cell | str]:
    is_cause = (symptom.check, symptom.node) == (incident.check, incident.node)
    return [
        f"{symptom.first_at:%H:%M:%S.%f}"[:-3],
        str(symptom.count),
        f"{symptom.check} (cause)" if is_cause else symptom.check,
        symptom.reason,
    ]


def _where(incident: Incident) -> str:
    more = len(incident.nodes) - 1
    return f"{incident.node} +{more}" if more > 0 else str(incident.node)


def _words(action: str) -> str:
    return action.replace("_", " ")
