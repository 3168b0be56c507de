"""The API for operators, in-process."""

from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from heapq import nlargest
from typing import Protocol, TypeVar

from navarch.control.pools.ledger import Ledger
from navarch.control.runtime.controller import retried
from navarch.core.alert import AlertGroup
from navarch.core.budget import Budget
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import BY_HAND, Event, Recorded, Subject, about
from navarch.core.fleet import Change, Fleet
from navarch.core.health import CheckResult
from navarch.core.ids import CommandId, IncidentId, NodeId, PoolName, ProviderName
from navarch.core.incident import Incident
from navarch.core.instance import Inventory, NodeMetrics
from navarch.core.launch import Offering
from navarch.core.limits import WATCHES
from navarch.core.node import (
    InstanceState,
    Node,
    NodeStatus,
    Phase,
    Retirement,
    instance_state,
    node_status,
)
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.core.recovery import BUILT_IN_STRATEGIES, Command, CommandKind
from navarch.core.version import VERSION
from navarch.fleet import lifecycle
from navarch.fleet.boot_times import AS_CONFIGURED, BootWatch
from navarch.fleet.verdicts import overridden
from navarch.ports.api import (
    PAGE_SIZE_MAX,
    STILL_CONFIGURED,
    Capacity,
    CostBy,
    CostReport,
    FailingController,
    FleetStatus,
    InstanceView,
    NodeDetail,
    NodeView,
    Offer,
    Page,
    PoolSpec,
    PoolView,
    Query,
    ReplicaStatus,
    StoreStatus,
    Update,
    Why,
)
from navarch.ports.clock import Clock, Entropy
from navarch.ports.store import Replica, Store
from navarch.service.offers import Closed, cost_report, filter_offers, plan_capacity
from navarch.service.paging import INSTANCE_ORDERS, NODE_ORDERS, natural, page_of
from navarch.service.quotas import TeamQuotas
from navarch.service.specs import (
    OnSale,
    check_nodes,
    check_on_sale,
    check_spec,
    check_strategy,
    comes_up_differently,
    pool_from,
    with_prices,
)
from navarch.service.views import (
    count_by_status,
    gpus_of,
    instance_view,
    node_labels,
    node_view,
    pool_view,
    standing,
)
from navarch.service.watching import Watching
from navarch.service.why import explain

K = TypeVar("K")
V = TypeVar("V")

RECENT = 10
"""The number of events, and of open incidents, on the status screen."""

DETAILS_AT_ONCE = 200
"""The nodes with details of one slice, which takes a few milliseconds, encoding included."""

COMMAND_EXPIRES = timedelta(hours=1)


class Readings(Protocol):
    """The last heartbeats and metrics of nodes."""

    def last_heartbeat(self, node: NodeId) -> datetime | None:
        """Return the time of the last heartbeat of `node`."""
        ...

    def metrics(self, node: NodeId) -> NodeMetrics | None:
        """Return the last metrics of `node`."""
        ...


async def no_offerings() -> Sequence[Offering]:
    """Return no offerings: no provider lists what it sells."""
    return ()


async def not_simulated(node: NodeId, _result: CheckResult) -> None:
    """Refuse to inject a fault into real hardware."""
    raise NotPossibleError(
        f"node {node} is not simulated; faults can be injected into simulated nodes only"
    )


