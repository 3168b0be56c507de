"""Silence that nodes share: the network or the control plane may be at fault.

A machine that does not report may work well. Machines that stop reporting together have rarely died
together, so none of them is replaced for it, unless a witness proves that it is dead.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.node import Node
from navarch.fleet.disruption.governor.attributes import (
    PLACES,
    Attribute,
    attributes_of,
    describe,
)
from navarch.fleet.disruption.governor.common_cause import CHANCE_MAX, chance_of
from navarch.fleet.disruption.governor.domain_stats import DomainStats
from navarch.fleet.silence import heartbeat_condition, is_proven_dead

SHARE_MAX = 0.1
"""The share of nodes that may be silent at once for reasons of their own."""

NODES_MIN = 2
"""A single node is no outage, however small its pool."""

TOGETHER = timedelta(minutes=15)
"""Nodes that stop reporting within this time may have stopped for one reason."""

SILENT_PER_NODE_DAY = 0.001
"""The rate at which machines die without a report: most report the fault that they die of."""

PAIR_MAX = timedelta(hours=2)
"""How long two nodes are doubted for stopping together: it may be a coincidence."""

KINDS = ("pool", "provider", "fleet", *PLACES)
"""The attributes with which nodes can lose their connection together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Many nodes with one attribute do not report."""

    scope: Attribute
    silent: int
    nodes: int

    @property
    def words(self) -> str:
        """The sentence for operators. It has no counts, so that it stays the same meanwhile."""
        return (
            f"unreachable: nodes of {describe(self.scope)} stopped reporting together; none is "
            "replaced for silence until the others report again or a witness proves it dead"
        )


def find_outages(stats: DomainStats, *, now: datetime) -> Mapping[Attribute, Outage]:
    """Return the scopes in which too many nodes are silent, or became silent together."""
    silent: dict[Attribute, list[datetime]] = {}
    for name, node in stats.unwell.items():
        silence = heartbeat_condition(node)
        if silence is None or not node.counts or is_proven_dead(node):
            continue
        for scope in stats.attributes[name]:
            if scope[0] in KINDS:
                silent.setdefault(scope, []).append(silence.since)
    return {
        scope: Outage(scope=scope, silent=len(since), nodes=stats.sizes[scope])
        for scope, since in silent.items()
        if _is_outage(sorted(since), stats.sizes[scope], now)
    }


def _is_outage(since: Sequence[datetime], nodes: int, now: datetime) -> bool:
    """Return whether nodes that are silent `since` those times share a reason for it."""
    if len(since) < NODES_MIN:
        return False
    if len(since) > SHARE_MAX * nodes:
        return True
    together = max(bisect_right(since, first + TOGETHER) - i for i, first in enumerate(since))
    if together == 2 and now >= since[-1] + PAIR_MAX:
        return False
    chance = chance_of(together, nodes=nodes, within=TOGETHER, per_node_day=SILENT_PER_NODE_DAY)
    return together >= 2 and chance < CHANCE_MAX


def outage_of(node: Node, outages: Mapping[Attribute, Outage]) -> Outage | None:
    """Return the outage that `node` is part of.

    It is named after the scope with the largest silent share, of equals the one with most nodes.
    """
    if not outages or is_proven_dead(node):
        return None
    found = [outages[scope] for scope in attributes_of(node) if scope in outages]
    found.sort(key=lambda each: KINDS.index(each.scope[0]))
    return max(found, key=lambda each: (each.silent / each.nodes, each.nodes), default=None)
