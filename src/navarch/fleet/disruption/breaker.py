"""A brake on replacement: when much fails at once, the fault is rarely in the machines."""

from collections.abc import Iterable

from navarch.core.health import Health
from navarch.core.node import Node
from navarch.core.pool import Pool

SHARE_MAX = 0.4
"""The share of a pool that may be unhealthy at once before replacement slows to a trickle. A bad
driver, a dead switch or our own network look like this; replacing everything makes it worse."""

NODES_MIN = 3
"""So few can always fail together by chance."""


ONE_AT_A_TIME = 1
"""How many nodes may be on their way out while the brake is on. Not none: if it is the machines
after all, a pool that nobody looks at must still come back, only slowly."""


def may_replace(nodes: Iterable[Node]) -> bool:
    """Return whether one more unhealthy node may be replaced though the brake is on."""
    leaving = (x.retiring is not None and not x.retiring.surplus for x in nodes if not x.gone)
    return sum(leaving) < ONE_AT_A_TIME


def held(pool: Pool, nodes: Iterable[Node]) -> str | None:
    """Return why unhealthy nodes of `pool` are not all to be replaced at once, or None.

    Once on, the brake stays on until half as many are unhealthy, so that it does not flutter.
    Nodes already on their way out count for as long as they are there.
    """
    registered = [x for x in nodes if not x.gone and x.registered_at is not None]
    broken = sum(node.health is Health.UNHEALTHY for node in registered)
    share_max = SHARE_MAX if pool.held is None else SHARE_MAX / 2
    if broken < NODES_MIN or broken <= share_max * len(registered):
        return None
    return (
        f"{broken} of {len(registered)} nodes are unhealthy at once; "
        "they are replaced one at a time until somebody has looked"
    )
