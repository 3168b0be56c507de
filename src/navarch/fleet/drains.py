"""Drains: moving work off nodes, and the notices for the workload system."""

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from datetime import datetime, timedelta

from navarch.core.ids import JobName, NodeId
from navarch.core.job import Job
from navarch.core.node import Node, NotifiedState, Phase, Retirement
from navarch.core.pool import Pool
from navarch.fleet.plan import Action, Drain, Plan, Terminate
from navarch.health.conditions import explain

GANG_SETTLING = timedelta(minutes=2)
"""How long the drain of a node with a part of a gang waits for other nodes of the gang to retire.
A fault that several nodes share, such as a hot rack, shows on all of them within this time."""

DRAINED = "drained"
"""The reason to terminate a machine without any work left."""


def plan_drains(
    pool: Pool,
    nodes: Collection[Node],
    *,
    drained: Container[NodeId],
    jobs: Iterable[Job] = (),
    interrupted: Callable[[], Collection[JobName]] = tuple,
    steady: int = 0,
    now: datetime,
) -> Plan:
    """Return which retiring nodes of `pool` start to drain, and which are terminated.

    A node with a replacement drains once the replacement has been requested, so that the pool is
    short for as little time as possible; if the maximum has no room for both, it drains first. A
    node that cannot run work drains at once: while nothing is for sale, it may occupy the only
    slot. Nodes that share a job of `jobs` drain together; `interrupted` returns the jobs with a
    node that drains in any pool. `steady` is the number of nodes that are not in `nodes` because
    they count, and stay.
    """
    actions: list[Action] = []
    moments: list[datetime] = []
    leaving = [node for node in nodes if node.phase is Phase.READY and node.retiring is not None]
    if leaving:
        may_go = _need_not_wait(pool, nodes, steady)
        begin, settled_at = _drains_to_begin(
            nodes, leaving, jobs, interrupted(), now, may_go=may_go
        )
        for node in begin:
            assert node.retiring is not None, node.id
            actions.append(Drain(node=node.id, reason=node.retiring.reason))
            moments.append(now + pool.drain_timeout)
        moments += settled_at
    for node in nodes:
        if node.phase is Phase.DRAINING and node.retiring is not None:
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


def _drains_to_begin(
    nodes: Collection[Node],
    leaving: Sequence[Node],
    jobs: Iterable[Job],
    interrupted: Collection[JobName],
    now: datetime,
    *,
    may_go: bool,
) -> tuple[list[Node], list[datetime]]:
    """Return the nodes of `leaving` that drain now, and when those that still settle will.

    A node with a part of a gang waits until the faults of its neighbours have had time to show, and
    then all retiring nodes of the gang drain at once: the gang is interrupted once. A node joins
    earlier if all of its jobs are interrupted anyway.
    """
    held: dict[NodeId, set[JobName]] = {}
    gangs: set[JobName] = set()
    for job in jobs:
        for name in job.nodes:
            held.setdefault(name, set()).add(job.name)
        if len(set(job.nodes)) > 1:
            gangs.add(job.name)
    draining = [node for node in nodes if node.phase is Phase.DRAINING]
    stopped = {job for node in draining for job in held.get(node.id, ())} | {*interrupted}
    begin: dict[NodeId, Node] = {}
    settled_at: list[datetime] = []
    for node in leaving:
        assert node.retiring is not None, node.id
        at_once = drains_at_once(node, node.retiring)
        if not at_once and not may_go:
            continue
        decided_at = node.retiring.decided_at
        is_in_gang = not gangs.isdisjoint(held.get(node.id, ()))
        if is_in_gang and decided_at is not None and not at_once:
            settles_at = decided_at + GANG_SETTLING
            if now < settles_at:
                settled_at.append(settles_at)
                continue
        begin[node.id] = node
    stopped |= {job for name in begin for job in held.get(name, ())}
    for node in leaving:
        if node.id in held and held[node.id] <= stopped:
            begin.setdefault(node.id, node)
    return list(begin.values()), settled_at


def _need_not_wait(pool: Pool, nodes: Iterable[Node], steady: int) -> bool:
    """Return whether every replacement was requested, or the maximum has no room for another."""
    present = [node for node in nodes if not node.gone]
    if steady + sum(node.counts for node in present) >= pool.size:
        return True
    return steady + len(present) >= pool.nodes_max


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
    return node.notified is NotifiedState.DRAINING or not node.retiring.surplus


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
    the governor limits it. A bad driver on every machine must not close the whole fleet at once. A
    crash loop does: a job that starts there dies again, and few nodes can be in one.
    """
    if node.registered_at is None or node.phase not in TOLD_OF:
        return None
    if node.phase is Phase.DRAINING:
        now_true = NotifiedState.DRAINING
    else:
        governed = node.pool is not None and node.recovery is None
        is_open = node.open_to_work if governed else node.serving
        now_true = NotifiedState.OPEN if is_open else NotifiedState.CORDONED
    return None if now_true is node.notified else now_true


def notice_reason(node: Node) -> str:
    """Return why no work should run on `node`."""
    if node.retiring is not None:
        return node.retiring.reason
    return node.cordoned or explain(node.conditions)
