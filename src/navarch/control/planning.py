"""The reconciler of everything that is decided pool by pool: plan, check, write down."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from navarch.control.agenda import Agenda
from navarch.control.pool_indexes import PoolIndexes
from navarch.core.fleet import Change
from navarch.core.ids import PoolName
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.changes import changes
from navarch.fleet.invariants import check_plans
from navarch.fleet.plan import Plan
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

NOTHING = Change()

PlanPool = Callable[[Pool, datetime], Plan]


class PoolPlanning:
    """Plans the pools that changed or came due, and writes the plans down.

    It carries nothing out. What is written down is picked up by the reconcilers that
    talk to providers and workload systems, also after a crash.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        *,
        name: str,
        plan: PlanPool,
        begin: Callable[[datetime], Awaitable[None]] | None = None,
        matters: Callable[[Node, Node], bool] = lambda before, node: before != node,
        concerns: Callable[[PoolName], bool] | None = None,
        rolls: PoolIndexes | None = None,
        only_dates: Callable[[Node | None, Node, Pool], datetime | None] | None = None,
    ) -> None:
        """`begin` is awaited before each round that has pools to plan.

        `matters` returns whether a plan looks at anything that has changed of a node, before and
        after: any other change is passed over. So is any change of nodes while `concerns` says
        that there is nothing to plan in their pool.
        By the `rolls`, pools at rest know their next date where nodes boot, report in or end as
        they were to. Of a node that has changed, before and after, `only_dates` returns by when
        its pool is to be planned, if nothing but that follows from it.
        """
        self.name = name
        self._begin = begin
        self._matters = matters
        self._concerns = concerns
        self._clock = clock
        self._store = store
        self._plan = plan
        self._rolls = rolls
        self._only_dates = only_dates
        self._under_way: set[PoolName] = set()
        """Pools of which a plan is being written down."""
        self._at_rest: set[PoolName] = set()
        """Pools of which no plan comes to anything until more changes than leaves them at rest."""
        self._writing: Change | None = None
        """What is written down at the moment, if nothing more is to be planned after it."""
        self.agenda: Agenda[PoolName] = Agenda()
        for pool in store.fleet().pools:
            self.agenda.note(pool)
        store.subscribe(self._changed)

    def look_at(self, pool: PoolName) -> None:
        """Plan `pool` again in the next round, for a reason that the store does not know."""
        self.agenda.note(pool)

    async def reconcile(self) -> datetime | None:
        """Plan what needs planning; return when the next pool comes due."""
        now = self._clock.now()
        due = self.agenda.due(now)
        if due:
            if self._begin is not None:
                await self._begin(now)
            await self._plan_pools(due, now)
        return self.agenda.next_at()

    async def _plan_pools(self, due: list[PoolName], now: datetime) -> None:
        fleet = self._store.fleet()
        # Until this is written down, whatever changes is a reason to plan again.
        self._at_rest.difference_update(due)
        plans: list[Plan] = []
        acting: list[Plan] = []
        are_settled = True
        for name in due:
            pool = fleet.pools.get(name)
            if pool is None:
                continue
            plan = self._plan(pool, now)
            plans.append(plan)
            are_settled = are_settled and plan.settled
            if plan.actions:
                acting.append(plan)
        check_plans(acting, fleet)
        change = changes(acting, fleet, now=now) if acting else NOTHING
        # Crossed off first: what the commit itself changes must be looked at again, unless those
        # who planned it have done so.
        self.agenda.done(due)
        self._writing = change if are_settled else None
        self._under_way.update(due)
        try:
            if not change.empty:
                await self._store.commit(change, based_on=fleet.revision)
        except BaseException:
            for name in due:
                self.agenda.note(name)
            raise
        finally:
            self._writing = None
            self._under_way.difference_update(due)
        for plan in plans:
            self.agenda.wake(plan.pool, plan.wake_at)
            if plan.at_rest:
                self._at_rest.add(plan.pool)

    def _changed(self, committed: Committed) -> None:
        if committed.change is self._writing:
            return
        concerns = self._concerns
        for each in committed.reshaped:
            self.agenda.note(each.name)
        for was, node in committed.moved:
            name = node.pool
            if name is None:
                continue
            if concerns is not None and not concerns(name):
                self.agenda.wake(name, None)
            elif was is None or self._matters(was, node):
                pool = committed.after.pools.get(name)
                if pool is not None:
                    self._look_at_pool_of(was, node, pool)
        for node in committed.forgotten:
            if node.pool is not None:
                self.agenda.note(node.pool)

    def _look_at_pool_of(self, was: Node | None, node: Node, pool: Pool) -> None:
        name = pool.name
        if self._rolls is not None and name in self._at_rest:
            roll = self._rolls.of(name)
            stays_at_rest = roll.leaves_at_rest(was, node)
            if stays_at_rest or roll.leaves_no_room(pool, was, node):
                if not stays_at_rest:
                    # Somebody is missing: whatever changes next may make room.
                    self._at_rest.remove(name)
                self.agenda.wake(name, roll.late_at(pool))
                return
        if self._only_dates is not None and name not in self._under_way:
            by = self._only_dates(was, node, pool)
            if by is not None:
                self.agenda.wake_by(name, by)
                return
        self.agenda.note(name)
