"""Sizing: keeps every pool at its size, within its budgets and what providers sell."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from functools import partial

from navarch.control.nodes.launch import MissingAgent
from navarch.control.pools.boots import BootMemory
from navarch.control.pools.budgets import BudgetController
from navarch.control.pools.loads import Readings
from navarch.control.pools.stockouts import StockoutMemory
from navarch.control.providers.guard import Providers
from navarch.control.runtime.controller import Controller
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.disruption import GovernorSettings, default_settings
from navarch.core.errors import ConflictError
from navarch.core.event import Event, Subject, about
from navarch.core.fleet import Fleet
from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.changes import changes
from navarch.fleet.disruption.surplus import scaled_down
from navarch.fleet.jobs.gangs import awaits_other_pools, nodes_by_gang
from navarch.fleet.plan import Plan, check_plans
from navarch.fleet.planner import seen_by_size
from navarch.fleet.pool_plan import plan_pool_size
from navarch.ports.clock import Clock, Entropy
from navarch.ports.provider import ProvisionScheduler
from navarch.ports.store import Committed, Store
from navarch.state.index import Index

PlanPool = Callable[[Pool, datetime], Plan]


class PoolPlanningController(Controller):
    """Plans the pools that changed or came due, and commits the plans.

    It carries nothing out. The controllers that call providers and workload systems act on what
    is committed, also after a crash.
    """

    queue: WorkQueue[PoolName]

    def __init__(
        self,
        clock: Clock,
        store: Store,
        *,
        name: str,
        plan: PlanPool,
        seen: Callable[[Node], object],
    ) -> None:
        """`seen` returns the part of a node that a plan depends on.

        A commit that changes nothing else causes no plan.
        """
        super().__init__(clock, store, store.fleet().pools)
        self.name = name
        self._plan = plan
        self._seen = seen

    def on_commit(self, committed: Committed) -> None:
        """Queue the pools that a plan may see differently after a commit."""
        for pool in committed.reshaped:
            self.queue.add(pool.name)
        for before, node in committed.moved:
            if before is None or self._seen(before) != self._seen(node):
                for name in (None if before is None else before.pool, node.pool):
                    if name is not None:
                        self.queue.add(name)
            self._note_host(before, node)
        for node in committed.forgotten:
            if node.pool is not None:
                self.queue.add(node.pool)

    def _note_host(self, before: Node | None, node: Node) -> None:
        """Queue the pools that a self-registered node begins or ceases to serve."""
        served = None if before is None or not before.counts else before.host_of
        serves = node.host_of if node.counts else None
        if served != serves:
            for pool in (served, serves):
                if pool is not None:
                    self.queue.add(pool)

    async def reconcile(self, keys: Sequence[PoolName]) -> None:
        """Plan these pools together, in one commit."""
        now, fleet = self._clock.now(), self._store.fleet()
        plans = [self._plan(fleet.pools[name], now) for name in keys if name in fleet.pools]
        acting = [plan for plan in plans if plan.actions]
        check_plans(acting, fleet)
        change = changes(acting, fleet, now=now)
        if not change.empty:
            await self._store.commit(change, based_on=fleet.revision)
        for plan in plans:
            self.queue.reschedule(plan.pool, plan.wake_at)


async def commit_size(
    store: Store,
    fleet: Fleet,
    pool: Pool,
    size: int,
    *,
    leaving: Sequence[NodeId],
    reason: str,
    news: str,
    because: tuple[Subject, ...] = (),
    now: datetime,
) -> None:
    """Commit a new size of a pool, and the end of the nodes that leave with it.

    `reason` is recorded for those nodes, `news` for the pool. Nothing is committed if the pool has
    just changed: the next round sees how.
    """
    plan = Plan(pool=pool.name, actions=scaled_down(leaving, reason))
    check_plans([plan], fleet)
    written = changes([plan], fleet, now=now)
    event = Event(
        at=now,
        about=about("pool", pool.name),
        kind="pool.scaled",
        reason=news,
        because=because,
        facts={"size": str(size)},
    )
    change = evolve(
        written,
        pools=[evolve(pool, nodes_wanted=size, scaled_at=now)],
        events=[event, *written.events],
        guards=[pool.name],
    )
    with contextlib.suppress(ConflictError):
        await store.commit(change, based_on=fleet.revision)


class SizingController(PoolPlanningController):
    """Requests missing nodes and retires surplus ones."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        store: Store,
        index: Index,
        providers: Providers,
        *,
        budgets: BudgetController,
        stockouts: StockoutMemory,
        boots: BootMemory,
        scheduler: Callable[[PoolName], ProvisionScheduler],
        readings: Readings,
        missing_agent: MissingAgent,
        settings: Callable[[], GovernorSettings] = default_settings,
    ) -> None:
        """`scheduler` returns the provision scheduler of a pool."""
        super().__init__(
            clock,
            store,
            name="pools",
            plan=self._plan_size,
            seen=seen_by_size,
        )
        self._entropy = entropy
        self._index = index
        self._budgets = budgets
        self._stockouts = stockouts
        self._boots = boots
        self._scheduler = scheduler
        self._readings = readings
        self._missing_agent = missing_agent
        self._settings = settings
        self._surveyed = [each.name for each in providers if each.describes_topology]
        stockouts.look_at = self.queue.add

    def on_commit(self, committed: Committed) -> None:
        """Learn from launches and boots, and queue the pools that a plan may see differently."""
        self._boots.on_commit(committed)
        self._stockouts.on_commit(committed)
        super().on_commit(committed)

    async def reconcile(self, keys: Sequence[PoolName]) -> None:
        """Plan these pools with the present budgets and market."""
        now = self._clock.now()
        await self._budgets.count(now)
        await self._stockouts.begin_round(now)
        await self._boots.begin_round()
        await super().reconcile(keys)

    def _plan_size(self, pool: Pool, now: datetime) -> Plan:
        return plan_pool_size(
            pool,
            self._index.pool(pool.name),
            market=self._stockouts.market,
            scheduler=self._scheduler(pool.name),
            surveyed=self._surveyed,
            loads=self._loads,
            missing_agent=self._missing_agent(pool),
            gangs=self._gangs,
            awaits_others=partial(self._awaits_others, pool.name, now),
            new_tokens=self._new_tokens(),
            boots=self._boots.watch,
            failed_max=self._settings().failed_replacements_max(pool.size),
            hosts=self._count_hosts(pool.name),
            now=now,
        )

    def _count_hosts(self, pool: PoolName) -> int:
        """Return how many self-registered nodes a pool has.

        A machine that was bought counts already, also if its agent registered under another name.
        """
        hosts = self._store.fleet().hosts_of(pool)
        return sum(self._index.node_of(InstanceId(host.id)) is None for host in hosts)

    def _gangs(self, nodes: Collection[NodeId]) -> Sequence[Sequence[NodeId]]:
        jobs = self._index.jobs.on_any(nodes, self._store.fleet().jobs)
        return nodes_by_gang(jobs, nodes)

    def _awaits_others(self, pool: PoolName, now: datetime, nodes: Collection[NodeId]) -> bool:
        fleet = self._store.fleet()
        jobs = self._index.jobs.on_any(nodes, fleet.jobs)
        return awaits_other_pools(fleet, pool, jobs, now=now)

    def _loads(self, names: Sequence[NodeId]) -> dict[NodeId, float]:
        used = zip(names, self._readings.utilization(names), strict=True)
        return {name: percent for name, percent in used if percent is not None}

    def _new_tokens(self) -> Iterator[Token]:
        # With the term in which a launch was decided, which a provider shows in its listings. A
        # later leader that repeats the call uses the same token.
        while True:
            yield Token(self._entropy.new_id(f"launch-t{self._store.term}"))
