"""The plan of one pool's size: launch breakers, replacements and the planner, put together."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from navarch.core.ids import ProviderName, Token
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.disruption.costly import may_be_undercut
from navarch.fleet.disruption.replacement import Replacements, look_again, plan_replacements
from navarch.fleet.disruption.surplus import Loads
from navarch.fleet.launch_breaker import (
    LaunchBreaker,
    QuarantinedOffering,
    breaker_without_agent,
    find_breaker,
    may_trip,
    quarantined_offerings,
)
from navarch.fleet.plan import Plan
from navarch.fleet.planner import plan_pool, was_lost
from navarch.fleet.pool_index import NO_STEADY_NODES, PoolIndex
from navarch.fleet.replacement_loop import find_replacement_loop
from navarch.fleet.selection import NONE_QUARANTINED, Market
from navarch.fleet.stockouts import Scope
from navarch.ports.provision import ProvisionScheduler


def plan_pool_size(
    pool: Pool,
    index: PoolIndex,
    *,
    market: Market,
    scheduler: ProvisionScheduler,
    surveyed: Collection[ProviderName],
    loads: Loads,
    missing_agent: str | None,
    new_tokens: Iterator[Token],
    now: datetime,
) -> Plan:
    """Return the plan of `pool`, given the index of its nodes.

    `missing_agent` is the reason why no agent would start on a new machine, if there is one.
    """
    shown, steady = index.shown_for(pool, now)
    # A pool that churns remembers many nodes that are gone. A plan only needs those it lost.
    known = [node for node in shown if not node.gone or was_lost(pool, node)]
    breaker, quarantined = _find_breakers(pool, index, now)
    short = steady.nodes + sum(node.counts for node in known) < pool.target
    breaker = _strictest(pool, index, breaker, missing_agent, short=short, now=now)
    replacements: Replacements | None = None
    again_at: datetime | None = None
    sees_all = steady is NO_STEADY_NODES
    if sees_all or any(node.counts for node in known):
        # Skip replacement by price unless the plan sees every node.
        undercut = sees_all and may_be_undercut(pool)
        for_sale = (
            market.for_sale(pool, scheduler, {}, quarantined=quarantined) if undercut else None
        )
        replacements = plan_replacements(pool, known, for_sale=for_sale, now=now)
        again_at = look_again(pool, known, undercut=undercut, now=now)
    plan = plan_pool(
        pool,
        known,
        replacements=replacements,
        now=now,
        new_tokens=new_tokens,
        scheduler=scheduler,
        market=market,
        surveyed=surveyed,
        loads=loads,
        breaker=breaker,
        quarantined=quarantined,
        steady=steady,
    )
    if again_at is None:
        return plan
    wake_at = again_at if plan.wake_at is None else min(plan.wake_at, again_at)
    return evolve(plan, wake_at=wake_at)


def _find_breakers(
    pool: Pool, index: PoolIndex, now: datetime
) -> tuple[LaunchBreaker | None, Mapping[Scope, QuarantinedOffering]]:
    """Return the launch breaker of `pool` and its quarantined offerings."""
    if not may_trip(pool, index.may_have_failed(pool, now), now=now):
        return None, NONE_QUARANTINED
    nodes: list[Node] = index.all_nodes()
    breaker = find_breaker(pool, nodes, now=now)
    return breaker, quarantined_offerings(pool, nodes, now=now)


def _strictest(
    pool: Pool,
    index: PoolIndex,
    breaker: LaunchBreaker | None,
    missing_agent: str | None,
    *,
    short: bool,
    now: datetime,
) -> LaunchBreaker | None:
    """Return the breaker that applies: missing agent, replacement loop, or `breaker`."""
    if short:
        # Only a pool that buys is stopped here. The governor limits replacements.
        loop = find_replacement_loop(pool, index.all_nodes(), now=now)
        if loop is not None and (breaker is None or loop.until > breaker.until):
            breaker = loop
    return breaker_without_agent(pool, missing_agent, now=now) or breaker
