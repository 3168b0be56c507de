"""Usage: GPU-hours wanted, delivered, lost and paid for; the bill; and leaked machines."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from navarch.core.budget import cost
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.launch import Launch
from navarch.sim.figures.timeline import GroundTruth, InjectedFault, NodeTimeline, Timelines

_CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHours:
    """GPU-hours of a run."""

    wanted: float = 0.0
    """The sizes of pools, and the capacity of machines that no pool bought."""
    delivered: float = 0.0
    """In service on sound machines, up to the hours wanted."""
    lost: float = 0.0
    """Wanted and not delivered: not yet launched, out of service, or in service but broken."""
    paid: float = 0.0
    wasted: float = 0.0
    """Paid for and not in service on a sound machine: booting, broken, draining or leaked."""

    @property
    def availability(self) -> float | None:
        """The share of the hours wanted that was delivered."""
        return self.delivered / self.wanted if self.wanted else None


_Steps = list[tuple[datetime, int]]
"""Changes of a number of GPUs."""


def count_hours(timelines: Timelines, truth: GroundTruth) -> GpuHours:
    """Return the GPU-hours between the start and the end of a run."""
    gpus = {lease.node: lease.gpus for lease in truth.leases}
    pool_of = {lease.node: lease.pool for lease in truth.leases}
    wanted = _wanted(timelines, truth)
    had: dict[str, _Steps] = {}
    for node, steps in _sound(timelines.nodes, truth, gpus):
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


def _wanted(timelines: Timelines, truth: GroundTruth) -> dict[str, _Steps]:
    """Return the changes of the number of GPUs that each pool should have."""
    per_node = {lease.pool: lease.gpus for lease in truth.leases if lease.pool}
    steps: dict[str, _Steps] = {}
    sizes: dict[str, int] = {}
    for event in timelines.pools:
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
    timelines: Mapping[NodeId, NodeTimeline], truth: GroundTruth, gpus: Mapping[NodeId, int]
) -> Iterator[tuple[NodeId, _Steps]]:
    """Yield the changes of the number of GPUs in service on the sound machine of each node."""
    faults: dict[NodeId, list[InjectedFault]] = {}
    for fault in truth.faults:
        if fault.true_health is Health.UNHEALTHY:
            faults.setdefault(fault.node, []).append(fault)
    ends: dict[NodeId, datetime | None] = {}
    for lease in truth.leases:
        known = ends.get(lease.node, lease.ended)
        ends[lease.node] = None if known is None or lease.ended is None else max(known, lease.ended)
    for node, timeline in timelines.items():
        if timeline.service_changes:
            count = gpus.get(node, 8)
            yield node, _service(timeline, faults.get(node, []), ends.get(node), count)


def _service(
    timeline: NodeTimeline, faults: list[InjectedFault], ended: datetime | None, gpus: int
) -> _Steps:
    changes = timeline.service_changes
    moments = {at for at, _, _, _ in changes}
    for fault in faults:
        moments.add(fault.at)
        if fault.cleared_at is not None:
            moments.add(fault.cleared_at)
    if ended is not None:
        moments.add(ended)
    count, following, serving = len(changes), 0, False
    steps: _Steps = []
    useful = False
    for moment in sorted(moments):
        while following < count and changes[following][0] <= moment:
            serving = not serving
            following += 1
        now = serving and (ended is None or moment < ended)
        if now and faults:
            now = not any(fault.active(moment) for fault in faults)
        if now is not useful:
            steps.append((moment, gpus if now else -gpus))
            useful = now
    return steps


def _integrate(wanted: _Steps, had: _Steps, truth: GroundTruth) -> tuple[float, float, float]:
    """Return the hours wanted, the hours in service up to those, and all hours in service."""
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


def _length(began: datetime, ended: datetime | None, truth: GroundTruth) -> float:
    start = max(began, truth.began)
    end = min(ended or truth.ended, truth.ended)
    return max((end - start).total_seconds(), 0.0) / 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """The costs of a run, in the currency of the prices."""

    billed: Decimal = Decimal(0)
    """The bills of clouds and of the owners of machines."""
    recorded: Decimal = Decimal(0)
    """The total of the ledger, which lacks machines that no pool bought."""
    wasted: Decimal = Decimal(0)
    """The part of the bill for hours that were paid for and not used."""


def count_money(truth: GroundTruth, launches: Iterable[Launch], hours: GpuHours) -> Money:
    """Return the bill and the total of the ledger at the end of the run."""
    ended = truth.ended
    billed = recorded = Decimal(0)
    for lease in truth.leases:
        if lease.began <= ended:
            until = min(lease.ended or ended, ended)
            billed += cost(lease.price_per_hour, lease.began, until)
    for launch in launches:
        if launch.launched_at is not None and launch.launched_at <= ended:
            until = min(launch.ended_at or ended, ended)
            recorded += cost(launch.price_per_hour, launch.launched_at, until)
    share = Decimal(str(hours.wasted / hours.paid)) if hours.paid else Decimal(0)
    return Money(
        billed=billed.quantize(_CENT),
        recorded=recorded.quantize(_CENT),
        wasted=(billed * share).quantize(_CENT),
    )
