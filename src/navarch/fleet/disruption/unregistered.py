"""Nodes without a registered agent at their boot deadline."""

from collections.abc import Iterable
from datetime import datetime

from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.boot_times import BootWatch
from navarch.fleet.plan import Retire


def unregistered(
    pool: Pool, nodes: Iterable[Node], boots: BootWatch, *, now: datetime
) -> list[Retire]:
    """Return the removal of every node that is past its boot deadline."""
    return [
        Retire(node=node.id, reason=boots.missed(pool, node, now), failed=True)
        for node in nodes
        if boots.is_past(pool, node, now)
    ]
