"""Housekeeping: forgets nodes that are long gone, and prunes the journal."""

from collections.abc import Sequence
from datetime import timedelta

from navarch.control.runtime.controller import Controller
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

KEEP = timedelta(hours=24)
"""How long a node that is gone can be listed. Its history stays in the journal, its cost in the
ledger."""

JOURNAL_KEEP = timedelta(days=90)
"""How far back `why` and a watch can reach."""

PRUNE_EVERY = timedelta(hours=24)

JOURNAL = NodeId("")
"""The key of the journal, which no node has."""


class HousekeepingController(Controller):
    """Keeps the fleet the size of what exists."""

    name = "housekeeping"
    queue: WorkQueue[NodeId]

    def __init__(self, clock: Clock, store: Store) -> None:
        super().__init__(clock, store)
        self.queue.add_at(JOURNAL, clock.now() + PRUNE_EVERY)
        for node in store.fleet().nodes.values():
            if node.gone:
                self.queue.add_at(node.id, node.since + KEEP)

    def on_commit(self, committed: Committed) -> None:
        """Queue the nodes that are gone for the time when they are forgotten."""
        for node in committed.change.nodes:
            if node.gone:
                self.queue.add_at(node.id, node.since + KEEP)

    async def reconcile(self, keys: Sequence[NodeId]) -> None:
        """Forget the nodes that are due, and prune the journal if it is due."""
        now = self._clock.now()
        if JOURNAL in keys:
            await self._store.prune(now - JOURNAL_KEEP)
            self.queue.add_at(JOURNAL, now + PRUNE_EVERY)
        fleet = self._store.fleet()
        known = [name for name in keys if name in fleet.nodes]
        if known:
            await self._store.commit(Change(forget_nodes=known), based_on=fleet.revision)
