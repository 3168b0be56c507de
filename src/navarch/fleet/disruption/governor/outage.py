"""Silence that many nodes share: the network or the control plane may be at fault.

A machine that does not report may work well. While many do not report at once, none of them is
replaced for it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from navarch.core.node import Node
from navarch.fleet.disruption.governor.domain_stats import zone_of
from navarch.fleet.silence import heartbeat_condition

SHARE_MAX = 0.1
"""The share of nodes that may be silent at once for reasons of their own."""

NODES_MIN = 2
"""A single node is no outage, however small its pool."""

Scope = tuple[str, str]
"""Where an outage is found: a pool, zone, provider or the fleet, by kind and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Many nodes of one scope do not report."""

    scope: Scope
    silent: int
    nodes: int

    @property
    def words(self) -> str:
        """The sentence for operators. It has no counts, so that it stays the same meanwhile."""
        kind, name = self.scope
        where = f"{kind} {name}" if name else f"the {kind}"
        return (
            f"more than {SHARE_MAX:.0%} of {where} does not report; "
            "no node is replaced for silence until the others report again"
        )


def find_outages(nodes: Iterable[Node]) -> Mapping[Scope, Outage]:
    """Return the scopes in which too many nodes are silent."""
    sizes: Counter[Scope] = Counter()
    silent: Counter[Scope] = Counter()
    for node in nodes:
        if node.registered_at is None or not node.counts:
            continue
        scopes = list(_scopes(node))
        sizes.update(scopes)
        if heartbeat_condition(node) is not None:
            silent.update(scopes)
    return {
        scope: Outage(scope=scope, silent=count, nodes=sizes[scope])
        for scope, count in silent.items()
        if count >= NODES_MIN and count > SHARE_MAX * sizes[scope]
    }


def outage_of(node: Node, outages: Mapping[Scope, Outage]) -> Outage | None:
    """Return the outage that `node` is part of, the narrowest first."""
    return next((outages[scope] for scope in _scopes(node) if scope in outages), None)


def _scopes(node: Node) -> Iterator[Scope]:
    if node.pool is not None:
        yield "pool", node.pool
    zone = zone_of(node)
    if zone:
        yield "zone", zone
    if node.provider is not None:
        yield "provider", node.provider
    yield "fleet", ""
