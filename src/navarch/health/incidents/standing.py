"""What is being done about an incident: as its nodes and their recoveries say."""

from collections.abc import Iterable, Mapping
from operator import attrgetter

from navarch.core.evolve import evolve
from navarch.core.ids import NodeId, RecoveryId
from navarch.core.incident import HELD, OPEN, RECOVERING, Incident
from navarch.core.node import GONE, Node
from navarch.core.recovery import Recovery

check_of = attrgetter("check")
"""Returns what has found a symptom, or a condition."""


def standing(
    incident: Incident,
    there: Iterable[Node],
    recoveries: Mapping[RecoveryId, Recovery],
) -> Incident:
    """Return an open incident as it stands: with its recovery, if it has one, and its state.

    `there` are those of its nodes that are still there. The same incident is returned if it stands
    as it says. Nothing is remembered here that the nodes do not know, so a restart comes to the
    same answer.
    """
    checks = set(map(check_of, incident.symptoms))
    is_mended = is_held = False
    recovery = incident.recovery
    for node in there:
        mending = recoveries.get(node.recovery) if node.recovery is not None else None
        is_seen = not checks.isdisjoint(map(check_of, node.conditions))
        if mending is not None and not mending.over and (is_seen or mending.check in checks):
            recovery = mending.id
            is_mended = True
        elif not is_seen:
            continue
        elif node.retiring is not None and not node.retiring.surplus:
            is_mended = True
        elif node.held is not None and not node.held.released:
            is_held = True
    state = RECOVERING if is_mended else OPEN
    if is_held:
        # Of several nodes, those that wait are what somebody should look at.
        state = HELD
    if state is incident.state and recovery == incident.recovery:
        return incident
    return evolve(incident, state=state, recovery=recovery)


def still_there(incident: Incident, nodes: Mapping[NodeId, Node]) -> list[Node]:
    """Return the nodes of an incident that are not gone."""
    found: list[Node] = []
    for name in incident.nodes:
        node = nodes.get(name)
        if node is not None and node.phase is not GONE:
            found.append(node)
    return found


def seen_by_incidents(node: Node) -> object:
    """Return what incidents look at in `node`: where nothing of it changes, they stand as before.

    How far it has come on its way out, and who was told of that, is not in it.
    """
    checks = [*map(check_of, node.conditions)]
    return node.phase is GONE, checks, node.recovery, node.retiring, node.held


def linked(
    incidents: Iterable[Incident], recoveries: Mapping[RecoveryId, Recovery]
) -> list[Recovery]:
    """Return the recoveries that do not name their incident yet, with its name."""
    found: dict[RecoveryId, Recovery] = {}
    for incident in incidents:
        recovery = recoveries.get(RecoveryId(incident.recovery)) if incident.recovery else None
        if recovery is None or recovery.incident:
            continue
        if any(symptom.check == recovery.check for symptom in incident.symptoms):
            found[recovery.id] = evolve(recovery, incident=incident.id)
    return list(found.values())


def words(incident: Incident, nodes: Mapping[NodeId, Node]) -> str:
    """Return why an incident stands as it does, for people."""
    there = [nodes[name] for name in incident.nodes if name in nodes]
    if incident.state is HELD:
        held = next((n.held for n in there if n.held is not None and not n.held.released), None)
        return f"held back: {held.because}" if held is not None else "held back"
    if incident.state is RECOVERING:
        for node in there:
            if node.retiring is not None:
                if node.recovery:
                    break
                return f"{node.id} is being replaced"
        return f"being mended: {incident.recovery}"
    return "nothing is being done about it"
