"""Who may be drained now, and who has been drained long enough."""

from collections.abc import Container, Iterable
from datetime import datetime

from navarch.core.ids import NodeId
from navarch.core.node import Node, NotifiedState, Phase, Retirement
from navarch.core.pool import Pool
from navarch.fleet.plan import Action, Drain, Plan, Terminate

DRAINED = "drained"
"""Why a machine is ended on which nothing runs any more."""


def plan_drains(
    pool: Pool,
    nodes: Iterable[Node],
    *,
    drained: Container[NodeId],
    now: datetime,
    steady: int = 0,
) -> Plan:
    """Return which retiring nodes of `pool` move on.

    A node that is replaced waits until its replacement has been asked for, so that the
    pool is short for as little time as possible; where the maximum leaves no room for
    both, it goes first. So does one on which nothing can run: in days in which nobody sells
    a machine, it may hold the only place there is. `steady` more nodes only count.
    """
    present = [node for node in nodes if not node.gone]
    covered = steady + sum(node.counts for node in present) >= pool.size
    full = steady + len(present) >= pool.nodes_max
    actions: list[Action] = []
    moments: list[datetime] = []
    for node in present:
        if node.retiring is None:
            continue
        if node.phase is Phase.READY and (covered or full or drains_at_once(node, node.retiring)):
            actions.append(Drain(node=node.id, reason=node.retiring.reason))
            moments.append(now + pool.drain_timeout)
        elif node.phase is Phase.DRAINING:
            ends_at = node.since + pool.drain_timeout
            if node.id in drained:
                actions.append(Terminate(node=node.id, reason=DRAINED))
            elif now >= ends_at and _may_be_cut_short(node):
                reason = f"work was still there after {pool.drain_timeout}"
                actions.append(Terminate(node=node.id, reason=reason))
            elif now < ends_at:
                moments.append(ends_at)
    wake_at = min(moments, default=None)
    # Who begins to drain or is terminated takes up as much room as before.
    return Plan(pool=pool.name, actions=tuple(actions), wake_at=wake_at, settled=True)


def drains_at_once(node: Node, retiring: Retirement) -> bool:
    """Return whether `node`, once it is `retiring`, need not wait for a replacement.

    That is so of one that nobody replaces, that has minutes left, or on which nothing can run.
    """
    if node.phase is not Phase.READY:
        return False
    return retiring.surplus or retiring.urgent or _is_lost(node)


def may_move_on(node: Node) -> bool:
    """Return whether a plan of drains may have anything to say about `node`."""
    return node.retiring is not None and node.phase in (Phase.READY, Phase.DRAINING)


def goes_when_empty(node: Node) -> bool:
    """Return whether `node` is to be given back as soon as nothing runs on it any more."""
    return node.phase is Phase.DRAINING and node.retiring is not None and node.pool is not None


def _is_lost(node: Node) -> bool:
    return any(condition.fatal for condition in node.conditions)


def _may_be_cut_short(node: Node) -> bool:
    # Work on a sound node is not killed before the workload system has heard of it: a scale-down
    # can wait for a scheduler that is down. A node that is broken cannot.
    assert node.retiring is not None, node.id
    return node.told is NotifiedState.DRAINING or not node.retiring.surplus


def seen_by_drains(node: Node) -> object:
    """Return what a plan of drains looks at in `node`: where nothing of it changes, it holds."""
    if node.retiring is None:
        return node.counts, node.gone
    if not may_move_on(node):
        # It does not count, and that it makes room sets nobody going: who may go for want of room
        # could go before.
        return None
    return node.phase, node.since, node.retiring, _may_be_cut_short(node), _is_lost(node)


def matters_to_drains(before: Node, node: Node) -> bool:
    """Return whether a plan of drains sees something else in `node` than it saw `before`."""
    return seen_by_drains(before) != seen_by_drains(node)
