"""False cordons: sound machines that were taken out of service."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.sim.figures.career import Career
from navarch.sim.figures.truth import Injury, Truth

AFTERMATH = timedelta(minutes=5)
"""A report about a machine that has just been mended may still be on its way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FalseCordon:
    """One of them."""

    node: NodeId
    at: datetime
    reason: str


def false_cordons(careers: Mapping[NodeId, Career], truth: Truth) -> list[FalseCordon]:
    """Return every departure from service for which the machine gave no reason.

    A pool that wants fewer nodes, an operator's order and a machine that somebody took
    away are reasons; a network that failed between the machine and us is not.
    """
    injuries: dict[NodeId, list[Injury]] = {}
    for injury in truth.injuries:
        if injury.harm is not Health.HEALTHY:
            injuries.setdefault(injury.node, []).append(injury)
    return list(_all(careers, injuries, truth))


def _all(
    careers: Mapping[NodeId, Career], injuries: Mapping[NodeId, list[Injury]], truth: Truth
) -> Iterator[FalseCordon]:
    for career in careers.values():
        orders = truth.asked_out.get(career.node, ())
        for at, _, reason, stands in career.departures():
            if stands.surplus or any(order.holds(at) for order in orders):
                continue
            if any(_explains(injury, at) for injury in injuries.get(career.node, ())):
                continue
            yield FalseCordon(node=career.node, at=at, reason=reason)


def _explains(injury: Injury, at: datetime) -> bool:
    return injury.at <= at and (injury.over is None or at <= injury.over + AFTERMATH)
