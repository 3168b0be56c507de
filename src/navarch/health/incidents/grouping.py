"""Grouping: which incident a finding belongs to, and how it changes the incident.

Application faults are grouped by process (boot and pid), other faults by device, and fabric faults
by NVLink domain, until no symptom has been seen for three minutes. An error that is only a symptom
of another joins the incident of that other error.
"""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from navarch.core.ids import IncidentId, NodeId
from navarch.core.incident import (
    SILENCE,
    Incident,
    IncidentKind,
    IncidentState,
    Symptom,
)
from navarch.core.records import evolve
from navarch.health.incidents.finding import Finding, rank_of
from navarch.health.xid.action import Action, strongest

T = TypeVar("T", bound=str)

SETTLING = timedelta(seconds=5)
"""How long after its consequences a cause may be reported."""

SYMPTOMS_MAX = 64
"""The most symptoms that an incident keeps. Later ones are counted with the last."""

TITLE_MAX = 200

OFF_THE_BUS = "79"

_DEVICES = frozenset({IncidentKind.HARDWARE, IncidentKind.FABRIC})


def group(incidents: Iterable[Incident], findings: Iterable[Finding]) -> list[Incident]:
    """Return the incidents that `findings` open or change, given the open incidents.

    An incident that turns out to be part of another is closed with a note. Provider notices open no
    incident: a reclaimed machine is not broken.
    """
    faults = [finding for finding in findings if not finding.is_notice]
    if len(faults) > 1:
        faults.sort(key=lambda f: (f.at, f.rank, f.result.check))
    known: dict[IncidentId, Incident] = {}
    for incident in incidents:
        if incident.is_open:
            known[incident.id] = incident
    changed: dict[IncidentId, None] = {}
    for finding in faults:
        for incident in _apply(list(known.values()), finding):
            known[incident.id] = incident
            changed[incident.id] = None
    return [known[name] for name in changed]


def _apply(known: Sequence[Incident], finding: Finding) -> list[Incident]:
    found = _find_incident(known, finding)
    if found is None:
        return [_new_incident(finding)] if finding.opens else []
    extended = _extended(found, finding)
    if found.kind is not IncidentKind.APPLICATION or finding.kind is IncidentKind.APPLICATION:
        return [extended]
    # What looked like an application fault was a symptom of the device's fault.
    others = [
        incident
        for incident in _recent_on_device(known, finding)
        if incident.id != found.id and incident.kind is IncidentKind.APPLICATION
    ]
    for other in others:
        extended = _merged(extended, other)
    return [extended, *(_closed_as_part(other, extended, finding.at) for other in others)]


def _find_incident(known: Sequence[Incident], finding: Finding) -> Incident | None:
    """Return the incident that a finding belongs to, if there is one."""
    if not known:
        return None
    here = [incident for incident in known if finding.node.id in incident.nodes]
    kind = finding.kind
    if kind is IncidentKind.APPLICATION:
        # A process that dies while its device fails is part of the device's incident.
        breaking = (i for i in _covering(here, finding) if _is_recent(i, finding))
        return (
            _first(_of_process(here, finding))
            or _first(breaking)
            or _first(_without_process(here, finding))
        )
    if kind is IncidentKind.FABRIC:
        fabric = (i for i in known if i.kind is IncidentKind.FABRIC and i.domain == finding.domain)
        return (
            _first(_covering(here, finding))
            or _first(_lost_peer(here, finding))
            or _first(fabric)
            or _first(_recent_application_faults(here, finding))
        )
    if kind is IncidentKind.HARDWARE:
        return _first(_covering(here, finding)) or _first(_recent_application_faults(here, finding))
    alike = (i for i in here if i.kind is kind and i.check == finding.result.check)
    return _first(alike)


def _of_process(here: Iterable[Incident], finding: Finding) -> Iterable[Incident]:
    """Yield recent incidents of the same process."""
    for incident in here:
        is_same = incident.pid == finding.pid and incident.boot_id == finding.node.boot_id
        if (
            finding.pid
            and is_same
            and incident.kind is IncidentKind.APPLICATION
            and _is_recent(incident, finding)
        ):
            yield incident


def _without_process(here: Iterable[Incident], finding: Finding) -> Iterable[Incident]:
    """Yield incidents just opened on the same GPU, if the process is unknown on one side."""
    for incident in _recent_on_device(list(here), finding):
        if incident.kind is IncidentKind.APPLICATION and not (incident.pid and finding.pid):
            yield incident


def _covering(here: Iterable[Incident], finding: Finding) -> Iterable[Incident]:
    """Yield incidents of the finding's device.

    Open incidents count regardless of age: the device has not been repaired since.
    """
    for incident in here:
        if incident.kind not in _DEVICES or incident.boot_id != finding.node.boot_id:
            continue
        if not finding.gpu or finding.gpu in incident.gpus or not incident.gpus:
            yield incident


def _lost_peer(here: Iterable[Incident], finding: Finding) -> Iterable[Incident]:
    """Yield incidents of a GPU that just fell off the bus: its peers lose their links."""
    for incident in here:
        if incident.code == OFF_THE_BUS and abs(finding.at - incident.opened_at) <= SETTLING:
            yield incident


