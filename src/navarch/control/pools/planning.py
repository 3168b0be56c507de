"""A controller of everything that is decided pool by pool: plan, check, commit."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.ids import PoolName
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.changes import changes
from navarch.fleet.invariants import check_plans
from navarch.fleet.plan import Plan
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

PlanPool = Callable[[Pool, datetime], Plan]


class PoolPlanningController:
    """Plans the pools that changed or came due, and commits the plans.

    It carries nothing out. The controllers that call providers and workload systems act on what
    is committed, also after a crash.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        *,
        name: str,
        plan: PlanPool,
        begin: Callable[[datetime], Awaitable[None]] | None = None,
        seen: Callable[[Node], object],
    ) -> None:
        """`begin` is awaited before each round.

        `seen` returns the part of a node that a plan depends on; a commit that changes nothing
        else causes no plan.
        """
        self.name = name
        self._clock = clock
        self._store = store
        self._plan = plan
        self._begin = begin
        self._seen = seen
        self.queue: WorkQueue[PoolName] = WorkQueue(store.fleet().pools)

    def on_commit(self, committed: Committed) -> None:
        """Queue the pools that a plan may see differently after a commit."""
        for pool in committed.reshaped:
            self.queue.add(pool.name)
        for before, node in committed.moved:
            if node.pool is not None and (before is None or self._seen(before) != self._seen(node)):
                self.queue.add(node.pool)
        for node in committed.forgotten:
            if node.pool is not None:
                self.queue.add(node.pool)

    async def reconcile(self, keys: Sequence[PoolName]) -> None:
        """Plan these pools together, in one commit."""
        now = self._clock.now()
        if self._begin is not None:
            await self._begin(now)
        fleet = self._store.fleet()
        plans = [self._plan(fleet.pools[name], now) for name in keys if name in fleet.pools]
        acting = [plan for plan in plans if plan.actions]
        check_plans(acting, fleet)
        change = changes(acting, fleet, now=now)
        if not change.empty:
            await self._store.commit(change, based_on=fleet.revision)
        for plan in plans:
            self.queue.reschedule(plan.pool, plan.wake_at)
