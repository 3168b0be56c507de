"""Nodes above the size of a pool, the least loss first."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.fleet.gangs import Group, surplus_gangs
from navarch.fleet.plan import Retire

LOAD_STEP = 20.0
"""Loads are compared in steps of this many percent: a smaller difference decides nothing."""

Loads = Callable[[Sequence[NodeId]], Mapping[NodeId, float]]
"""Returns how busy nodes are, in percent, as far as that is known."""


def surplus(pool: Pool, staying: Sequence[Node], loads: Loads) -> Iterator[Retire]:
    """Yield the nodes above the size of a pool without gangs."""
    count = len(staying) - pool.target
    if count <= 0:
        return
    busy = loads([node.id for node in staying])
    for node in sorted(staying, key=lambda node: _loss(node, busy))[:count]:
        yield Retire(node=node.id, reason=_reason(pool, staying), surplus=True)


def surplus_in_gangs(
    pool: Pool, staying: Sequence[Node], groups: Sequence[Group], loads: Loads
) -> Iterator[Retire]:
    """Yield whole gangs above the size, and nodes outside gangs once the gangs suffice."""
    reason = _reason(pool, staying)
    too_many = sum(each.gang.nodes for each in groups) - pool.target
    busy = loads([node.id for node in staying]) if too_many > 0 else {}
    extra = surplus_gangs(groups, too_many, busy)
    for each in extra:
        for node in each.members:
            yield Retire(node=node.id, reason=reason, surplus=True)
    kept = [each for each in groups if each not in extra]
    room = pool.target - sum(each.gang.nodes for each in kept)
    if any(each.waiting or each.missing for each in kept) and not pool.deleted:
        return
    loose = [node for node in staying if node.gang is None]
    known = loads([node.id for node in loose])
    ranked = sorted(loose, key=lambda node: _loss(node, known))
    for node in ranked[: max(len(loose) - max(room, 0), 0)]:
        yield Retire(node=node.id, reason=reason, surplus=True)


def scaled_down(nodes: Iterable[NodeId], reason: str) -> tuple[Retire, ...]:
    """Return the removal of nodes that an autoscaler chose, or that are empty."""
    return tuple(Retire(node=name, reason=reason, surplus=True) for name in nodes)


def _reason(pool: Pool, staying: Sequence[Node]) -> str:
    return "the pool was deleted" if pool.deleted else f"{len(staying)} of {pool.target} nodes"


def _loss(node: Node, busy: Mapping[NodeId, float]) -> tuple[int, float, datetime, NodeId]:
    """Rank nodes by how little their removal loses: never ran, then idle, then oldest."""
    if node.phase is Phase.REQUESTED:
        rank = 0 if node.launch is None else 1
    elif node.phase is Phase.BOOTING:
        rank = 2
    elif node.health is Health.UNHEALTHY:
        rank = 3
    elif node.phase is Phase.DRAINING or node.cordoned is not None:
        rank = 4
    else:
        rank = 5
    load = busy.get(node.id, 100.0) // LOAD_STEP
    return rank, load, node.created_at, node.id
