"""A controller of everything that is decided pool by pool: plan, check, commit."""

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime

from navarch.control.runtime.controller import Controller
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.errors import ConflictError
from navarch.core.event import Event, Subject, about
from navarch.core.fleet import Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.changes import changes
from navarch.fleet.disruption.surplus import scaled_down
from navarch.fleet.invariants import check_plans
from navarch.fleet.plan import Plan
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

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
            if node.pool is not None and (before is None or self._seen(before) != self._seen(node)):
                self.queue.add(node.pool)
        for node in committed.forgotten:
            if node.pool is not None:
                self.queue.add(node.pool)

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
