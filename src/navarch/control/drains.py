"""The drain watch: asks the workload system whether nodes that must go are empty yet."""

from datetime import datetime, timedelta

import structlog

from navarch.control.nodes import NodeFollower
from navarch.control.operations import OperationRunner
from navarch.control.planning import PoolPlanning
from navarch.control.pool_indexes import PoolIndexes
from navarch.core.errors import NavarchError
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node, NotifiedState, Phase
from navarch.core.pool import Pool
from navarch.fleet.drains import goes_when_empty, matters_to_drains, may_move_on, plan_drains
from navarch.fleet.plan import Plan
from navarch.ports.clock import Clock
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.store import Committed, Store

log = structlog.get_logger(__name__)

POLL = timedelta(seconds=10)


class DrainWatch:
    """Remembers which draining nodes were found empty, and has their pools planned again."""

    name = "drain-watch"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        notifier: WorkloadNotifier,
        errands: OperationRunner,
        rolls: PoolIndexes,
    ) -> None:
        self._clock = clock
        self._store = store
        self._notifier = notifier
        self._errands = errands
        self._rolls = rolls
        self._drained: set[NodeId] = set()
        self._asked_at: dict[NodeId, datetime] = {}
        self._nodes = NodeFollower(
            clock,
            store,
            phases=[Phase.DRAINING],
            concerns=_is_draining,
            advance=self._advance,
            forget=self._forget,
        )
        self.agenda = self._nodes.agenda
        self._leaving: dict[PoolName, set[NodeId]] = {}
        """Who waits to be drained, or drains: the others need no plan."""
        for node in store.fleet().nodes.values():
            self._follow(node)
        # Before the plans hear of the same commit.
        store.subscribe(self._changed)
        self.planning = PoolPlanning(
            clock,
            store,
            name="drains",
            plan=self._plan,
            matters=matters_to_drains,
            concerns=self._leaving.__contains__,
            only_dates=self._ends_by,
        )

    async def reconcile(self) -> datetime | None:
        """Ask about every draining node that was not asked about lately."""
        return self._nodes.round()

    async def is_empty(self, node: NodeId) -> bool:
        """Ask about a node that has just been told to drain; one that fails to answer is not.

        It is asked about again in its time, if it is still there by then.
        """
        try:
            return await self._notifier.is_drained(node)
        except NavarchError as error:
            log.warning("drain.unanswered", node=node, error=str(error))
            return False
        finally:
            self._note_asked(node)

    def _note_asked(self, node: NodeId) -> None:
        known = self._store.fleet().nodes.get(node)
        if known is not None and not known.gone:
            # Who is gone by now has been forgotten, and nobody would do so again.
            self._asked_at[node] = self._clock.now()

    def _forget(self, node: NodeId) -> None:
        self._drained.discard(node)
        self._asked_at.pop(node, None)

    def _changed(self, committed: Committed) -> None:
        for before, node in committed.moved:
            if (
                before is None
                or before.retiring is not node.retiring
                or (node.retiring is not None and before.phase is not node.phase)
            ):
                self._follow(node)

    def _follow(self, node: Node) -> None:
        if node.pool is None:
            return
        if may_move_on(node):
            self._leaving.setdefault(node.pool, set()).add(node.id)
        elif node.pool in self._leaving:
            leaving = self._leaving[node.pool]
            leaving.discard(node.id)
            if not leaving:
                del self._leaving[node.pool]

    def _ends_by(self, before: Node | None, node: Node, pool: Pool) -> datetime | None:
        """Return when work must have left a node that has just begun to drain.

        It takes up as much room as before and counts no more, so nobody else can go for it.
        """
        if before is None or before.phase is not Phase.READY or node.phase is not Phase.DRAINING:
            return None
        return None if node.id in self._drained else node.since + pool.drain_timeout

    def _plan(self, pool: Pool, now: datetime) -> Plan:
        roll = self._rolls.of(pool.name)
        beside = roll.beside().nodes
        return plan_drains(pool, roll.others(), drained=self._drained, now=now, steady=beside)

    def _advance(self, node: Node, now: datetime) -> datetime | None:
        key = f"drained/{node.id}"
        if self._errands.busy(key) or node.id in self._drained:
            return None
        asked_at = self._asked_at.get(node.id)
        if asked_at is not None and now < asked_at + POLL:
            return asked_at + POLL
        assert node.pool is not None, node.id
        pool = node.pool
        return self._errands.send(key, lambda: self._ask(node.id, pool))

    async def _ask(self, node: NodeId, pool: PoolName) -> None:
        try:
            if await self._notifier.is_drained(node):
                # There is nothing more to ask.
                self._drained.add(node)
                self.planning.look_at(pool)
        finally:
            self._note_asked(node)
            if node not in self._drained:
                self._nodes.look_at(node)


def _is_draining(node: Node) -> bool:
    # Before it has been told to move its work, an idle answer means nothing.
    return node.told is NotifiedState.DRAINING and goes_when_empty(node)
