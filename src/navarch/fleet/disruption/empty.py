"""Nodes without work for a while, in a pool that may be smaller."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from navarch.core.disruption import Cause
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.fleet.disruption.budget import room
from navarch.fleet.disruption.replacement import successors
from navarch.fleet.sizing import choose_surplus, why_paused

EMPTY_PCT = 5.0
"""GPUs that were never busier than this had no work; a driver alone may show a little."""

_STARTING = (Phase.REQUESTED, Phase.BOOTING)


def empty(
    pool: Pool, nodes: Sequence[Node], peaks: Mapping[NodeId, float], *, now: datetime
) -> list[NodeId]:
    """Return the nodes to remove because they are empty, the least loss first.

    `peaks` holds the highest utilization of each node during `empty_after`; a node without a peak
    was not observed for that long. The minimum and the budget limit how many are removed, and a
    gang is removed as a whole. Nodes that are still starting next to empty ones are not needed
    either, and are removed first.
    """
    if pool.deleted or pool.disruption.empty_after is None or pool.held is not None:
        return []
    if why_paused(pool) is not None:
        return []
    coming = successors(nodes)
    involved = {*coming, *(node.id for node in coming.values())}
    staying = [node for node in nodes if node.counts]
    found = [x for x in staying if _is_empty(x, peaks) and x.id not in involved]
    starting = [x for x in staying if x.phase in _STARTING and x.id not in involved]
    if not found or (pool.gang and starting):
        return []
    found += starting
    used = {node.gang for node in staying if node.gang and node not in found}
    spare = min(
        len(staying) - len(involved) // 2 - pool.nodes_min,
        pool.size - pool.nodes_min,
        max(room(pool, nodes, list(coming), Cause.EMPTY, now), pool.gang),
    )
    return choose_surplus([node for node in found if node.gang not in used], peaks, max(spare, 0))


def _is_empty(node: Node, peaks: Mapping[NodeId, float]) -> bool:
    at_work = node.phase is Phase.READY and node.health is not Health.UNHEALTHY
    return at_work and not node.waiting and peaks.get(node.id, 100.0) < EMPTY_PCT
