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
    for node in sorted(nodes, key=lambda node: (_began_at(node), node.id)):
        if now >= _began_at(node) + limit:
            yield Candidate(
                node=node.id, cause=Cause.EXPIRED, reason=f"expired: older than {limit}"
            )


def _began_at(node: Node) -> datetime:
    """Return when the life of `node` in its pool began."""
    launch = node.launch
    return launch.asked_at if launch is not None and launch.adopted else node.created_at
