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
    for node, due_at in _next_verdicts(fleet, silent, timeout):
        if now >= due_at:
            reason = f"no report since {silent[node.id]:%Y-%m-%d %H:%M:%S} UTC"
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
    return min((due_at for _, due_at in _next_verdicts(fleet, silent, timeout)), default=None)


def _next_verdicts(
    fleet: Fleet, silent: Mapping[NodeId, datetime], timeout: timedelta
) -> Iterator[tuple[Node, datetime]]:
    """Yield each silent node with further verdicts to come, and when the next one is due."""
    for name, last_report in silent.items():
        node = fleet.nodes.get(name)
        if node is None or node.phase not in _WATCHED:
            continue
        before = heartbeat_condition(node)
        verdicts = before.times if before else 0
        pool = fleet.pools.get(node.pool) if node.pool is not None else None
        verdicts_max = pool.unhealthy_after if pool and node.counts else 1
        if verdicts < verdicts_max:
            yield node, last_report + timeout * (verdicts + 1)


def heartbeat_condition(node: Node) -> Condition | None:
    """Return the condition that marks `node` as silent, if there is one."""
    for condition in node.conditions:
        if condition.check == HEARTBEAT:
            return condition
    return None


def is_proven_dead(node: Node) -> bool:
    """Return whether a witness proves that a silent machine is dead, and none contradicts it."""
    found = {testimony.alive for testimony in node.testimonies}
    return False in found and True not in found


def is_known_to_work(node: Node) -> bool:
    """Return whether a witness proves that a silent machine works, and none contradicts it."""
    found = {testimony.alive for testimony in node.testimonies}
    return True in found and False not in found


def testified(node: Node, *, alive: bool) -> str:
    """Return the reasons of the witnesses that prove the machine `alive`, or dead."""
    reasons = [f"{each.witness}: {each.reason}" for each in node.testimonies if each.alive is alive]
    return "; ".join(reasons)