class FleetService:
    """Serves FleetApi by recording intents; the controllers carry them out."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        store: Store,
        readings: Readings,
        *,
        offerings: Callable[[], Awaitable[Sequence[Offering]]] = no_offerings,
        assortment: Callable[[], Awaitable[Sequence[Offer]]] | None = None,
        on_sale: Callable[[], Awaitable[Mapping[ProviderName, OnSale]]] | None = None,
        closed: Closed = lambda _: None,
        obstacle: Callable[[PoolName], str | None] = lambda _: None,
        inject: Callable[[NodeId, CheckResult], Awaitable[None]] = not_simulated,
        budgets: Sequence[Budget] = (),
        ledger: Ledger | None = None,
        strategies: Callable[[], Collection[str]] = lambda: BUILT_IN_STRATEGIES,
        missing_agent: Callable[[Pool], str | None] = lambda _: None,
        boots: Callable[[], BootWatch] = lambda: AS_CONFIGURED,
        is_configured: Callable[[PoolName], bool] = lambda _: False,
        failing: Callable[[], Sequence[FailingController]] = lambda: (),
        team: str = "",
        quotas: TeamQuotas | None = None,
    ) -> None:
        """`on_sale` returns what each provider has; without it, a new pool may name anything.

        `missing_agent` returns why no agent would start on the machines of a pool.
        `is_configured` returns whether the configuration file decides what a pool buys.
        `boots` returns what decides how long machines are waited for, `failing` the controllers
        that fail. `team` is the team of new pools that name none, `quotas` bound the
        pools of teams.
        """
        self._clock = clock
        self._entropy = entropy
        self._store = store
        self._readings = readings
        self._offerings = offerings
        self._assortment = assortment
        self._on_sale = on_sale
        self._closed = closed
        self._obstacle = obstacle
        self._inject = inject
        self._budgets = budgets
        self._ledger = ledger or Ledger(clock, store)
        self._watches = 0
        self._strategies = strategies
        self._missing_agent = missing_agent
        self._boots = boots
        self._is_configured = is_configured
        self._failing = failing
        self._team = team
        self._quotas = quotas

    async def status(self) -> FleetStatus:
        """Return the fleet on one screen."""
        fleet = self._store.fleet()
        pools = tuple(await self.list_pools())
        living = [node for node in fleet.nodes.values() if not node.gone]
        registered = [node for node in living if node.registered_at]
        incidents = [incident for incident in fleet.incidents.values() if incident.is_open]
        newest = await self._store.events(newest_first=True, limit=RECENT)
        return FleetStatus(
            cluster=self._store.cluster.id,
            version=VERSION,
            revision=fleet.revision,
            now=self._clock.now(),
            pools=pools,
            nodes_by_status=count_by_status(fleet),
            gpus=sum(gpus_of(node) for node in registered),
            price_per_hour=sum((pool.price_per_hour for pool in pools), Decimal(0)),
            recent=tuple(reversed(newest)),
            nodes_by_health=dict(sorted(Counter(str(x.health) for x in registered).items())),
            open_incidents=len(incidents),
            incidents=tuple(nlargest(RECENT, incidents, key=_newest)),
            store=await self._store_status(),
            failing=(*self._failing(), *_failing_channels(fleet)),
        )

    async def _store_status(self) -> StoreStatus:
        began = self._clock.monotonic()
        info = await self._store.info()
        return StoreStatus(
            kind=info.kind,
            place=info.place,
            bytes=info.bytes,
            answers_in=timedelta(seconds=self._clock.monotonic() - began),
            standbys=tuple(info.standbys),
            replicas=tuple(self._replica(each) for each in info.replicas),
        )

    def _replica(self, found: Replica) -> ReplicaStatus:
        return ReplicaStatus(
            address=found.http,
            version=found.version,
            leads=found.term == self._store.term,
            behind=max(self._store.fleet().revision - found.revision, 0),
            silent_for=timedelta(seconds=found.silent_s),
        )

    async def list_nodes(self, query: Query) -> Page[NodeView]:
        """Return the nodes that match."""
        fleet = self._store.fleet()
        return page_of(
            _nodes_matching(fleet, query),
            query,
            NODE_ORDERS,
            lambda node: self._node_view(fleet, node),
            fleet.revision,
        )

    async def list_node_details(self, query: Query) -> AsyncIterator[Sequence[NodeDetail]]:
        """Yield all nodes that match, by name, some at a time."""
        fleet = self._store.fleet()
        found = sorted(_nodes_matching(fleet, query), key=lambda node: natural(node.id))
        commands: dict[NodeId, list[Command]] = {}
        for command in fleet.commands.values():
            commands.setdefault(command.node, []).append(command)
        for start in range(0, len(found), DETAILS_AT_ONCE):
            # Everything else that is ready runs between two slices.
            await self._clock.sleep(0)
            nodes = found[start : start + DETAILS_AT_ONCE]
            inventories = await self._store.inventories([node.id for node in nodes])
            yield [
                self._detail(fleet, node, inventories.get(node.id), commands.get(node.id, ()))
                for node in nodes
            ]

    async def get_node(self, name: NodeId) -> NodeDetail:
        """Return one node."""
        fleet = self._store.fleet()
        node = _found(fleet.nodes, name, "node")
        inventory = await self._store.inventory(node.id)
        commands = [each for each in fleet.commands.values() if each.node == node.id]
        return self._detail(fleet, node, inventory, commands)

    def _detail(
        self, fleet: Fleet, node: Node, inventory: Inventory | None, commands: Sequence[Command]
    ) -> NodeDetail:
        return NodeDetail(
            node=self._node_view(fleet, node),
            inventory=inventory,
            metrics=None if node.gone else self._readings.metrics(node.id),
            commands=tuple(commands),
        )

    async def list_instances(self, query: Query) -> Page[InstanceView]:
        """Return the machines that match."""
        fleet = self._store.fleet()
        ended = (InstanceState.TERMINATED, InstanceState.FAILED)
        gone = query.include_gone or query.state in ended
        found = (
            node
            for node in _matching(fleet, query)
            if (node.launch or node.attempts)
            and (gone or not node.gone)
            and (query.state is None or instance_state(node) is query.state)
        )
        return page_of(
            found,
            query,
            INSTANCE_ORDERS,
            lambda node: instance_view(node, _pool_of(fleet, node)),
            fleet.revision,
        )

    async def get_instance(self, name: str) -> InstanceView:
        """Return one machine, by its provider's name, its launch's token or its node's name."""
        fleet = self._store.fleet()
        for node in fleet.nodes.values():
            token = node.launch.token if node.launch else None
            if name in (node.instance, token, node.id):
                return instance_view(node, _pool_of(fleet, node))
        raise NotFoundError(f"instance not found: {name}")

    async def list_pools(self) -> Sequence[PoolView]:
        """Return every pool, by name."""
        fleet = self._store.fleet()
        shown = (self._show_pool(fleet, name) for name in sorted(fleet.pools))
        return [pool for pool in shown if pool is not None]

    def _show_pool(self, fleet: Fleet, name: PoolName) -> PoolView | None:
        """Return a pool, or None if it is deleted and its last machine is gone."""
        pool = fleet.pools.get(name)
        members = fleet.in_pool(name).values()
        if pool is None or (pool.deleted and all(node.gone for node in members)):
            return None
        return pool_view(pool, members, self._obstacle(name), fleet.hosts_of(name))

    async def get_pool(self, name: PoolName) -> PoolView:
        """Return one pool."""
        pool = self._show_pool(self._store.fleet(), name)
        if pool is None:
            raise NotFoundError(f"pool not found: {name}")
        return pool

    async def put_pool(self, spec: PoolSpec, *, reason: str) -> PoolView:
        """Create a pool, or change the one of that name; its counter and size stay."""
        return await self._put_pool(spec, reason, agentless=False)

    async def put_configured_pool(self, spec: PoolSpec) -> PoolView:
        """Create or change a pool of the configuration file.

        If no agent would register from its machines, it keeps its nodes and buys none.
        """
        return await self._put_pool(spec, "the configuration says so", agentless=True)

    @retried
    async def _put_pool(self, spec: PoolSpec, reason: str, *, agentless: bool) -> PoolView:
        check_spec(spec)
        check_strategy(spec.remediation, self._strategies())
        # Of a pool of the configuration file, the file decides what it buys.
        if self._on_sale is not None and not self._is_configured(spec.name):
            on_sale = await self._on_sale()
            pools = self._store.fleet().pools
            check_on_sale(spec, pools.values(), on_sale)
            spec = with_prices(spec, pools.get(spec.name), on_sale)
        fleet = self._store.fleet()
        before = fleet.pools.get(spec.name)
        if self._team and "team" not in spec.labels:
            spec = replace(spec, labels={**spec.labels, "team": self._team})
        after = self._sized(pool_from(spec, before), before)
        missing = None if agentless else self._missing_agent(after)
        if missing is not None:
            raise InvalidError(missing)
        if after == before:
            return _pool_view(fleet, after)
        if before is not None and before.braked and comes_up_differently(before, after):
            after = evolve(after, brake_released_at=self._clock.now())
        kind = "pool.created" if before is None or before.deleted else "pool.changed"
        return await self._commit_pool(fleet, after, kind, reason)

    @retried
    async def scale(self, pool: PoolName, nodes: int, *, reason: str) -> PoolView:
        """Set the size of a pool, within its bounds and the limit of nodes per pool."""
        check_nodes("nodes", nodes)
        fleet = self._store.fleet()
        before = _pool(fleet, pool)
        if not before.nodes_min <= nodes <= before.nodes_max:
            raise InvalidError(
                f"pool {pool} holds {before.nodes_min} to {before.nodes_max} nodes, not {nodes}"
            )
        if before.gang and nodes % before.gang:
            low = nodes // before.gang * before.gang
            raise InvalidError(
                f"pool {pool} comes in gangs of {before.gang}: "
                f"request {low} or {low + before.gang} nodes, not {nodes}"
            )
        if before.size == nodes and before.nodes_wanted == nodes:
            return _pool_view(fleet, before)
        after = self._sized(evolve(before, nodes_wanted=nodes), before)
        text = f"{before.size} to {nodes} nodes: {reason}"
        return await self._commit_pool(fleet, after, "pool.scaled", text)

    def _sized(self, after: Pool, before: Pool | None) -> Pool:
        """Record the time of a manual change of size, which autoscalers respect for a while."""
        if before is None or before.deleted:
            by_hand = after.nodes_wanted is not None
        else:
            by_hand = after.size != before.size
        return evolve(after, scaled_at=self._clock.now()) if by_hand else after

    @retried
    async def delete_pool(self, pool: PoolName, *, reason: str) -> PoolView:
        """Drain and terminate every node of a pool, then delete the pool."""
        fleet = self._store.fleet()
        after = evolve(_pool(fleet, pool), deleted=True, nodes_wanted=None)
        view = await self._commit_pool(fleet, after, "pool.deleted", reason)
        if not self._is_configured(pool):
            return view
        return replace(view, note=STILL_CONFIGURED)

    async def up(self, capacity: Capacity) -> PoolView:
        """Create a pool with that many GPUs, or adjust the pool of that name."""
        before = self._store.fleet().pools.get(capacity.name)
        keep = self._is_configured(capacity.name)
        spec = plan_capacity(capacity, await self._offerings(), before, keep_offerings=keep)
        reason = f"{capacity.gpus} GPUs of type {capacity.gpu_type} were requested"
        return await self.put_pool(spec, reason=reason)

    async def offers(
        self,
        *,
        gpu_type: str = "",
        gpus: int = 0,
        provider: str | None = None,
        region: str | None = None,
    ) -> Sequence[Offer]:
        """Return the offers, cheapest first, including those that are sold out."""
        if self._assortment is not None:
            offers = await self._assortment()
        else:
            offers = [Offer(offering=each) for each in await self._offerings()]
        return filter_offers(
            offers,
            self._store.fleet().pools.values(),
            self._closed,
            gpu_type=gpu_type,
            gpus=gpus,
            provider=provider,
            region=region,
        )

    async def _commit_pool(self, fleet: Fleet, pool: Pool, kind: str, reason: str) -> PoolView:
        event = Event(
            at=self._clock.now(),
            about=about("pool", pool.name),
            kind=kind,
            reason=reason,
            facts={
                "nodes_min": str(pool.nodes_min),
                "nodes_max": str(pool.nodes_max),
                "size": str(pool.size),
                "by": BY_HAND,
            },
        )
        change = Change(pools=[pool], events=[event])
        if self._quotas is None:
            after = await self._store.commit(change, based_on=fleet.revision)
        else:
            async with self._quotas.turn:
                self._quotas.check(pool)
                after = await self._store.commit(change, based_on=fleet.revision)
        return _pool_view(after, pool)

    async def cordon(self, node: NodeId, *, reason: str) -> NodeView:
        """Keep new work off a node."""

        def cordoned(before: Node, now: datetime) -> tuple[Node, list[Event]]:
            after = evolve(before, cordoned=reason or "cordoned by hand")
            after = lifecycle.undrain(after, now=now)
            return after, [_event(after, "node.cordoned", after.cordoned or "", now)]

        return await self._amend(node, cordoned)

    async def uncordon(self, node: NodeId) -> NodeView:
        """Lift a cordon, and call off a drain that an operator requested."""

        def uncordoned(before: Node, now: datetime) -> tuple[Node, list[Event]]:
            if before.retiring is not None:
                raise NotPossibleError(
                    f"node {before.id} is being terminated: {before.retiring.reason}"
                )
            is_draining = before.phase is Phase.DRAINING
            if before.recovery is not None and is_draining:
                recovery = self._store.fleet().recoveries.get(before.recovery)
                cause = f": {recovery.cause}" if recovery else ""
                raise NotPossibleError(f"node {before.id} is drained for a repair{cause}")
            if before.cordoned is None and not is_draining:
                status = node_status(before) or before.phase
                raise NotPossibleError(
                    f"node {before.id} is not cordoned (current status: {status})"
                )
            after = lifecycle.undrain(evolve(before, cordoned=None), now=now)
            return after, [_event(after, "node.uncordoned", "by hand", now)]

        return await self._amend(node, uncordoned)

    async def drain(self, node: NodeId, *, reason: str) -> NodeView:
        """Move the work off a node; the node stays."""

        def draining(before: Node, now: datetime) -> tuple[Node, list[Event]]:
            if before.phase is Phase.DRAINING:
                return before, []
            if before.phase is not Phase.READY:
                raise NotPossibleError(f"node {before.id} cannot be drained: it is {before.phase}")
            why = reason or "drained by hand"
            after, _ = lifecycle.drain(before, why, now=now, cordoned=before.cordoned or why)
            return after, [_event(after, "node.draining", why, now)]

        return await self._amend(node, draining)

    async def retire(self, node: NodeId, *, reason: str) -> NodeView:
        """Drain a node and terminate its machine."""

        def retiring(before: Node, now: datetime) -> tuple[Node, list[Event]]:
            if before.launch is None and before.phase is not Phase.REQUESTED:
                raise NotPossibleError(
                    f"node {before.id} was not bought by Navarch; stop its machine yourself"
                )
            if before.retiring is not None:
                return before, []
            after = lifecycle.retire(before, Retirement(reason=reason), now=now)
            return after, [_event(after, "node.retiring", reason, now)]

        return await self._amend(node, retiring)

    async def declare_healthy(self, node: NodeId, *, reason: str) -> NodeView:
        """Override the results of a node's checks."""
        if not reason.strip():
            raise InvalidError("an override needs a reason")
        return await self._amend(node, lambda before, now: overridden(before, reason, now=now))

    @retried
    async def _amend(
        self, name: NodeId, change: Callable[[Node, datetime], tuple[Node, list[Event]]]
    ) -> NodeView:
        fleet = self._store.fleet()
        before = _found(fleet.nodes, name, "node")
        if before.gone:
            raise NotPossibleError(f"node {name} is gone")
        after, events = change(before, self._clock.now())
        if after != before or events:
            launches = [after.launch] if after.gone and after.launch else []
            written = Change(nodes=[after], launches=launches, events=events)
            fleet = await self._store.commit(written, based_on=fleet.revision)
        return self._node_view(fleet, after)

    async def issue(
        self, node: NodeId, kind: CommandKind, parameters: Mapping[str, str] | None = None
    ) -> Command:
        """Send a command to a node's agent."""
        if kind is CommandKind.PROBE:
            raise InvalidError("only the control plane itself issues probes")
        _found(self._store.fleet().nodes, node, "node")
        now = self._clock.now()
        command = Command(
            id=CommandId(self._entropy.new_id("command")),
            node=node,
            kind=kind,
            parameters=parameters or {},
            issued_at=now,
            expires_at=now + COMMAND_EXPIRES,
        )
        event = Event(
            at=now,
            about=about("command", command.id),
            kind="command.issued",
            reason=f"{kind} for {node}",
            because=(about("node", node),),
        )
        change = Change(commands=[command], events=[event])
        await self._store.commit(change, based_on=self._store.fleet().revision)
        return command

    async def get_command(self, command: CommandId) -> Command:
        """Return a command with its present status."""
        return _found(self._store.fleet().commands, command, "command")

    async def inject(self, node: NodeId, result: CheckResult) -> None:
        """Make a simulated machine report a fault."""
        if _found(self._store.fleet().nodes, node, "node").gone:
            raise NotPossibleError(f"node {node} is gone; list the others with: navarch list")
        await self._inject(node, result)

    async def list_incidents(
        self, *, node: NodeId | None = None, only_open: bool = False, limit: int = 100
    ) -> Sequence[Incident]:
        """Return incidents, newest first."""
        if not 1 <= limit <= PAGE_SIZE_MAX:
            raise InvalidError(f"limit: must be 1 to {PAGE_SIZE_MAX}, not {limit}")
        found = [
            incident
            for incident in self._store.fleet().incidents.values()
            if (node is None or node in incident.nodes) and (incident.is_open or not only_open)
        ]
        return sorted(found, key=_newest, reverse=True)[:limit]

    async def get_incident(self, incident: IncidentId) -> Incident:
        """Return one incident with all its symptoms."""
        return _found(self._store.fleet().incidents, incident, "incident")

    async def events(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        about: Subject | None = None,
        newest_first: bool = False,
        limit: int = 100,
    ) -> Sequence[Recorded]:
        """Return events between two numbers: the oldest in order, or the newest in reverse."""
        if not 1 <= limit <= PAGE_SIZE_MAX:
            raise InvalidError(f"limit: must be 1 to {PAGE_SIZE_MAX}, not {limit}")
        return await self._store.events(
            after=after, before=before, about=about, newest_first=newest_first, limit=limit
        )

    def watch(self, *, after_revision: int | None = None) -> AsyncIterator[Update]:
        """Yield every revision after the given one."""
        watching = Watching(self._store, show_node=self._show_node, show_pool=self._show_pool)
        return self._counted(watching.updates(after_revision))

    async def _counted(self, updates: AsyncGenerator[Update, None]) -> AsyncIterator[Update]:
        """Yield the updates, unless too many clients watch: each costs time in every commit."""
        WATCHES.check_room(self._watches + 1)
        self._watches += 1
        try:
            async with aclosing(updates):
                async for update in updates:
                    yield update
        finally:
            self._watches -= 1

    async def cost(self, by: CostBy = CostBy.POOL, *, since: datetime | None = None) -> CostReport:
        """Return the costs since `since`, by default since the beginning of this month."""
        now = self._clock.now()
        if since is not None and since > now:
            raise InvalidError("since: is in the future")
        return await cost_report(self._ledger, self._budgets, by=by, since=since, now=now)

    async def why(self, about: Subject) -> Why:
        """Return the reasons for the state of a node, a pool or a launch."""
        why = await explain(self._store, about)
        # The events alone do not show the present state of a pool, a launch or a boot.
        fleet = self._store.fleet()
        kind, _, name = why.about.partition("/")
        if kind == "pool" and (pool := self._show_pool(fleet, PoolName(name))) is not None:
            return replace(why, state=standing(pool))
        if kind == "node" and (node := fleet.nodes.get(NodeId(name))) is not None:
            owner = fleet.pools.get(node.pool) if node.pool is not None else None
            if node.phase is Phase.BOOTING and node.counts and owner is not None:
                waits = self._boots().awaited(owner, node, self._clock.now())
                return replace(why, state=f"{why.state}: {waits}")
            obstacle = self._obstacle(node.pool) if node.pool and node.attempts else None
            if node.phase is Phase.REQUESTED and obstacle:
                refused = f"launches refused so far: {node.attempts}; the last: {obstacle}"
                return replace(why, state=f"{why.state}; {refused}")
        if kind == "launch":
            for launch in (node.launch for node in fleet.nodes.values()):
                if launch is not None and launch.token == name and launch.instance:
                    return replace(why, state=f"bought, as {launch.instance} for {launch.node}")
        return why

    def _node_view(self, fleet: Fleet, node: Node) -> NodeView:
        recovery = fleet.recoveries.get(node.recovery) if node.recovery else None
        # Readings of a node that is gone are not kept.
        last_heartbeat = None if node.gone else self._readings.last_heartbeat(node.id)
        return node_view(node, _pool_of(fleet, node), last_heartbeat, recovery)

    def _show_node(self, fleet: Fleet, name: NodeId) -> NodeView | None:
        node = fleet.nodes.get(name)
        return None if node is None else self._node_view(fleet, node)


