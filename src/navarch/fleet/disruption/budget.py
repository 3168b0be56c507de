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
    most = limit(pool, cause, now)
    return len(nodes) if most is None else max(most - disturbed(nodes, successors), 0)


def limit(pool: Pool, cause: Cause, now: datetime) -> int | None:
    """Return how many nodes may be out for `cause` at once; None if there is no limit."""
    limits = [
        budget.allows(pool.size)
        for budget in pool.disruption.budgets or (DisruptionBudget(),)
        if budget.holds(cause) and budget.applies(now)
    ]
    return min(limits, default=None)


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
