"""The bound on replacements that fail: how many machines a pool buys for nothing within an hour.

A fault that every new machine shows, such as a bad image or a bad check, makes each purchase
worthless. A pool that has bought as many failed replacements as the bound allows waits until the
hour is over, whatever came up in between. Several nodes that are lost together are replaced by a
few machines first; the others follow once one of these has come up.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.boot_times import AS_CONFIGURED, BootWatch
from navarch.fleet.disruption.governor.domain_stats import fingerprints
from navarch.fleet.launch_breaker import Failure, asked_at, is_coming, missing_agents
from navarch.fleet.replacement_loop import PROBATION, ReplacementLoop, fallen_ill

WINDOW = timedelta(hours=1)


def find_replacement_bound(
    pool: Pool,
    nodes: Iterable[Node],
    *,
    failed_max: int,
    now: datetime,
    boots: BootWatch = AS_CONFIGURED,
) -> ReplacementLoop | None:
    """Return why `pool` may buy no replacement now, None if it may.

    `nodes` are all stored nodes of the pool. At most `failed_max` machines that fail are bought
    within an hour, or one gang.
    """
    if pool.deleted:
        return None
    young = _young(nodes, now)
    failures = _failures(pool, young, boots, now)
    recent = [node for node in young if node.launch and asked_at(node) > now - WINDOW]
    came_up_at = max(
        (x.registered_at for x in recent if x.registered_at and x.health is Health.HEALTHY),
        default=None,
    )
    if came_up_at is not None and not failures:
        return None
    begun_at = min((failure.at for failure in failures.values()), default=now)
    spent = [
        node
        for node in recent
        if (node.replaces is not None or asked_at(node) >= begun_at)
        and (node.id in failures or _is_untested(pool, node, boots, now))
    ]
    most = max(failed_max, pool.gang or 1)
    left = max(most - len(spent), 0)
    is_reached = bool(failures) and not left
    until = sorted(map(asked_at, spent))[len(spent) - most] + WINDOW if is_reached else now + WINDOW
    return ReplacementLoop(
        reason=_reason(pool, failures, spent, most, until),
        until=until,
        allowance=left,
        pauses=is_reached,
        lets_grow=not failures or (came_up_at is not None and came_up_at >= begun_at),
        faults=frozenset(x for each in failures.values() for x in fingerprints(each.node)),
    )


def _young(nodes: Iterable[Node], now: datetime) -> list[Node]:
    """Return the nodes that can count: most nodes of a large pool have been well for long."""
    since, came_since = now - WINDOW, now - WINDOW - PROBATION
    return [
        node
        for node in nodes
        if (came_at := node.registered_at) is None
        or came_at > came_since
        or node.retiring is not None
        or asked_at(node) > since
    ]


def _reason(
    pool: Pool,
    failures: Mapping[NodeId, Failure],
    spent: Sequence[Node],
    most: int,
    until: datetime,
) -> str:
    if not failures:
        return f"{len(spent)} replacements come up first; the others follow once one has"
    last = max(failures.values(), key=lambda each: (each.at, each.node.id))
    failed = sum(node.id in failures for node in spent)
    return (
        f"{failed} of {len(spent)} replacements of the last hour failed, at last "
        f"{last.node.id}: {last.reason}; the limit is {most}, the next is bought at "
        f"{until:%H:%M:%S} UTC, or now with `navarch held release --pool {pool.name}`"
    )


def _failures(
    pool: Pool, nodes: Iterable[Node], boots: BootWatch, now: datetime
) -> dict[NodeId, Failure]:
    """Return the machines that failed within the last hour: no agent, or ill soon after."""
    found = (*missing_agents(pool, nodes, boots, now), *fallen_ill(pool, nodes))
    return {each.node.id: each for each in found if each.at > now - WINDOW}


def _is_untested(pool: Pool, node: Node, boots: BootWatch, now: datetime) -> bool:
    """Return whether the machine of `node` is under way, or has not reported its health yet."""
    if node.registered_at is None:
        return is_coming(pool, node, boots, now)
    return node.counts and node.health is Health.UNKNOWN
