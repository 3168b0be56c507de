"""Drains: moving work off nodes, and the notices for the workload system."""

from collections.abc import Collection, Container, Iterable
from datetime import datetime

from navarch.core.ids import NodeId
from navarch.core.node import Node, NotifiedState, Phase, Retirement
from navarch.core.pool import Pool
from navarch.fleet.plan import Action, Drain, Plan, Terminate
from navarch.health.conditions import explain

DRAINED = "drained"
"""The reason to terminate a machine without any work left."""


def plan_drains(
    pool: Pool,
    nodes: Collection[Node],
    *,
    drained: Container[NodeId],
    now: datetime,
) -> Plan:
    """Return which retiring nodes of `pool` start to drain, and which are terminated.

    A node with a replacement drains once the replacement has been requested, so that the pool is
    short for as little time as possible; if the maximum has no room for both, it drains first. A
    node that cannot run work drains at once: while nothing is for sale, it may occupy the only
    slot.
    """
    actions: list[Action] = []
    moments: list[datetime] = []
    for node in nodes:
        if node.retiring is None:
            continue
        if node.phase is Phase.READY:
            if drains_at_once(node, node.retiring) or _need_not_wait(pool, nodes):
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
    # A node that drains or terminates occupies its slot as before.
    return Plan(pool=pool.name, actions=tuple(actions), wake_at=wake_at)


def _need_not_wait(pool: Pool, nodes: Iterable[Node]) -> bool:
    """Return whether every replacement was requested, or the maximum has no room for another."""
    present = [node for node in nodes if not node.gone]
    return sum(node.counts for node in present) >= pool.size or len(present) >= pool.nodes_max


def drains_at_once(node: Node, retiring: Retirement) -> bool:
    """Return whether `node`, once it is `retiring`, drains without waiting for a replacement.

    It does if it has no replacement, has only minutes left, or cannot run work.
    """
    if node.phase is not Phase.READY:
        return False
    return retiring.surplus or retiring.urgent or _is_lost(node)


def goes_when_empty(node: Node) -> bool:
    """Return whether `node` is terminated as soon as it is empty."""
    return node.phase is Phase.DRAINING and node.retiring is not None and node.pool is not None


def _is_lost(node: Node) -> bool:
    return any(condition.fatal for condition in node.conditions)


def _may_be_cut_short(node: Node) -> bool:
    # Work on a sound node is not killed before the workload system was notified: a scale-down can
    # wait for a scheduler that is down. A broken node cannot.
    assert node.retiring is not None, node.id
    return node.told is NotifiedState.DRAINING or not node.retiring.surplus


def seen_by_drains(node: Node) -> object:
    """Return the part of `node` that a plan of drains depends on: unchanged, the plan holds."""
    if node.retiring is None:
        return node.counts, node.gone
    if node.phase not in (Phase.READY, Phase.DRAINING):
        # It does not count. The room it leaves changes nothing: a node that may drain for lack of
        # room could drain before.
        return None
    return node.phase, node.since, node.retiring, _may_be_cut_short(node), _is_lost(node)


TOLD_OF = frozenset({Phase.READY, Phase.DRAINING})
"""The phases in which work can run on a node, so that the workload system needs its state."""


def notice_due(node: Node) -> NotifiedState | None:
    """Return the state of `node` that the workload system has not received yet.

    Bad health alone does not keep work off a node of a pool: the pool's remediation decides, and
    the governor limits it. A bad driver on every machine must not close the whole fleet at once.
    """
    if node.registered_at is None or node.phase not in TOLD_OF:
        return None
    if node.phase is Phase.DRAINING:
        now_true = NotifiedState.DRAINING
    else:
        governed = node.pool is not None and node.recovery is None
        is_open = node.open_to_work if governed else node.serving
        now_true = NotifiedState.OPEN if is_open else NotifiedState.CORDONED
    return None if now_true is node.told else now_true


def notice_reason(node: Node) -> str:
    """Return why no work should run on `node`."""
    if node.retiring is not None:
        return node.retiring.reason
    return node.cordoned or explain(node.conditions)
