"""When an incident is over."""

from collections.abc import Collection, Mapping
from datetime import datetime

from navarch.core.evolve import evolve
from navarch.core.ids import RecoveryId
from navarch.core.incident import HELD, RECOVERING, RESOLVED, SILENCE, Incident
from navarch.core.node import Node
from navarch.core.recovery import Recovery, RecoveryState
from navarch.health.incidents.standing import check_of


def quiet_at(incident: Incident) -> datetime:
    """Return when a burst is over, if nothing more is seen of it."""
    return incident.last_at + SILENCE


_SEEN_TO = (RECOVERING, HELD)
"""The states in which somebody does something about it, or would."""

NONE_KNOWN: Mapping[RecoveryId, Recovery] = {}


def end_of(
    incident: Incident,
    there: Collection[Node],
    recoveries: Mapping[RecoveryId, Recovery] = NONE_KNOWN,
    *,
    now: datetime,
) -> str | None:
    """Return why an incident is over, or None if it is not.

    `there` are those of its nodes that are still there. It is not over while anything of it still
    stands as a condition of one of them: silence is no proof that a GPU that fell off the bus is
    back.
    """
    if not there:
        return "its node is gone"
    if incident.state in _SEEN_TO:
        return None
    checks = set(map(check_of, incident.symptoms))
    for node in there:
        if not checks.isdisjoint(map(check_of, node.conditions)):
            return None
    recovery = recoveries.get(RecoveryId(incident.recovery)) if incident.recovery else None
    if recovery is not None and recovery.state is RecoveryState.SUCCEEDED:
        return f"mended: {recovery.history[-1].outcome}" if recovery.history else "mended"
    if now < quiet_at(incident):
        return None
    return f"nothing seen of it for {SILENCE.total_seconds():.0f} s"


def ended(
    incident: Incident,
    there: Collection[Node],
    recoveries: Mapping[RecoveryId, Recovery] = NONE_KNOWN,
    *,
    now: datetime,
) -> Incident | None:
    """Return an incident that is over as it is put on file; None if it is not over."""
    why = end_of(incident, there, recoveries, now=now)
    if why is None:
        return None
    note = f"{incident.note}; {why}" if incident.note else why
    return evolve(incident, state=RESOLVED, closed_at=now, note=note)
