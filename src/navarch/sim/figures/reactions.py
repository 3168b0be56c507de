"""Reactions to faults: time to detect, cordon and replace."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.sim.figures.timeline import GroundTruth, InjectedFault, NodeTimeline


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationStats:
    """The count and percentiles of durations in seconds; None if there are none."""

    count: int = 0
    p50_s: float | None = None
    p95_s: float | None = None
    max_s: float | None = None


def duration_stats(seconds: Iterable[float]) -> DurationStats:
    """Return the statistics of `seconds`, with percentiles by nearest rank."""
    known = sorted(seconds)
    if not known:
        return DurationStats()
    return DurationStats(
        count=len(known),
        p50_s=_percentile(known, 0.5),
        p95_s=_percentile(known, 0.95),
        max_s=known[-1],
    )


def _percentile(known: list[float], share: float) -> float:
    return round(known[max(math.ceil(share * len(known)) - 1, 0)], 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reactions:
    """The reactions to all faults of a run."""

    detection: DurationStats
    cordon: DurationStats
    replacement: DurationStats
    undetected: int
    """Machines that were broken at the end of the run and never judged bad."""


def measure_reactions(timelines: Mapping[NodeId, NodeTimeline], truth: GroundTruth) -> Reactions:
    """Return the reaction times to each first fault of a sound machine."""
    detected, cordoned, replaced = [], [], []
    undetected = 0
    successors = {each.replaces: each for each in timelines.values() if each.replaces is not None}
    for old, new in truth.replaced_by.items():
        if new in timelines:
            successors[old] = timelines[new]
    for fault in first_faults(truth):
        timeline = timelines.get(fault.node)
        noticed = timeline.first_detection(fault.at) if timeline else None
        if noticed is None or _already_cleared(fault, noticed):
            undetected += fault.cleared_at is None
            continue
        detected.append((noticed - fault.at).total_seconds())
        assert timeline is not None
        if fault.true_health is not Health.UNHEALTHY:
            continue
        left = timeline.first(fault.at, serving=False)
        if left is not None and not _already_cleared(fault, left):
            cordoned.append((left - fault.at).total_seconds())
        successor = successors.get(fault.node)
        ready = successor.first(fault.at, serving=True) if successor else None
        if ready is not None:
            replaced.append((ready - fault.at).total_seconds())
    return Reactions(
        detection=duration_stats(detected),
        cordon=duration_stats(cordoned),
        replacement=duration_stats(replaced),
        undetected=undetected,
    )


def first_faults(truth: GroundTruth) -> Iterator[InjectedFault]:
    """Yield the faults of sound machines. A further fault of a broken machine is not detected."""
    broken: dict[NodeId, list[InjectedFault]] = {}
    for fault in sorted(truth.faults, key=lambda x: (x.at, x.node)):
        if fault.true_health is Health.HEALTHY:
            continue
        earlier = broken.setdefault(fault.node, [])
        if not any(other.active(fault.at) for other in earlier):
            yield fault
        earlier.append(fault)


def _already_cleared(fault: InjectedFault, at: datetime) -> bool:
    """Return whether the fault had cleared, so that the reaction has another cause."""
    return fault.cleared_at is not None and at > fault.cleared_at
