"""The health of a fleet and its failure statistics, computed from the store."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import isinf

from navarch.control.runtime.controller import retried
from navarch.core.disruption import DeferredBy
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId, PoolName, ProviderName
from navarch.core.launch import Launch
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.core.recovery import Recovery
from navarch.health.learning.lemons import WINDOW, exposure_days, is_strike, rate, score_lemons
from navarch.health.learning.stragglers import STRAGGLER
from navarch.health.learning.wear import WEAR
from navarch.ports.clock import Clock
from navarch.ports.fleet_health import (
    FailureRate,
    FleetHealth,
    GpuWarning,
    HeldNode,
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


class HeldService:
    """Serves HeldApi by recording releases; the remediation controller acts on them."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store

    async def list_held(self, *, pool: PoolName | None = None) -> Sequence[HeldNode]:
        """Return every node with a held action, the longest held first."""
        fleet = self._store.fleet()
        if pool is not None and pool not in fleet.pools:
            raise NotFoundError(f"pool not found: {pool}")
        nodes = fleet.nodes if pool is None else fleet.in_pool(pool)
        found = [shown for node in nodes.values() if (shown := _shown(node)) is not None]
        return sorted(found, key=lambda each: (each.held.since, each.node))

    @retried
    async def release_held(
        self, nodes: Sequence[NodeId] = (), *, pool: PoolName | None = None, reason: str
    ) -> Sequence[HeldNode]:
        """Release held actions of nodes, or of all nodes of a pool."""
        if bool(nodes) is (pool is not None):
            raise InvalidError("specify either nodes or a pool")
        fleet = self._store.fleet()
        braked: list[Pool] = []
        if pool is None:
            waiting = [_waiting(fleet, name) for name in nodes]
        else:
            held = await self.list_held(pool=pool)
            waiting = [fleet.nodes[x.node] for x in held if x.held.releasable]
            paused = fleet.pools[pool].braked or fleet.pools[pool].held
            braked = [fleet.pools[pool]] if paused else []
            if not waiting and not braked:
                for each in held:
                    if each.held.by is DeferredBy.REMEDIATOR:
                        _check_releasable(fleet.nodes[each.node])
                dry = " but a dry run" if held else ""
                raise NotPossibleError(f"nothing is held back in pool {pool}{dry}")
        now = self._clock.now()
        why = reason.strip() or "released by hand"
        after = [_released(node, why) for node in waiting]
        events = [
            Event(at=now, about=about("node", node.id), kind="node.released", reason=why)
            for node in after
        ]
        events += [
            Event(at=now, about=about("pool", each.name), kind="pool.unbraked", reason=why)
            for each in braked
        ]
        pools = [evolve(each, braked=None, brake_released_at=now) for each in braked]
        change = Change(pools=pools, nodes=after, events=events)
        await self._store.commit(change, based_on=fleet.revision)
        return [shown for node in after if (shown := _shown(node)) is not None]

    async def list_recoveries(self, *, node: NodeId | None = None) -> Sequence[Recovery]:
        """Return the stored recoveries, newest first."""
        known = self._store.fleet().recoveries.values()
        found = [recovery for recovery in known if node is None or recovery.node == node]
        return sorted(found, key=lambda each: (each.begun_at, each.id), reverse=True)


def _shown(node: Node) -> HeldNode | None:
    if node.held is None or node.gone:
        return None
    return HeldNode(node=node.id, pool=node.pool, held=node.held)


def _waiting(fleet: Fleet, name: NodeId) -> Node:
    node = fleet.nodes.get(name)
    if node is None:
        raise NotFoundError(f"node not found: {name}")
    if node.held is None or node.gone:
        raise NotPossibleError(f"nothing is held back about node {name}")
    _check_releasable(node)
    return node


def _check_releasable(node: Node) -> None:
    """Raise NotPossibleError if the held action cannot be released."""
    assert node.held is not None, node.id
    instead = f"or use `navarch terminate {node.id}`"
    if node.held.by is DeferredBy.DRY_RUN:
        raise NotPossibleError(f"remediation of pool {node.pool} is a dry run; end that, {instead}")
    if node.held.by is DeferredBy.REMEDIATOR:
        raise NotPossibleError(
            f"nothing is decided about node {node.id}: {node.held.because}; repair the remediator, "
            f"give pool {node.pool} another, {instead}"
        )


def _released(node: Node, why: str) -> Node:
    assert node.held is not None, node.id
    return evolve(node, held=evolve(node.held, released=why))
