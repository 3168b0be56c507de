"""The size of a pool from its autoscaler's advice: bounds, cooldown and shrink delay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.autoscaling import Schedule
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.limits import NODES_PER_POOL_MAX, PAUSED
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool

BUSY_PCT = 50.0
"""A node with at least this utilization is not removed when an autoscaler shrinks its pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The fewest and the most nodes at some hour, and the source of these bounds."""

    nodes_min: int
    nodes_max: int
    source: str
    step: int = 1
    """Nodes are added and removed in multiples of this."""

    def clamp(self, nodes: int) -> int:
        """Return the size within the bounds nearest to `nodes`, rounded up to whole steps."""
        within = min(max(nodes, self.nodes_min), self.nodes_max)
        up = -(-within // self.step) * self.step
        return up if up <= self.nodes_max else self.nodes_max // self.step * self.step


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """The advice of an autoscaler at one moment."""

    at: datetime
    nodes: int
    reason: str
    nodes_needed: int = 0
    """The nodes that known jobs need, whatever the advice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The size to have now, and the reason for it."""

    nodes: int
    reason: str


def bounds_at(pool: Pool, now: datetime) -> Bounds:
    """Return the bounds of `pool` at `now`: its own, narrowed by its schedule.

    A maximum above the limit, which an older version may have stored, counts as the limit.
    """
    own = Bounds(
        nodes_min=pool.nodes_min,
        nodes_max=min(pool.nodes_max, NODES_PER_POOL_MAX),
        source="the pool's bounds",
        step=max(pool.gang, 1),
    )
    asked = None if pool.autoscaling is None else pool.autoscaling.scheduled
    if asked is None:
        return own
    window = Schedule(windows=asked.windows, time_zone=asked.time_zone).window_at(now)
    if window is None:
        return own
    low = own.nodes_min if window.nodes_min is None else own.clamp(window.nodes_min)
    high = own.nodes_max if window.nodes_max is None else own.clamp(window.nodes_max)
    source = f"the schedule for {window}"
    return Bounds(nodes_min=min(low, high), nodes_max=high, source=source, step=own.step)


def why_paused(pool: Pool) -> str | None:
    """Return why nothing is planned for `pool`, with the remedy; None if it is planned.

    An older version may have stored a pool above the limit. Planning a billion nodes would stop the
    control plane now and after every restart. The record stays as it is, and the pool is planned
    again once its size is legal.
    """
    if pool.size <= NODES_PER_POOL_MAX:
        return None
    if pool.nodes_min > NODES_PER_POOL_MAX:
        remedy = (
            f"set its minimum to {NODES_PER_POOL_MAX} nodes or fewer: `min_nodes` in the "
            f"configuration file, or PUT /v1/pools/{pool.name}"
        )
    else:
        remedy = (
            f"scale it to {NODES_PER_POOL_MAX} nodes or fewer: navarch pool scale {pool.name} NODES"
        )
    return (
        f"{PAUSED}{pool.size} nodes are above the limit of {NODES_PER_POOL_MAX} nodes per pool; "
        f"{remedy}"
    )


def plan_size(pool: Pool, opinions: Sequence[Opinion], *, now: datetime) -> Sizing:
    """Return the size that `pool` should have, given its autoscaler's opinions, oldest first.

    Bounds apply at once. Everything else waits until the last change of size is older than the
    cooldown. The pool shrinks only to the largest size that was advised during `shrink_after`, and
    not before it was observed for that long. A pool above the limit keeps its size until an
    operator changes it: shrinking it to the limit would buy machines.
    """
    bounds = bounds_at(pool, now)
    size = pool.size
    if (paused := why_paused(pool)) is not None:
        return Sizing(nodes=size, reason=paused)
    within = bounds.clamp(size)
    if within != size:
        allowed = f"{bounds.nodes_min} to {bounds.nodes_max} nodes"
        return Sizing(nodes=within, reason=f"{bounds.source}: {allowed}")
    if not opinions:
        return Sizing(nodes=size, reason="no opinion yet")
    newest = opinions[-1]
    asked = _asked(newest, bounds)
    if asked == size:
        return Sizing(nodes=size, reason=newest.reason)
    if pool.scaled_at is not None and now < pool.scaled_at + pool.cooldown:
        left = pool.scaled_at + pool.cooldown - now
        return Sizing(nodes=size, reason=f"cooldown for another {_seconds(left)}: {newest.reason}")
    if asked > size:
        reason = newest.reason
        if newest.nodes_needed > newest.nodes and bounds.clamp(newest.nodes) < bounds.nodes_max:
            reason = f"the work that runs and waits needs {newest.nodes_needed} nodes"
        return Sizing(nodes=asked, reason=reason)
    return _shrunk(pool, opinions, bounds, now)


def _shrunk(pool: Pool, opinions: Sequence[Opinion], bounds: Bounds, now: datetime) -> Sizing:
    newest, since = opinions[-1], now - pool.shrink_after
    if opinions[0].at > since:
        watched = f"watched for {_seconds(now - opinions[0].at)} of {_seconds(pool.shrink_after)}"
        return Sizing(nodes=pool.size, reason=f"{watched}: {newest.reason}")
    recent = [opinion for opinion in opinions if opinion.at >= since]
    highest = max(recent, key=lambda opinion: (_asked(opinion, bounds), opinion.at))
    nodes = _asked(highest, bounds)
    if nodes >= pool.size:
        ago = _seconds(now - highest.at)
        return Sizing(nodes=pool.size, reason=f"{nodes} nodes were wanted {ago} ago")
    return Sizing(nodes=nodes, reason=f"{newest.reason}, for {_seconds(pool.shrink_after)}")


def choose_surplus(
    nodes: Sequence[Node], peaks: Mapping[NodeId, float], count: int
) -> list[NodeId]:
    """Return up to `count` nodes that a shrinking pool can spare, least loss first.

    `peaks` holds the highest utilization of each node during `shrink_after`. A serving node without
    a peak was not observed for long enough, and stays. A gang is removed as a whole, or stays.
    """
    units: dict[str, list[Node]] = {}
    for node in nodes:
        if node.counts:
            units.setdefault(f"gang {node.gang.id}" if node.gang else node.id, []).append(node)
    spare = [unit for unit in units.values() if all(_idle(node, peaks) for node in unit)]
    chosen: list[NodeId] = []
    for unit in sorted(spare, key=lambda unit: max(_loss(node, peaks) for node in unit)):
        if len(chosen) + len(unit) <= count:
            chosen += [node.id for node in unit]
    return chosen


def _idle(node: Node, peaks: Mapping[NodeId, float]) -> bool:
    if node.phase in (Phase.REQUESTED, Phase.BOOTING) or node.health is Health.UNHEALTHY:
        return True
    return peaks.get(node.id, 100.0) < BUSY_PCT


def _loss(node: Node, peaks: Mapping[NodeId, float]) -> tuple[int, float, datetime, NodeId]:
    if node.phase is Phase.REQUESTED:
        rank = 0 if node.launch is None else 1
    elif node.phase is Phase.BOOTING:
        rank = 2
    elif node.health is Health.UNHEALTHY:
        rank = 3
    else:
        rank = 4 if node.cordoned is not None else 5
    return rank, peaks.get(node.id, 0.0), node.created_at, node.id


def _asked(opinion: Opinion, bounds: Bounds) -> int:
    return bounds.clamp(max(opinion.nodes, opinion.nodes_needed))


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f}s"
