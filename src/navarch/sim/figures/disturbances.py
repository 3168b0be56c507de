"""Disturbances: sound nodes that automation acted on, and those that were replaced as planned."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.disruption import Cause
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.sim.figures.timeline import GroundTruth, InjectedFault, NodeTimeline

REPORT_DELAY_MAX = timedelta(minutes=5)
"""For this long after a fault has cleared, a report about it may still arrive."""

_PLANNED = (
    *(f"{cause}:" for cause in (Cause.EXPIRED, Cause.DRIFTED, Cause.COSTLY, Cause.MAINTENANCE)),
    "is in block ",
)
"""How the reasons begin for which a sound node is replaced as its pool is configured."""

_CLOSED = f"automatic: {Cause.MAINTENANCE}:"
"""How the reason begins for which a node gets no new work before its maintenance."""

_ACTIONS = frozenset({"node.cordoned", "node.draining", "node.recovering", "node.retiring"})
_REMOVALS = frozenset({"node.retiring", "node.terminating"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbances:
    """The numbers of sound nodes that were disturbed."""

    acted_on: int = 0
    """Taken out of service, cordoned, drained, repaired or removed automatically."""
    destroyed: int = 0
    """Removed automatically, although the machine itself had no fault."""
    planned: int = 0
    """Replaced for their age, drift, price or maintenance."""


def count_disturbances(
    timelines: Mapping[NodeId, NodeTimeline], truth: GroundTruth
) -> Disturbances:
    """Return how many sound nodes were disturbed; each counts once.

    A fault explains what is done until shortly after it has cleared, and a request of an operator
    or of the provider what is done while it lasts. A smaller pool explains a removal. A network
    failure between a machine and the control plane explains nothing, and a fault of the software
    does not explain the removal of a machine.
    """
    faults: dict[NodeId, list[InjectedFault]] = {}
    for fault in truth.faults:
        if fault.true_health is not Health.HEALTHY:
            faults.setdefault(fault.node, []).append(fault)
    acted_on = destroyed = planned = 0
    for node, timeline in timelines.items():
        known = faults.get(node, [])
        moments = list(_unrequested(timeline, truth))
        acted_on += any(not _explained(at, known) for at, _ in moments)
        in_machine = [fault for fault in known if fault.in_machine]
        destroyed += any(
            kind in _REMOVALS and not _explained(at, in_machine) for at, kind in moments
        )
        planned += _planned_at(timeline) is not None
    return Disturbances(acted_on=acted_on, destroyed=destroyed, planned=planned)


def _unrequested(timeline: NodeTimeline, truth: GroundTruth) -> Iterator[tuple[datetime, str]]:
    """Yield what was done to a registered node without a request: its time and kind of event."""
    planned_at = _planned_at(timeline)
    requests = truth.requested_outages.get(timeline.node, ())
    retiring = serving = False
    for at, kind, reason, state in timeline.changes:
        left, serving = serving and not state.serving, state.serving
        if kind == "node.cordoned" and reason.startswith(_CLOSED):
            continue
        # What follows from the decision to remove a node is no decision of its own.
        decided = kind in _ACTIONS and not retiring
        retiring = state.retiring
        if not (left or decided) or not state.registered or state.surplus:
            continue
        if planned_at is not None and at >= planned_at:
            continue
        if not any(request.active(at) for request in requests):
            yield at, kind


def _planned_at(timeline: NodeTimeline) -> datetime | None:
    """Return when the node was removed for a planned reason; None if it was not."""
    for at, kind, reason, _ in timeline.changes:
        if kind == "node.retiring":
            return at if reason.startswith(_PLANNED) else None
    return None


def _explained(at: datetime, faults: list[InjectedFault]) -> bool:
    """Return whether a fault explains an action at a moment."""
    return any(
        fault.at <= at and (fault.cleared_at is None or at <= fault.cleared_at + REPORT_DELAY_MAX)
        for fault in faults
    )