def _recent_application_faults(here: Iterable[Incident], finding: Finding) -> Iterable[Incident]:
    """Yield incidents of the same device that just looked like application faults."""
    return (i for i in _recent_on_device(list(here), finding) if i.kind is IncidentKind.APPLICATION)


def _recent_on_device(known: Sequence[Incident], finding: Finding) -> list[Incident]:
    return [
        incident
        for incident in known
        if finding.node.id in incident.nodes
        and finding.gpu in incident.gpus
        # A late or repeated report may lie within the incident's time.
        and incident.opened_at - SETTLING <= finding.at <= incident.last_at + SETTLING
    ]


def _is_recent(incident: Incident, finding: Finding) -> bool:
    return incident.opened_at - SILENCE <= finding.at <= incident.last_at + SILENCE


def _first(incidents: Iterable[Incident]) -> Incident | None:
    return min(incidents, key=lambda i: (i.opened_at, i.id), default=None)


def _new_incident(finding: Finding) -> Incident:
    node, result, kind, at = finding.node, finding.result, finding.kind, finding.at
    place, slot = node.place, finding.slot
    is_program = kind is IncidentKind.APPLICATION
    symptom = _symptom(finding)
    gpu = symptom.gpu
    # The only symptom is the cause.
    return Incident(
        id=_name(finding),
        kind=kind,
        node=node.id,
        nodes=(node.id,),
        pool=node.pool,
        domain=finding.domain if kind is IncidentKind.FABRIC else "",
        gpus=(gpu,) if gpu else (),
        slots=(slot,) if slot else (),
        host=node.host,
        provider=str(place.provider) if place else "",
        instance_type=place.instance_type if place else "",
        boot_id=node.boot_id,
        pid=finding.pid if is_program else "",
        process=result.facts.get("process", "") if is_program else "",
        opened_at=at,
        last_at=at,
        title=result.reason[:TITLE_MAX],
        check=result.check,
        code=symptom.code,
        action=result.action if result.action in _ACTIONS else "",
        symptoms=(symptom,),
    )


def _extended(incident: Incident, finding: Finding) -> Incident:
    kind = _kind_after(incident, finding)
    is_program = kind is IncidentKind.APPLICATION
    return _with_cause(
        evolve(
            incident,
            kind=kind,
            nodes=_with(incident.nodes, finding.node.id),
            gpus=_with(incident.gpus, finding.gpu) if finding.gpu else incident.gpus,
            slots=_with(incident.slots, finding.slot) if finding.slot else incident.slots,
            domain=incident.domain or (finding.domain if kind is IncidentKind.FABRIC else ""),
            pid=(incident.pid or finding.pid) if is_program else "",
            process=(incident.process or finding.result.facts.get("process", ""))
            if is_program
            else "",
            opened_at=min(incident.opened_at, finding.at),
            last_at=max(incident.last_at, finding.at),
            symptoms=_with_symptom(incident.symptoms, _symptom(finding)),
        )
    )


def _kind_after(incident: Incident, finding: Finding) -> IncidentKind:
    """Return the kind of the incident with this finding added."""
    is_device = finding.kind in _DEVICES
    # An error code is more specific than a check that measured a deviation.
    is_vague = incident.kind is IncidentKind.HARDWARE and not incident.code and bool(finding.code)
    return (
        finding.kind
        if is_device and (incident.kind is IncidentKind.APPLICATION or is_vague)
        else incident.kind
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


def _closed_as_part(part: Incident, whole: Incident, at: datetime) -> Incident:
    return evolve(
        part,
        state=IncidentState.RESOLVED,
        closed_at=max(at, part.last_at),
        note=f"part of {whole.id}",
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


def _symptom(finding: Finding) -> Symptom:
    result, at = finding.result, finding.at
    times = result.facts.get("times", "")
    return Symptom(
        check=result.check,
        code=finding.code,
        node=finding.node.id,
        gpu=finding.gpu,
        reason=result.reason,
        action=result.action,
        rule=result.facts.get("rule", ""),
        first_at=at,
        last_at=at,
        count=int(times) if times.isascii() and times.isdecimal() else 1,
    )


def _with_symptom(symptoms: tuple[Symptom, ...], new: Symptom) -> tuple[Symptom, ...]:
    def key(symptom: Symptom) -> tuple[NodeId, str]:
        return symptom.node, symptom.check

    for index, seen in enumerate(symptoms):
        if key(seen) == key(new):
            again = evolve(
                new,
                first_at=min(seen.first_at, new.first_at),
                last_at=max(seen.last_at, new.last_at),
                # Another source reported the same event; do not count it twice.
                count=seen.count if new.last_at == seen.last_at else seen.count + new.count,
            )
            return (*symptoms[:index], again, *symptoms[index + 1 :])
    if len(symptoms) < SYMPTOMS_MAX:
        return (*symptoms, new)
    last = symptoms[-1]
    return (*symptoms[:-1], evolve(last, count=last.count + new.count, last_at=new.last_at))


def _with(names: tuple[T, ...], name: T) -> tuple[T, ...]:
    return names if name in names else (*names, name)


def _name(finding: Finding) -> IncidentId:
    """Return an id derived from the finding, so that a repeated report opens no second one."""
    parts = (
        str(finding.node.id),
        finding.node.boot_id,
        finding.result.check,
        finding.pid,
        finding.at.isoformat(),
    )
    return IncidentId("inc-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12])