def _newest(incident: Incident) -> tuple[datetime, IncidentId]:
    return incident.opened_at, incident.id


def _failing_channels(fleet: Fleet) -> Iterator[FailingController]:
    """Yield the channels that do not accept alerts, each once."""
    found: dict[str, AlertGroup] = {}
    for group in fleet.alert_groups.values():
        worst = found.get(group.channel)
        if group.attempts and (worst is None or group.attempts > worst.attempts):
            found[group.channel] = group
    for channel, group in found.items():
        since = group.pending_since or group.log[-1].at
        yield FailingController(
            name=f"alerts/{channel}",
            error=group.error,
            times=group.attempts,
            since=since,
            retry_at=group.next_at or since,
        )


def _nodes_matching(fleet: Fleet, query: Query) -> Iterator[Node]:
    """Yield the nodes that match every filter."""
    gone = query.include_gone or query.status is NodeStatus.TERMINATED
    for node in _matching(fleet, query):
        if (
            (gone or not node.gone)
            and (query.status is None or node_status(node) is query.status)
            and (query.health is None or node.health is query.health)
        ):
            yield node


def _matching(fleet: Fleet, query: Query) -> Iterator[Node]:
    """Yield the nodes that match the filters common to nodes and machines."""
    nodes = fleet.nodes if query.pool is None else fleet.in_pool(query.pool)
    for node in nodes.values():
        provider, region = (node.place.provider, node.place.region) if node.place else ("", "")
        if query.provider not in (None, provider) or query.region not in (None, region):
            continue
        if query.labels:
            labels = node_labels(node, _pool_of(fleet, node))
            if not query.labels.items() <= labels.items():
                continue
        yield node


def _pool_view(fleet: Fleet, pool: Pool) -> PoolView:
    members = fleet.in_pool(pool.name).values()
    return pool_view(pool, members, hosts=fleet.hosts_of(pool.name))


def _pool_of(fleet: Fleet, node: Node) -> Pool | None:
    return None if node.pool is None else fleet.pools.get(node.pool)


def _found(records: Mapping[K, V], name: K, kind: str) -> V:
    found = records.get(name)
    if found is None:
        raise NotFoundError(f"{kind} not found: {name}")
    return found


def _pool(fleet: Fleet, name: PoolName) -> Pool:
    pool = fleet.pools.get(name)
    if pool is None or pool.deleted:
        raise NotFoundError(f"pool not found: {name}")
    return pool


def _event(node: Node, kind: str, reason: str, now: datetime) -> Event:
    facts = {"phase": str(node.phase), "by": BY_HAND}
    return Event(at=now, about=about("node", node.id), kind=kind, reason=reason, facts=facts)
