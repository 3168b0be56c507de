"""The disruption budget that all reasons share."""

from collections.abc import Sequence
from datetime import datetime

from navarch.core.disruption import Cause, DisruptionBudget
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.core.pool import Pool


def room(
    pool: Pool, nodes: Sequence[Node], successors: Sequence[NodeId], cause: Cause, now: datetime
) -> int:
    """Return how many more nodes may be replaced for `cause` at `now`.

    `successors` are the nodes with a replacement under way.
    """
    limits = [
        budget.allows(pool.size)
        for budget in pool.disruption.budgets or (DisruptionBudget(),)
        if budget.holds(cause) and budget.applies(now)
    ]
    if not limits:
        return len(nodes)
    return max(min(limits) - disturbed(nodes, successors), 0)


def disturbed(nodes: Sequence[Node], successors: Sequence[NodeId]) -> int:
    """Return how many nodes are out of service or leaving, for any reason but size."""
    spoken_for = frozenset(successors)
    return sum(
        not node.gone
        and (
            (node.retiring is not None and not node.retiring.surplus)
            or (node.counts and node.health is Health.UNHEALTHY)
            or node.id in spoken_for
        )
        for node in nodes
    )
