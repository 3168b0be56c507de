"""Nodes that have not reported for too long."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from navarch.core.fleet import Fleet
from navarch.core.health import HEARTBEAT, CheckResult, Condition, Health
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase

_WATCHED = (Phase.READY, Phase.DRAINING)


def judge_silence(
    fleet: Fleet, silent: Mapping[NodeId, datetime], *, timeout: timedelta, now: datetime
) -> Iterator[tuple[Node, CheckResult]]:
    """Yield the nodes that have been silent for another timeout.

    Each timeout counts as one more unhealthy verdict in a row, so that a dead machine is replaced
    after as many timeouts as its pool requires verdicts.
    """
    for name, last_heard in silent.items():
        node = fleet.nodes.get(name)
        if node is None or node.phase not in _WATCHED:
            continue
        before = heartbeat_condition(node)
        verdicts = before.times if before else 0
        if verdicts < _verdicts_max(fleet, node) and now >= last_heard + timeout * (verdicts + 1):
            reason = f"no report since {last_heard:%Y-%m-%d %H:%M:%S} UTC"
            yield node, CheckResult(check=HEARTBEAT, health=Health.UNHEALTHY, reason=reason)


def judge_return(
    fleet: Fleet, marked: Iterable[NodeId], silent: Mapping[NodeId, datetime]
) -> Iterator[tuple[Node, CheckResult]]:
    """Yield the nodes that are marked silent but report again."""
    for name in marked:
        node = fleet.nodes.get(name)
        if node is not None and name not in silent and heartbeat_condition(node):
            yield node, CheckResult(check=HEARTBEAT, health=Health.HEALTHY)


def next_verdict_at(
    fleet: Fleet, silent: Mapping[NodeId, datetime], *, timeout: timedelta
) -> datetime | None:
    """Return when the next timeout of a silent node passes."""
    moments = []
    for name, last_heard in silent.items():
        node = fleet.nodes.get(name)
        if node is None or node.phase not in _WATCHED:
            continue
        before = heartbeat_condition(node)
        verdicts = before.times if before else 0
        if verdicts < _verdicts_max(fleet, node):
            moments.append(last_heard + timeout * (verdicts + 1))
    return min(moments, default=None)


def heartbeat_condition(node: Node) -> Condition | None:
    """Return the condition that marks `node` as silent, if there is one."""
    for condition in node.conditions:
        if condition.check == HEARTBEAT:
            return condition
    return None


def _verdicts_max(fleet: Fleet, node: Node) -> int:
    pool = fleet.pools.get(node.pool) if node.pool is not None else None
    return pool.unhealthy_after if pool and node.counts else 1
