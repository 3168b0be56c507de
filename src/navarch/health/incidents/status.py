"""The state of an open incident: what is being done about it, and when it is over.

The state follows from the incident's nodes and their recoveries alone, so it is the same after a
restart.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from navarch.core.event import Event, about
from navarch.core.ids import NodeId, RecoveryId
from navarch.core.incident import SILENCE, Incident, IncidentState
from navarch.core.node import Node
from navarch.core.records import evolve
from navarch.core.recovery import Recovery, RecoveryState

_ACTED_ON = (IncidentState.RECOVERING, IncidentState.HELD)

_NO_RECOVERIES: Mapping[RecoveryId, Recovery] = {}


def quiet_at(incident: Incident) -> datetime:
    """Return when a burst is over unless another symptom is seen."""
    return incident.last_at + SILENCE


def update_incident(
    incident: Incident,
    nodes: Mapping[NodeId, Node],
    recoveries: Mapping[RecoveryId, Recovery],
    *,
    now: datetime,
) -> tuple[Incident, Event] | None:
    """Return an open incident in its current state with the event to journal; None if unchanged."""
    there = (nodes.get(name) for name in incident.nodes)
    present = [node for node in there if node is not None and not node.gone]
    # An incident without a live node is over, whatever its state was.
    current = with_current_state(incident, present, recoveries) if present else incident
    closed = close_if_over(current, present, recoveries, now=now)
    if closed is None and current is incident:
        return None
    after = closed or current
    because = [about("node", after.node)]
    facts = {"kind": str(after.kind), "state": str(after.state)}
    if closed is None:
        facts["recovery"] = after.recovery
        if after.recovery:
            because.append(about("recovery", after.recovery))
    return after, Event(
        at=now,
        about=about("incident", after.id),
        kind="incident.closed" if closed else f"incident.{after.state}",
        reason=after.note if closed else describe_state(after, nodes),
        because=tuple(because),
        facts=facts,
    )


def with_current_state(
    incident: Incident,
    present: Iterable[Node],
    recoveries: Mapping[RecoveryId, Recovery],
) -> Incident:
    """Return an open incident with its current state and recovery.

    `present` are its live nodes. Returns the same object if nothing changed.
    """
    checks = {symptom.check for symptom in incident.symptoms}
    is_recovering = is_held = False
    recovery = incident.recovery
    for node in present:
        ongoing = recoveries.get(node.recovery) if node.recovery is not None else None
        is_seen = any(condition.check in checks for condition in node.conditions)
        if ongoing is not None and not ongoing.over and (is_seen or ongoing.check in checks):
            recovery = ongoing.id
            is_recovering = True
        elif not is_seen:
            continue
        elif node.retiring is not None and not node.retiring.surplus:
            is_recovering = True
        elif node.held is not None and not node.held.released:
            is_held = True
    state = IncidentState.RECOVERING if is_recovering else IncidentState.OPEN
    if is_held:
        # An operator has to look at held nodes, so they decide the state of the whole incident.
        state = IncidentState.HELD
    if state is incident.state and recovery == incident.recovery:
        return incident
    return evolve(incident, state=state, recovery=recovery)


def close_if_over(
    incident: Incident,
    present: Collection[Node],
    recoveries: Mapping[RecoveryId, Recovery] = _NO_RECOVERIES,
    *,
    now: datetime,
) -> Incident | None:
    """Return the closed incident if it is over, else None.

    `present` are its live nodes. An incident stays open while one of them has a condition of its
    checks: silence does not prove that a GPU that fell off the bus is back.
    """
    checks = {symptom.check for symptom in incident.symptoms}
    is_seen = any(condition.check in checks for node in present for condition in node.conditions)
    recovery = recoveries.get(RecoveryId(incident.recovery)) if incident.recovery else None
    if not present:
        why = "its node is gone"
    elif incident.state in _ACTED_ON or is_seen:
        return None
    elif recovery is not None and recovery.state is RecoveryState.SUCCEEDED:
        why = f"mended: {recovery.history[-1].outcome}" if recovery.history else "mended"
    elif now < quiet_at(incident):
        return None
    else:
        why = f"no further symptom for {SILENCE.total_seconds():.0f} s"
    note = f"{incident.note}; {why}" if incident.note else why
    return evolve(incident, state=IncidentState.RESOLVED, closed_at=now, note=note)


def incident_inputs(node: Node) -> object:
    """Return the part of `node` that determines the state of its incidents.

    The progress of a drain or termination is not part of it.
    """
    checks = [condition.check for condition in node.conditions]
    return node.gone, checks, node.recovery, node.retiring, node.held


def link_recoveries(
    incidents: Iterable[Incident], recoveries: Mapping[RecoveryId, Recovery]
) -> list[Recovery]:
    """Return the recoveries of `incidents` that lacked their incident's id, with it."""
    found: dict[RecoveryId, Recovery] = {}
    for incident in incidents:
        recovery = recoveries.get(RecoveryId(incident.recovery)) if incident.recovery else None
        if recovery is None or recovery.incident:
            continue
        if any(symptom.check == recovery.check for symptom in incident.symptoms):
            found[recovery.id] = evolve(recovery, incident=incident.id)
    return list(found.values())


def describe_state(incident: Incident, nodes: Mapping[NodeId, Node]) -> str:
    """Return why an incident is in its state, for operators."""
    present = [nodes[name] for name in incident.nodes if name in nodes]
    if incident.state is IncidentState.HELD:
        held = next((n.held for n in present if n.held is not None and not n.held.released), None)
        return f"held back: {held.because}" if held is not None else "held back"
    if incident.state is IncidentState.RECOVERING:
        leaving = next((node for node in present if node.retiring is not None), None)
        if leaving is not None and not leaving.recovery:
            return f"{leaving.id} is being replaced"
        return f"being mended: {incident.recovery}"
    return "nothing is being done about it"
