"""Nodes without a registered agent at the boot deadline of their pool."""

from collections.abc import Iterable
from datetime import datetime

from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.fleet.plan import Retire


def unregistered(pool: Pool, nodes: Iterable[Node], *, now: datetime) -> list[Retire]:
    """Return the removal of every node that is past its boot deadline."""
    return [
        Retire(node=node.id, reason=boot_deadline_passed(pool), failed=True)
        for node in nodes
        if is_past_boot_deadline(pool, node, now)
    ]


def is_past_boot_deadline(pool: Pool, node: Node, now: datetime) -> bool:
    """Return whether the agent of `node` should have registered by now."""
    return node.counts and node.phase is Phase.BOOTING and now >= node.since + pool.boot_deadline


def boot_deadline_passed(pool: Pool) -> str:
    """Return the reason to remove such a node."""
    return f"did not register within {pool.boot_deadline}"
