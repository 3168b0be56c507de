"""What becomes of an open incident, and how that is told."""

from collections.abc import Mapping
from datetime import datetime

from navarch.core.event import Event, about
from navarch.core.ids import NodeId, RecoveryId
from navarch.core.incident import RESOLVED, Incident
from navarch.core.node import Node
from navarch.core.recovery import Recovery
from navarch.health.incidents.ending import ended
from navarch.health.incidents.standing import standing, still_there, words


def settled(
    incident: Incident,
    nodes: Mapping[NodeId, Node],
    recoveries: Mapping[RecoveryId, Recovery],
    *,
    now: datetime,
) -> tuple[Incident, Event] | None:
    """Return an open incident as it should be by now, with its news; None if it is so already."""
    there = still_there(incident, nodes)
    # Where all its nodes are gone it is over, and how it stood without them is of no account.
    stands = standing(incident, there, recoveries) if there else incident
    after = ended(stands, there, recoveries, now=now)
    if after is not None:
        return after, _closed_event(after, now)
    if stands is not incident:
        return stands, _moved_event(stands, words(stands, nodes), now)
    return None


def _closed_event(incident: Incident, now: datetime) -> Event:
    return Event(
        at=now,
        about=about("incident", incident.id),
        kind="incident.closed",
        reason=incident.note,
        because=(about("node", incident.node),),
        facts={"kind": str(incident.kind), "state": str(RESOLVED)},
    )


def _moved_event(incident: Incident, reason: str, now: datetime) -> Event:
    because = [about("node", incident.node)]
    if incident.recovery:
        because.append(about("recovery", incident.recovery))
    return Event(
        at=now,
        about=about("incident", incident.id),
        kind=f"incident.{incident.state}",
        reason=reason,
        because=tuple(because),
        facts={
            "kind": str(incident.kind),
            "state": str(incident.state),
            "recovery": incident.recovery,
        },
    )
