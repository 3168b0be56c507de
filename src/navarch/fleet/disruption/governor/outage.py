"""Silence that nodes share: the network or the control plane may be at fault.

A machine that does not report may work well. Machines that stop reporting together have rarely died
together, so none of them is replaced for it, unless a witness proves that it is dead.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.disruption import DAY
from navarch.core.health import HEARTBEAT, Health
from navarch.core.ids import NodeId
from navarch.core.node import LINK, Node
from navarch.fleet.disruption.governor.attributes import (
    PLACES,
    Attribute,
    describe,
)
from navarch.fleet.disruption.governor.common_cause import CHANCE_MAX, chance_of
from navarch.fleet.disruption.governor.domain_stats import DomainStats
from navarch.fleet.silence import is_proven_dead

SHARE_MAX = 0.1
"""The share of nodes that may be silent at once for reasons of their own."""

NODES_MIN = 2
"""A single node is no outage, however small its pool."""

TOGETHER = timedelta(minutes=15)
"""Nodes that stop reporting within this time may have stopped for one reason."""

SILENT_PER_NODE_DAY = 0.001
"""The rate at which machines die without a report: most report the fault that they die of."""

PAIR_MAX = timedelta(hours=2)
"""How long two nodes are doubted for stopping together, or one of them after the other has reported
again, if they are not behind one switch: it may be a coincidence."""

ONE_SWITCH = ("rack", "nvlink", "switch", "network_path")
"""The places in which one switch explains the silence of two nodes far better than two deaths do.
They are doubted until they report. A power feed is none: a machine without power is really dead."""

KINDS = ("pool", "provider", "fleet", LINK, *PLACES)
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
    """Return the scopes in which too many nodes are silent, or became silent together.

    Nodes that are proven dead, and that were replaced, count for the time at which they stopped: if
    another one stopped with them, it may have done so for the same reason. So do nodes that have
    reported again since.
    """
    silent: dict[Attribute, list[_Stop]] = {}
    for name, (node, silence) in stats.showing.get(HEARTBEAT, {}).items():
        if any(x.health is Health.UNHEALTHY and x.check != HEARTBEAT for x in node.conditions):
            continue
        is_doubted = name in stats.unwell and node.counts and not is_proven_dead(node)
        stop = _Stop(name, silence.since, is_doubted=is_doubted)
        for scope in stats.attributes[name]:
            if scope[0] in KINDS:
                silent.setdefault(scope, []).append(stop)
    for name, node in stats.ended.items():
        # Its provider ended it before its silence was noticed.
        for scope in stats.attributes[name]:
            if scope in silent:
                silent[scope].append(_Stop(name, node.since))
    returned: dict[Attribute, list[_Stop]] = {}
    for name, node in stats.returned.items():
        past = [_Stop(name, each.since, over_at=each.until) for each in node.past_silences]
        for scope in stats.attributes[name]:
            if scope in silent:
                returned.setdefault(scope, []).extend(past)
    found = {}
    with_returns = SILENT_PER_NODE_DAY + _returns_per_node_day(stats, now)
    for scope, stops in silent.items():
        nodes = stats.sizes[scope]
        doubted = sum(stop.is_doubted for stop in stops)
        all_stops = stops + returned.get(scope, [])
        if doubted and (
            NODES_MIN <= doubted > SHARE_MAX * nodes
            or _stopped_together(scope, stops, nodes, SILENT_PER_NODE_DAY, now)
            or _stopped_together(scope, all_stops, nodes, with_returns, now)
        ):
            found[scope] = Outage(scope=scope, silent=doubted, nodes=nodes)
    return found


@dataclass(frozen=True, slots=True)
class _Stop:
    """A moment at which a node stopped reporting."""

    node: NodeId
    at: datetime
    is_doubted: bool = False
    """Whether it may work: it is silent, and no witness proves it dead."""
    over_at: datetime | None = None
    """When it reported again."""


def _returns_per_node_day(stats: DomainStats, now: datetime) -> float:
    """Return how often nodes stopped reporting for a while lately; an outage counts once."""
    past = [silence for node in stats.returned.values() for silence in node.past_silences]
    pauses, last = 0, None
    for since in sorted(each.since for each in past if each.until > now - DAY):
        if last is None or since > last + TOGETHER:
            pauses, last = pauses + 1, since
    return pauses / max(len(stats.attributes), 1)


def _stopped_together(
    scope: Attribute, stops: Iterable[_Stop], nodes: int, per_node_day: float, now: datetime
) -> bool:
    """Return whether a doubted node stopped with so many others that they share a reason for it.

    `per_node_day` is the rate at which nodes stop for reasons of their own. A node that stopped
    several times counts once.
    """
    found = sorted(stops, key=lambda stop: stop.at)
    moments = [stop.at for stop in found]
    for i, stop in enumerate(found):
        if not stop.is_doubted:
            continue
        first = bisect_left(moments, stop.at - TOGETHER)
        end = bisect_right(moments, stop.at + TOGETHER)
        together = max(
            len({x.node for x in found[j : bisect_right(moments, moments[j] + TOGETHER, hi=end)]})
            for j in range(first, i + 1)
        )
        last_sign = max(each.over_at or stop.at for each in found[first:end])
        may_be_chance = together == NODES_MIN and scope[0] not in ONE_SWITCH
        if may_be_chance and now >= last_sign + PAIR_MAX:
            continue
        chance = chance_of(together, nodes=nodes, within=TOGETHER, per_node_day=per_node_day)
        if together >= NODES_MIN and chance < CHANCE_MAX:
            return True
    return False


def outage_of(
    node: Node, attributes: Iterable[Attribute], outages: Mapping[Attribute, Outage]
) -> Outage | None:
    """Return the outage that `node`, which has these attributes, is part of.

    It is named after the scope with the largest silent share, of equals the one with most nodes.
    """
    if not outages or is_proven_dead(node):
        return None
    found = [outages[scope] for scope in attributes if scope in outages]
    found.sort(key=lambda each: KINDS.index(each.scope[0]))
    return max(found, key=lambda each: (each.silent / each.nodes, each.nodes), default=None)
