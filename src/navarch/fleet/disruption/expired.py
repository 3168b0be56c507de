"""Nodes older than their pool allows."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from navarch.core.disruption import Cause
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.plan import Candidate


def expired(pool: Pool, nodes: Iterable[Node], *, now: datetime) -> Iterator[Candidate]:
    """Yield the nodes older than the pool allows, oldest first."""
    limit = pool.disruption.lifetime_max
    if limit is None:
        return
    for node in sorted(nodes, key=lambda node: (node.created_at, node.id)):
        if now >= node.created_at + limit:
            yield Candidate(
                node=node.id, cause=Cause.EXPIRED, reason=f"expired: older than {limit}"
            )
