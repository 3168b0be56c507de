"""The health of a fleet and its failure statistics, computed from the store."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from math import isinf

from navarch.core.fleet import Fleet
from navarch.core.ids import PoolName, ProviderName
from navarch.core.launch import Launch
from navarch.core.node import Node
from navarch.health.learning.lemons import WINDOW, exposure_days, is_strike, score_lemons
from navarch.health.learning.rates import rate
from navarch.health.learning.stragglers import STRAGGLER
from navarch.health.learning.wear import WEAR
from navarch.ports.clock import Clock
from navarch.ports.fleet_health import (
    FailureRate,
    FleetHealth,
    GpuWarning,
    LemonView,
    PoolHealth,
)
from navarch.ports.store import Store

LEMONS_MAX = 10

Kind = tuple[ProviderName, str]


class FleetHealthService:
    """Serves FleetHealthApi."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store

    async def fleet_health(self) -> FleetHealth:
        """Return the counts of every pool, the worst machines, and failure rates by type."""
        fleet, now = self._store.fleet(), self._clock.now()
        past = await self._store.launches()
        lemons = score_lemons(fleet.nodes, fleet.incidents.values(), now=now)
        return FleetHealth(
            now=now,
            pools=tuple(_pools(fleet)),
            lemons=tuple(
                LemonView(
                    node=each.node,
                    gpu=each.gpu,
                    score=round(each.score, 2),
                    strikes=each.strikes,
                    is_lemon=each.is_lemon,
                    causes=each.causes,
                    slot=each.slot,
                    host=each.host,
                )
                for each in lemons[:LEMONS_MAX]
            ),
            # Wear comes first: it ends with a failure.
            warnings=tuple(
                sorted(_warnings(fleet), key=lambda x: (x.kind != WEAR, x.since, x.node, x.gpu))
            ),
            rates=tuple(failure_rates(fleet, past, now=now)),
            window_days=WINDOW.days,
        )


def _pools(fleet: Fleet) -> Iterable[PoolHealth]:
    unpooled = [node for node in fleet.nodes.values() if node.pool is None]
    open_in = Counter(i.pool for i in fleet.incidents.values() if i.is_open)
    for name in sorted(fleet.pools):
        members = fleet.in_pool(name).values()
        dry_run = fleet.pools[name].remediation.dry_run
        yield _pool(name, members, open_in[name], dry_run=dry_run)
    if any(not node.gone for node in unpooled):
        yield _pool(None, unpooled, open_in[None], dry_run=False)


def _pool(
    name: PoolName | None, members: Iterable[Node], incidents: int, *, dry_run: bool
) -> PoolHealth:
    there = [node for node in members if not node.gone]
    return PoolHealth(
        pool=name,
        nodes=len(there),
        by_health=dict(sorted(Counter(str(node.health) for node in there).items())),
        incidents=incidents,
        held=sum(node.held is not None and not node.held.released for node in there),
        recovering=sum(node.recovery is not None for node in there),
        replacing=sum(n.retiring is not None and not n.retiring.surplus for n in there),
        dry_run=dry_run,
    )


def _warnings(fleet: Fleet) -> Iterable[GpuWarning]:
    """Yield the conditions of GPUs that work but wear out or straggle."""
    for node in fleet.nodes.values():
        if node.gone:
            continue
        for condition in node.conditions:
            kind, _, gpu = condition.check.partition("/")
            if kind in (WEAR, STRAGGLER):
                yield GpuWarning(
                    node=node.id,
                    gpu=gpu,
                    kind=kind,
                    reason=condition.reason,
                    since=condition.since,
                )


def failure_rates(fleet: Fleet, past: Iterable[Launch], *, now: datetime) -> list[FailureRate]:
    """Return the failure rate of each type of machine of each provider, the worst first.

    Machines that are gone count for their lifetime; otherwise types that fail and are terminated
    early would look as good as the others.
    """
    days: dict[Kind, float] = defaultdict(float)
    for node in fleet.nodes.values():
        if node.place is not None and not node.gone:
            kind = (node.place.provider, node.place.instance_type)
            days[kind] += exposure_days(node, now=now)
    for launch in past:
        if launch.launched_at is not None and launch.ended_at is not None:
            ran = launch.ended_at - max(launch.launched_at, now - WINDOW)
            kind = (launch.offering.provider, launch.offering.instance_type)
            days[kind] += max(ran / timedelta(days=1), 0.0)
    failures = Counter(
        (ProviderName(incident.provider), incident.instance_type)
        for incident in fleet.incidents.values()
        if is_strike(incident) and incident.last_at > now - WINDOW
    )
    found = []
    for provider, instance_type in sorted(days):
        known = rate(failures[provider, instance_type], days[provider, instance_type])
        found.append(
            FailureRate(
                provider=provider,
                instance_type=instance_type,
                failures=known.failures,
                node_days=round(known.node_days, 2),
                per_1000_node_days=round(known.per_1000, 3),
                low=round(known.low, 3),
                high=None if isinf(known.high) else round(known.high, 3),
            )
        )
    return sorted(found, key=lambda r: (-r.per_1000_node_days, r.provider, r.instance_type))
