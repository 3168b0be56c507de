"""Sizing: keeps every pool at its size, within its budgets and what providers sell."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from navarch.control.nodes.launch import MissingAgent
from navarch.control.pools.budgets import BudgetController
from navarch.control.pools.planning import PoolPlanningController
from navarch.control.pools.stockouts import StockoutMemory
from navarch.control.pools.usage import Readings
from navarch.control.providers.guard import Providers
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.pool import Pool
from navarch.fleet.plan import Plan
from navarch.fleet.planner import seen_by_size
from navarch.fleet.pool_plan import plan_pool_size
from navarch.ports.clock import Clock, Entropy
from navarch.ports.provision import ProvisionScheduler
from navarch.ports.store import Committed, Store
from navarch.state.index import Index


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
        scheduler: Callable[[PoolName], ProvisionScheduler],
        readings: Readings,
        missing_agent: MissingAgent,
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
        self._scheduler = scheduler
        self._readings = readings
        self._missing_agent = missing_agent
        self._surveyed = [each.name for each in providers if each.describes_topology]
        stockouts.look_at = self.queue.add

    def on_commit(self, committed: Committed) -> None:
        """Learn from launches, and queue the pools that a plan may see differently."""
        self._stockouts.on_commit(committed)
        super().on_commit(committed)

    async def reconcile(self, keys: Sequence[PoolName]) -> None:
        """Plan these pools with the present budgets and market."""
        now = self._clock.now()
        await self._budgets.count(now)
        await self._stockouts.begin_round(now)
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
            new_tokens=self._new_tokens(),
            now=now,
        )

    def _loads(self, names: Sequence[NodeId]) -> dict[NodeId, float]:
        used = zip(names, self._readings.utilization(names), strict=True)
        return {name: percent for name, percent in used if percent is not None}

    def _new_tokens(self) -> Iterator[Token]:
        while True:
            yield Token(self._entropy.new_id("launch"))
