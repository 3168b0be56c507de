"""Notification of the workload system: what may run where."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial

from navarch.control.nodes.controller import NodeController
from navarch.control.runtime.operations import OperationRunner
from navarch.control.runtime.updates import update_with_retry
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.node import Node, NotifiedState
from navarch.core.records import evolve
from navarch.fleet import lifecycle
from navarch.fleet.drains import DRAINED, TOLD_OF, goes_when_empty, notice_due, notice_reason
from navarch.ports.clock import Clock
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.store import Store


class NotificationController(NodeController):
    """Compares the last notification about each node with what is true now."""

    name = "notices"
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
            reason=f"{self._notifier.name} was told: {notice}" + (f", {reason}" if reason else ""),
        )

        def proposal(newest: Node) -> Change:
            if not is_empty or not goes_when_empty(newest):
                return Change(nodes=[evolve(newest, told=notice)], events=[event])
            after, news = lifecycle.terminate(newest, DRAINED, now=now, told=notice)
            return Change(nodes=[after], events=[event, news])

        await update_with_retry(self._store, node.id, proposal)
