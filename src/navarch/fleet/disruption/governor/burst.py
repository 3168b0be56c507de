"""Bursts: a fault that appears on several nodes within minutes.

Three or more nodes rarely break in the same way at the same time, so that a common cause is likely,
but it shows only when more nodes have the fault. The actions on these nodes wait for it for a few
minutes. The first two nodes do not wait, and neither does a fault that is frequent all day.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from navarch.core.disruption import DAY, GovernorSettings
from navarch.core.health import HEARTBEAT
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.fleet.disruption.governor.common_cause import (
    CHANCE_MAX,
    FAULTS_PER_NODE_DAY,
    chance_of,
)
from navarch.fleet.disruption.governor.domain_stats import DomainStats, Shown, fingerprints

TOGETHER = timedelta(minutes=10)
"""The time within which nodes with the same fault count as one burst."""

WAIT = timedelta(minutes=2)
"""How long a node with the fault of a burst waits. A check that fails everywhere reaches far more
nodes meanwhile, and a broken machine can wait as long."""

OBSERVED_MIN = timedelta(hours=1)
"""A rate that was observed for less than this is averaged over this time."""


def find_bursts(stats: DomainStats, settings: GovernorSettings, *, now: datetime) -> frozenset[str]:
    """Return the faults that appeared on more nodes lately than they do by themselves."""
    nodes = len(stats.attributes)
    return frozenset(
        fault
        for fault, shown in stats.showing.items()
        if fault != HEARTBEAT
        and len(shown) >= settings.suspect_nodes
        and _is_burst(shown, nodes, settings, now)
    )


def burst_wait_ends_at(node: Node, bursts: frozenset[str]) -> datetime | None:
    """Return until when `node` waits for the cause of its fault; None if a fault is its own."""
    shown = fingerprints(node)
    if not shown or not bursts.issuperset(shown):
        return None
    return min(condition.since for condition in shown.values()) + WAIT


def _is_burst(
    shown: Mapping[NodeId, Shown], nodes: int, settings: GovernorSettings, now: datetime
) -> bool:
    moments = [condition.since for _, condition in shown.values()]
    recent = [since for since in moments if since > now - TOGETHER]
    if len(recent) < settings.suspect_nodes:
        return False
    earlier = [since for since in moments if now - DAY < since <= now - TOGETHER]
    observed = max(now - TOGETHER - min(earlier), OBSERVED_MIN) if earlier else DAY
    rate = max(FAULTS_PER_NODE_DAY, len(earlier) / nodes / (observed / DAY))
    return chance_of(len(recent), nodes=nodes, within=TOGETHER, per_node_day=rate) < CHANCE_MAX
