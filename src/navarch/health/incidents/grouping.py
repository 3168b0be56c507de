"""Grouping: which incident a finding belongs to, and how it changes the incident.

Application faults are grouped by process (boot and pid), other faults by device, and fabric faults
by NVLink domain, until no symptom has been seen for three minutes. An error that is only a symptom
of another joins the incident of that other error.
"""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import timedelta
from operator import attrgetter
from typing import TypeVar

from navarch.core.ids import IncidentId
from navarch.core.incident import SILENCE, Incident, IncidentKind, IncidentState, Symptom
from navarch.core.limits import INCIDENTS_PER_NODE
from navarch.core.records import evolve
from navarch.health.incidents.finding import Finding, rank_of
from navarch.health.xid.catalogue import Action, strongest

T = TypeVar("T", bound=str)

SETTLING = timedelta(seconds=5)
"""How long after its consequences a cause may be reported."""

SYMPTOMS_MAX = 64
"""The most symptoms that an incident keeps. Later ones are counted with the last."""

TITLE_MAX = 200

COUNT_MAX = 1_000_000_000
"""The highest count of a symptom: agents choose it, and every API must be able to carry it."""

NAMES_MAX = 1024
"""The most nodes, GPUs and slots that an incident names."""

OFF_THE_BUS = "79"

_DEVICES = frozenset({IncidentKind.HARDWARE, IncidentKind.FABRIC})


def group(incidents: Iterable[Incident], findings: Iterable[Finding]) -> list[Incident]:
    """Return the incidents that `findings` open or change, given the open incidents.

    An incident that turns out to be part of another is closed with a note. Provider notices open no
    incident: a reclaimed machine is not broken.
    """
    faults = [finding for finding in findings if not finding.is_notice]
    faults.sort(key=attrgetter("at", "rank", "result.check"))
    known = {incident.id: incident for incident in incidents if incident.is_open}
    changed: dict[IncidentId, None] = {}
    for finding in faults:
        found = _find_incident(list(known.values()), finding)
        if found is None and not finding.opens:
            continue
        found = found or _overflow(known.values(), finding)
        extended = _extended(found or _empty_incident(finding), finding)
        changed[extended.id] = None
        is_crash = finding.kind is IncidentKind.APPLICATION
        if found is not None and found.kind is IncidentKind.APPLICATION and not is_crash:
            # What looked like application faults were symptoms of the device's fault.
            for part in _recent_application_faults(known.values(), finding):
                if part.id == found.id:
                    continue
                extended = _merged(extended, part)
                end, note = max(finding.at, part.last_at), f"part of {extended.id}"
                resolved = IncidentState.RESOLVED
                known[part.id] = evolve(part, state=resolved, closed_at=end, note=note)
                changed[part.id] = None
        known[extended.id] = extended
    return [known[name] for name in changed]


def _find_incident(known: Sequence[Incident], finding: Finding) -> Incident | None:
    """Return the incident that a finding belongs to, if there is one."""
    kind, boot_id = finding.kind, finding.node.boot_id
    here = [incident for incident in known if finding.node.id in incident.nodes]
    # Open incidents of the device count regardless of age: it has not been repaired since.
    covering = [
        incident
        for incident in here
        if incident.kind in _DEVICES
        and incident.boot_id == boot_id
        and (not finding.gpu or finding.gpu in incident.gpus or not incident.gpus)
    ]
    programs = _recent_application_faults(here, finding)
    if kind is IncidentKind.APPLICATION:
        of_process = (
            incident
            for incident in here
            if incident.kind is kind
            and finding.pid
            and (incident.pid, incident.boot_id) == (finding.pid, boot_id)
            and _is_recent(incident, finding)
        )
        return (
            _first(of_process)
            # A process that dies while its device fails is part of the device's incident.
            or _first(i for i in covering if _is_recent(i, finding))
            # The process is unknown on one side.
            or _first(i for i in programs if not (i.pid and finding.pid))
        )
    if kind is IncidentKind.FABRIC:
        return (
            _first(covering)
            # When a GPU falls off the bus, its peers lose their links.
            or _first(
                i
                for i in here
                if i.code == OFF_THE_BUS and abs(finding.at - i.opened_at) <= SETTLING
            )
            or _first(i for i in known if i.kind is kind and i.domain == finding.domain)
            or _first(programs)
        )
    if kind is IncidentKind.HARDWARE:
        return _first(covering) or _first(programs)
    return _first(i for i in here if i.kind is kind and i.check == finding.result.check)


def _overflow(known: Iterable[Incident], finding: Finding) -> Incident | None:
    """Return the incident for the findings of a node that may open no more of them.

    It is the latest that the node itself opened: an incident of others must not be changed by what
    one node reports without end.
    """
    opened = [incident for incident in known if incident.node == finding.node.id]
    if len(opened) < INCIDENTS_PER_NODE.most:
        return None
    return max(opened, key=attrgetter("opened_at", "id"))


def _times(text: str) -> int:
    """Return how often an event was seen, as the agent counts it."""
    is_number = text.isascii() and text.isdecimal()
    return min(int(text[:10]), COUNT_MAX) if is_number else 1


