"""Drain: queries the workload system until the nodes that must go are empty."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

import structlog

from navarch.control.nodes.controller import NodeController
from navarch.control.pools.sizing import PlanPool, PoolPlanningController
from navarch.control.runtime.controller import update_with_retry
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import NavarchError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node, NotifiedState, Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet import lifecycle
from navarch.fleet.drains import (
    DRAINED,
    TOLD_OF,
    goes_when_empty,
    notice_due,
    notice_reason,
    plan_drains,
    seen_by_drains,
)
from navarch.fleet.jobs.gangs import interrupted_jobs, pools_of_jobs
from navarch.fleet.plan import Plan
from navarch.ports.clock import Clock
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.store import Committed, Store
from navarch.state.index import Index

log = structlog.get_logger(__name__)

WORKLOADS = "workloads"
"""The system that is called about work on nodes."""

POLL = timedelta(seconds=10)
"""How often the workload system is queried about one node."""


class DrainController(NodeController):
    """Remembers which draining nodes are empty, and has their pools planned again."""

    name = "drain-watch"
    system = WORKLOADS
    phases = frozenset({Phase.DRAINING})

    def __init__(
        self,
        clock: Clock,
        store: Store,
        notifier: WorkloadNotifier,
        operations: OperationRunner,
        *,
        on_drained: Callable[[PoolName], None] = lambda _: None,
    ) -> None:
        """`on_drained` is called with the pool of a node that was found empty."""
        self._notifier = notifier
        self.on_drained = on_drained
        self.drained: dict[NodeId, None] = {}
        """The draining nodes that were found empty."""
        self._polled_at: dict[NodeId, datetime] = {}
        super().__init__(clock, store, operations, memories=[self.drained, self._polled_at])

    def concerns(self, node: Node) -> bool:
        """Return whether `node` goes once it is empty.

        The workload system must have been notified: an idle answer before that means nothing.
        """
        return node.notified is NotifiedState.DRAINING and goes_when_empty(node)

    def advance(self, node: Node, now: datetime) -> datetime | None:
        """Query the workload system, unless that was done lately."""
        key = f"drained/{node.id}"
        if self._operations.busy(key) or node.id in self.drained:
            return None
        polled_at = self._polled_at.get(node.id)
        if polled_at is not None and now < polled_at + POLL:
            return polled_at + POLL
        assert node.pool is not None, node.id
        return self.start(node.id, key, partial(self._poll, node.id, node.pool))

    async def is_empty(self, node: NodeId) -> bool:
        """Query about a node that has just begun to drain; without an answer it is not empty.

        It is queried again in due time if it is still there.
        """
        try:
            return await self._notifier.is_drained(node)
        except NavarchError as error:
            log.warning("drain.unanswered", node=node, error=str(error))
            return False
        finally:
            self._note_poll(node)

    async def _poll(self, node: NodeId, pool: PoolName) -> None:
        try:
            if await self._notifier.is_drained(node):
                self.drained[node] = None
                self.on_drained(pool)
        finally:
            self._note_poll(node)

    def _note_poll(self, node: NodeId) -> None:
        known = self._store.fleet().nodes.get(node)
        if known is not None and not known.gone:
            # A node that is gone was forgotten already, and would stay here for ever.
            self._polled_at[node] = self._clock.now()


def plan_drains_of(
    clock: Clock, store: Store, index: Index, drain: DrainController
) -> PoolPlanningController:
    """Return the controller that plans drains, which `drain` notifies of empty nodes."""

    def plan(pool: Pool, now: datetime) -> Plan:
        fleet = store.fleet()
        nodes, steady = index.pool(pool.name).unsteady()
        jobs = index.jobs.on_any([node.id for node in nodes], fleet.jobs)
        return plan_drains(
            pool,
            nodes,
            drained=drain.drained,
            jobs=jobs,
            interrupted=partial(interrupted_jobs, fleet, jobs),
            steady=steady,
            now=now,
        )

    planning = _DrainPlanning(clock, store, index, plan)
    drain.on_drained = planning.queue.add
    return planning


class _DrainPlanning(PoolPlanningController):
    """Plans the drains of every pool of a job together."""

    def __init__(self, clock: Clock, store: Store, index: Index, plan: PlanPool) -> None:
        super().__init__(clock, store, name="drains", plan=plan, seen=seen_by_drains)
        self._index = index

    def on_commit(self, committed: Committed) -> None:
        """Queue the pools that a commit concerns, and the other pools of interrupted jobs."""
        super().on_commit(committed)
        begun = {
            node.id
            for before, node in committed.moved
            if node.phase is Phase.DRAINING and before is not None and before.phase is Phase.READY
        }
        if begun:
            fleet = committed.after
            for pool in pools_of_jobs(fleet, self._index.jobs.on_any(begun, fleet.jobs)):
                self.queue.add(pool)


class NotificationController(NodeController):
    """Compares the last notification about each node with what is true now."""

    name = "notices"
    system = WORKLOADS
    phases = frozenset(TOLD_OF)

    def __init__(
        self,
        clock: Clock,
        store: Store,
        notifier: WorkloadNotifier,
        operations: OperationRunner,
        *,
        is_empty: Callable[[NodeId], Awaitable[bool]],
    ) -> None:
        """`is_empty` returns whether no work is left on a draining node."""
        self._notifier = notifier
        self._is_empty = is_empty
        super().__init__(clock, store, operations)

    def concerns(self, node: Node) -> bool:
        """Return whether the workload system must be notified about `node`."""
        return notice_due(node) is not None

    def advance(self, node: Node, _now: datetime) -> datetime | None:
        """Notify the workload system."""
        key = f"notice/{node.id}"
        if self._operations.busy(key):
            return None
        return self.start(node.id, key, partial(self._notify, node))

    async def _notify(self, node: Node) -> None:
        notice = notice_due(node)
        assert notice is not None, node.id
        reason = notice_reason(node)
        if notice is NotifiedState.CORDONED:
            await self._notifier.cordon(node.id, reason)
        elif notice is NotifiedState.DRAINING:
            await self._notifier.drain(node.id, reason)
        else:
            await self._notifier.uncordon(node.id)
        # Most nodes that leave are idle: the drain ends with this call.
        is_empty = goes_when_empty(node) and await self._is_empty(node.id)
        now = self._clock.now()
        event = Event(
            at=now,
            about=about("node", node.id),
            kind="node.announced",
            reason=f"notified {self._notifier.name}: {notice}" + (f", {reason}" if reason else ""),
        )

        def proposal(newest: Node) -> Change:
            if not is_empty or not goes_when_empty(newest):
                return Change(nodes=[evolve(newest, notified=notice)], events=[event])
            after, news = lifecycle.terminate(newest, DRAINED, now=now, notified=notice)
            return Change(nodes=[after], events=[event, news])

        await update_with_retry(self._store, node.id, proposal)
