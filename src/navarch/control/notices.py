"""The notice reconciler: tells the workload system what may run where."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from navarch.control.nodes import NodeFollower
from navarch.control.operations import OperationRunner
from navarch.control.updates import update_with_retry
from navarch.core.event import Event, about
from navarch.core.evolve import evolve
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId
from navarch.core.node import Node, NotifiedState
from navarch.fleet import lifecycle
from navarch.fleet.drains import DRAINED, TOLD_OF, goes_when_empty, notice_due, notice_reason
from navarch.ports.clock import Clock
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.store import Store


class NoticeReconciler:
    """Compares what the workload system was last told with what is true now."""

    name = "notices"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        notifier: WorkloadNotifier,
        errands: OperationRunner,
        *,
        is_empty: Callable[[NodeId], Awaitable[bool]],
    ) -> None:
        """`is_empty` says whether nothing runs any more on a node that was told to drain."""
        self._clock = clock
        self._store = store
        self._notifier = notifier
        self._errands = errands
        self._is_empty = is_empty
        self._nodes = NodeFollower(
            clock, store, phases=TOLD_OF, concerns=notice_due, advance=self._advance
        )
        self.agenda = self._nodes.agenda

    async def reconcile(self) -> datetime | None:
        """Tell what is due to be told."""
        return self._nodes.round()

    def _advance(self, node: Node, _now: datetime) -> datetime | None:
        key = f"notice/{node.id}"
        if self._errands.busy(key):
            return None
        return self._errands.send(key, lambda: self._tell(node))

    async def _tell(self, node: Node) -> None:
        notice = notice_due(node)
        assert notice is not None, node.id
        reason = notice_reason(node)
        try:
            if notice is NotifiedState.CORDONED:
                await self._notifier.cordon(node.id, reason)
            elif notice is NotifiedState.DRAINING:
                await self._notifier.drain(node.id, reason)
            else:
                await self._notifier.uncordon(node.id)
            # Most that are given back have been idle: then this is all there is to wait for.
            is_empty = goes_when_empty(node) and await self._is_empty(node.id)
            await self._record(node, notice, reason, is_empty=is_empty)
        finally:
            self._nodes.look_at(node.id)

    async def _record(
        self, node: Node, notice: NotifiedState, reason: str, *, is_empty: bool
    ) -> None:
        now = self._clock.now()
        event = Event(
            at=now,
            about=about("node", node.id),
            kind="node.announced",
            reason=f"{self._notifier.name} was told: {notice}" + (f", {reason}" if reason else ""),
        )

        def proposal(_: Fleet, newest: Node) -> Change:
            if not is_empty or not goes_when_empty(newest):
                return Change(nodes=[evolve(newest, told=notice)], events=[event])
            after, news = lifecycle.terminate(newest, DRAINED, now=now, told=notice)
            return Change(nodes=[after], events=[event, news])

        await update_with_retry(self._store, node.id, proposal)