def _recent_application_faults(known: Iterable[Incident], finding: Finding) -> Sequence[Incident]:
    """Return incidents that just looked like application faults on the finding's device."""
    return [
        incident
        for incident in known
        if incident.kind is IncidentKind.APPLICATION
        and finding.node.id in incident.nodes
        and finding.gpu in incident.gpus
        # A late or repeated report may lie within the incident's time.
        and incident.opened_at - SETTLING <= finding.at <= incident.last_at + SETTLING
    ]


def _is_recent(incident: Incident, finding: Finding) -> bool:
    return incident.opened_at - SILENCE <= finding.at <= incident.last_at + SILENCE


def _first(incidents: Iterable[Incident]) -> Incident | None:
    return min(incidents, key=attrgetter("opened_at", "id"), default=None)


def _empty_incident(finding: Finding) -> Incident:
    node, place = finding.node, finding.node.place
    # The id is derived from the finding, so that a repeated report opens no second incident.
    parts = (node.id, node.boot_id, finding.result.check, finding.pid, finding.at.isoformat())
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return Incident(
        id=IncidentId(f"inc-{digest[:12]}"),
        kind=finding.kind,
        node=node.id,
        pool=node.pool,
        host=node.host,
        provider=str(place.provider) if place else "",
        instance_type=place.instance_type if place else "",
        boot_id=node.boot_id,
        opened_at=finding.at,
        last_at=finding.at,
        title="",
        check="",
    )


def _extended(incident: Incident, finding: Finding) -> Incident:
    kind, result, at = incident.kind, finding.result, finding.at
    # An error code is more specific than a check that measured a deviation.
    is_vague = kind is IncidentKind.HARDWARE and not incident.code and bool(finding.code)
    if finding.kind in _DEVICES and (kind is IncidentKind.APPLICATION or is_vague):
        kind = finding.kind
    is_program = kind is IncidentKind.APPLICATION
    symptom = Symptom(
        check=result.check,
        code=finding.code,
        node=finding.node.id,
        gpu=finding.gpu,
        reason=result.reason,
        action=result.action,
        rule=result.facts.get("rule", ""),
        first_at=at,
        last_at=at,
        count=_times(result.facts.get("times", "")),
    )
    return _with_cause(
        evolve(
            incident,
            kind=kind,
            nodes=_with(incident.nodes, finding.node.id),
            gpus=_with(incident.gpus, finding.gpu),
            slots=_with(incident.slots, finding.slot),
            domain=incident.domain or (finding.domain if kind is IncidentKind.FABRIC else ""),
            pid=(incident.pid or finding.pid) if is_program else "",
            process=(incident.process or result.facts.get("process", "")) if is_program else "",
            opened_at=min(incident.opened_at, at),
            last_at=max(incident.last_at, at),
            symptoms=_with_symptom(incident.symptoms, symptom),
        )
    )


def _merged(incident: Incident, part: Incident) -> Incident:
    symptoms = incident.symptoms
    for symptom in part.symptoms:
        symptoms = _with_symptom(symptoms, symptom)
    return _with_cause(
        evolve(
            incident,
            symptoms=symptoms,
            opened_at=min(incident.opened_at, part.opened_at),
            last_at=max(incident.last_at, part.last_at),
        )
    )


def _with_cause(incident: Incident) -> Incident:
    """Return the incident with its cause chosen, and the strongest action of its symptoms."""
    cause = min(
        incident.symptoms, key=lambda s: (rank_of(s.code, s.reason), s.first_at, s.node, s.check)
    )
    actions = [Action(s.action) for s in incident.symptoms if s.action in _ACTIONS]
    return evolve(
        incident,
        node=cause.node,
        check=cause.check,
        code=cause.code,
        title=cause.reason[:TITLE_MAX],
        action=str(strongest(*actions)) if actions else "",
    )


_ACTIONS = frozenset(str(action) for action in Action)


def _with_symptom(symptoms: tuple[Symptom, ...], new: Symptom) -> tuple[Symptom, ...]:
    for index, seen in enumerate(symptoms):
        if (seen.node, seen.check) == (new.node, new.check):
            again = evolve(
                new,
                first_at=min(seen.first_at, new.first_at),
                last_at=max(seen.last_at, new.last_at),
                # Another source reported the same event; do not count it twice.
                count=seen.count if new.last_at == seen.last_at else _sum(seen.count, new.count),
            )
            return (*symptoms[:index], again, *symptoms[index + 1 :])
    if len(symptoms) < SYMPTOMS_MAX:
        return (*symptoms, new)
    last = symptoms[-1]
    return (*symptoms[:-1], evolve(last, count=_sum(last.count, new.count), last_at=new.last_at))


def _sum(one: int, other: int) -> int:
    return min(one + other, COUNT_MAX)


def _with(names: tuple[T, ...], name: T) -> tuple[T, ...]:
    is_full = len(names) >= NAMES_MAX
    return names if not name or is_full or name in names else (*names, name)
