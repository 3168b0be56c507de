"""The plan of one pool's size: launch breakers, replacements and the planner, put together."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

from navarch.core.ids import ProviderName, Token
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.boot_times import BootWatch
from navarch.fleet.disruption.costly import may_be_undercut
from navarch.fleet.disruption.replacement import (
    AwaitsOthers,
    Gangs,
    look_again,
    plan_replacements,
)
from navarch.fleet.disruption.surplus import Loads
from navarch.fleet.launch_breaker import (
    LaunchBreaker,
    find_breaker,
    may_trip,
    quarantined_offerings,
    strictest,
)
from navarch.fleet.plan import Plan
from navarch.fleet.planner import plan_pool, was_lost
from navarch.fleet.pool_index import PoolIndex, SteadyNodes
from navarch.fleet.replacement_bound import find_replacement_bound
from navarch.fleet.replacement_loop import find_replacement_loop
from navarch.fleet.selection import NONE_QUARANTINED, Market
from navarch.ports.provider import ProvisionScheduler

WITHOUT_AGENT_AGAIN = timedelta(minutes=1)
"""How often to check whether agents can start now: a reload of the configuration commits nothing.
"""


def plan_pool_size(
    pool: Pool,
    index: PoolIndex,
    *,
    market: Market,
    scheduler: ProvisionScheduler,
    surveyed: Collection[ProviderName],
    loads: Loads,
    missing_agent: str | None,
    gangs: Gangs,
    awaits_others: AwaitsOthers,
    new_tokens: Iterator[Token],
    boots: BootWatch,
    failed_max: int,
    hosts: int,
    now: datetime,
) -> Plan:
    """Return the plan of `pool`, given the index of its nodes and its self-registered `hosts`.

    Fewer machines are bought for the hosts, and none is terminated, whatever their number.
    `gangs` groups nodes by the jobs that they share, and `awaits_others` returns whether other
    pools of those jobs are not ready yet. `failed_max` is how many failed replacements the pool may
    buy within an hour. `missing_agent` is the reason why no agent
    would start on a new machine, if there is one.
    """
    shown, steady = index.shown_for(pool, now, boots)
    steady = evolve(steady, nodes=steady.nodes + hosts)
    # A pool that churns remembers many nodes that are gone. A plan only needs those it lost.
    known = [node for node in shown if not node.gone or was_lost(pool, node)]
    breaker, quarantined = None, NONE_QUARANTINED
    if may_trip(pool, shown, now=now, boots=boots):
        breaker = find_breaker(pool, index.nodes.values(), now=now, boots=boots)
        quarantined = quarantined_offerings(pool, index.nodes.values(), now=now, boots=boots)
    undercut = may_be_undercut(pool)
    breaker = _with_replacements(
        pool, index, known, steady, breaker, failed_max=failed_max, boots=boots, now=now
    )
    if missing_agent is not None and not pool.deleted:
        reason = f"no machines are bought: {missing_agent}"
        breaker = LaunchBreaker(reason=reason, until=now + WITHOUT_AGENT_AGAIN, allowance=0)
    for_sale = market.for_sale(pool, scheduler, quarantined=quarantined) if undercut else None
    plan = plan_pool(
        pool,
        known,
        replacements=plan_replacements(
            pool, known, for_sale=for_sale, gangs=gangs, awaits_others=awaits_others, now=now
        ),
        now=now,
        new_tokens=new_tokens,
        scheduler=scheduler,
        market=market,
        surveyed=surveyed,
        loads=loads,
        breaker=breaker,
        quarantined=quarantined,
        steady=steady,
        boots=boots,
    )
    moments = (plan.wake_at, look_again(pool, known, undercut=undercut, now=now))
    return evolve(plan, wake_at=min(filter(None, moments), default=None))


def _with_replacements(
    pool: Pool,
    index: PoolIndex,
    known: Sequence[Node],
    steady: SteadyNodes,
    breaker: LaunchBreaker | None,
    *,
    failed_max: int,
    boots: BootWatch,
    now: datetime,
) -> LaunchBreaker | None:
    """Return the limit of purchases after what became of recent replacements."""
    coming_or_there = sum(x.counts and not boots.is_past(pool, x, now) for x in known)
    is_short = steady.nodes + coming_or_there < pool.target
    if (steady.nodes and not is_short) or (breaker is not None and breaker.elsewhere):
        # Only a pool that buys is stopped here. The governor limits replacements.
        return breaker
    stored = index.nodes.values()
    loop = find_replacement_loop(pool, stored, now=now) if is_short else None
    bound = find_replacement_bound(pool, stored, failed_max=failed_max, boots=boots, now=now)
    return strictest([each for each in (breaker, loop, bound) if each is not None])
