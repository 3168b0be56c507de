"""Reactions: how soon a broken machine was found, taken out of service and replaced."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.sim.figures.career import Career
from navarch.sim.figures.spread import Spread, spread_of
from navarch.sim.figures.truth import Injury, Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Reactions:
    """What became of all that was broken."""

    detection: Spread
    cordon: Spread
    replacement: Spread
    undetected: int
    """Machines that were broken for as long as they were watched, and nobody noticed."""


def react(careers: Mapping[NodeId, Career], truth: Truth) -> Reactions:
    """Return how soon the system reacted to each first injury of a machine that was sound."""
    found, out, back = [], [], []
    undetected = 0
    successors = _successors(careers, truth)
    for injury in first_injuries(truth):
        career = careers.get(injury.node)
        noticed = career.found(injury.at) if career else None
        if noticed is None or _too_late(injury, noticed):
            undetected += injury.over is None
            continue
        found.append((noticed - injury.at).total_seconds())
        assert career is not None
        if injury.harm is not Health.UNHEALTHY:
            continue
        left = career.first(injury.at, serving=False)
        if left is not None and not _too_late(injury, left):
            out.append((left - injury.at).total_seconds())
        successor = successors.get(injury.node)
        ready = successor.first(injury.at, serving=True) if successor else None
        if ready is not None:
            back.append((ready - injury.at).total_seconds())
    return Reactions(
        detection=spread_of(found),
        cordon=spread_of(out),
        replacement=spread_of(back),
        undetected=undetected,
    )


def first_injuries(truth: Truth) -> Iterator[Injury]:
    """Yield what broke machines that were sound: a second injury on top is not found again."""
    broken: dict[NodeId, list[Injury]] = {}
    for injury in sorted(truth.injuries, key=lambda x: (x.at, x.node)):
        if injury.harm is Health.HEALTHY:
            continue
        earlier = broken.setdefault(injury.node, [])
        if not any(other.holds(injury.at) for other in earlier):
            yield injury
        earlier.append(injury)


def _too_late(injury: Injury, at: datetime) -> bool:
    """Return whether the machine was mended before the system moved: that was something else."""
    return injury.over is not None and at > injury.over


def _successors(careers: Mapping[NodeId, Career], truth: Truth) -> dict[NodeId, Career]:
    found = {career.replaces: career for career in careers.values() if career.replaces is not None}
    for old, new in truth.exchanged.items():
        if new in careers:
            found[old] = careers[new]
    return found
