"""GPU-hours: what was wanted, what was delivered, what was lost and what was paid for nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.sim.figures.career import Career, Chronicle
from navarch.sim.figures.truth import Injury, Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHours:
    """Hours of single GPUs."""

    wanted: float = 0.0
    """What pools should have had, and machines that nobody here bought could have given."""
    delivered: float = 0.0
    """In service on sound machines, as far as it was wanted."""
    lost: float = 0.0
    """Wanted and not delivered: not there yet, out of service, or in service and broken."""
    paid: float = 0.0
    wasted: float = 0.0
    """Paid for and not in service on a sound machine: booting, broken, draining, leaked."""

    @property
    def availability(self) -> float | None:
        """The part of what was wanted that was delivered."""
        return self.delivered / self.wanted if self.wanted else None


_Steps = list[tuple[datetime, int]]
"""Changes of a number of GPUs."""


def count_hours(told: Chronicle, truth: Truth) -> GpuHours:
    """Return the GPU-hours between the beginning and the end of a run."""
    gpus = {lease.node: lease.gpus for lease in truth.leases}
    pool_of = {lease.node: lease.pool for lease in truth.leases}
    wanted = _wanted(told, truth)
    sound = _sound(told.careers, truth, gpus)
    had: dict[str, _Steps] = {}
    for node, steps in sound.items():
        had.setdefault(pool_of.get(node, ""), []).extend(steps)
    wanted_h = delivered_h = useful = 0.0
    for pool in sorted({*wanted, *had}):
        want, used, have = _integrate(wanted.get(pool, []), had.get(pool, []), truth)
        wanted_h += want
        delivered_h += used
        useful += have
    paid = sum([_length(lease.began, lease.ended, truth) * lease.gpus for lease in truth.leases])
    return GpuHours(
        wanted=round(wanted_h, 6),
        delivered=round(delivered_h, 6),
        lost=round(max(wanted_h - delivered_h, 0.0), 6),
        paid=round(paid, 6),
        wasted=round(max(paid - useful, 0.0), 6),
    )


def _wanted(told: Chronicle, truth: Truth) -> dict[str, _Steps]:
    """Return how many GPUs each pool should have had, as changes."""
    per_node = {lease.pool: lease.gpus for lease in truth.leases if lease.pool}
    steps: dict[str, _Steps] = {}
    sizes: dict[str, int] = {}
    for event in told.pools:
        pool = event.about[5:]
        size = event.facts.get("size")
        if size is None and event.kind != "pool.deleted":
            continue
        now = 0 if event.kind == "pool.deleted" else int(size or 0)
        change = (now - sizes.get(pool, 0)) * per_node.get(pool, 8)
        sizes[pool] = now
        steps.setdefault(pool, []).append((event.at, change))
    for lease in truth.leases:
        if not lease.pool:
            steps.setdefault("", []).append((lease.began, lease.gpus))
            if lease.ended is not None:
                steps[""].append((lease.ended, -lease.gpus))
    return steps


def _sound(
    careers: Mapping[NodeId, Career], truth: Truth, gpus: Mapping[NodeId, int]
) -> dict[NodeId, _Steps]:
    """Return when each node was in service on a machine that worked, as changes."""
    injuries: dict[NodeId, list[Injury]] = {}
    for injury in truth.injuries:
        if injury.harm is Health.UNHEALTHY:
            injuries.setdefault(injury.node, []).append(injury)
    ends: dict[NodeId, datetime | None] = {}
    for lease in truth.leases:
        known = ends.get(lease.node, lease.ended)
        ends[lease.node] = None if known is None or lease.ended is None else max(known, lease.ended)
    found: dict[NodeId, _Steps] = {}
    for node, career in careers.items():
        if career.flips:
            found[node] = _service(
                career, injuries.get(node, []), ends.get(node), gpus.get(node, 8)
            )
    return found


def _service(career: Career, injuries: list[Injury], ended: datetime | None, gpus: int) -> _Steps:
    flips = career.flips
    moments = {at for at, _, _, _ in flips}
    for injury in injuries:
        moments.add(injury.at)
        if injury.over is not None:
            moments.add(injury.over)
    if ended is not None:
        moments.add(ended)
    told, at_flip, serving = len(flips), 0, False
    steps: _Steps = []
    useful = False
    for moment in sorted(moments):
        while at_flip < told and flips[at_flip][0] <= moment:
            serving = not serving
            at_flip += 1
        now = serving and (ended is None or moment < ended)
        if now and injuries:
            now = not any(injury.holds(moment) for injury in injuries)
        if now is not useful:
            steps.append((moment, gpus if now else -gpus))
            useful = now
    return steps


def _integrate(wanted: _Steps, had: _Steps, truth: Truth) -> tuple[float, float, float]:
    """Return the hours wanted, those had as far as they were wanted, and those had."""
    changes = sorted(
        [(at, change, 0) for at, change in wanted]
        + [(at, 0, change) for at, change in had]
        + [(truth.ended, 0, 0)]
    )
    want = have = 0
    wanted_h = used_h = had_h = 0.0
    last = truth.began
    for at, more, got in changes:
        if at > last:
            hours = _length(last, at, truth)
            wanted_h += want * hours
            used_h += min(want, have) * hours
            had_h += have * hours
            last = at
        want += more
        have += got
    return wanted_h, used_h, had_h


def _length(began: datetime, ended: datetime | None, truth: Truth) -> float:
    start = max(began, truth.began)
    end = min(ended or truth.ended, truth.ended)
    return max((end - start).total_seconds(), 0.0) / 3600
