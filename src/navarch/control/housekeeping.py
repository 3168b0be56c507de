"""The housekeeping reconciler: forgets nodes that are long gone, and stories that are older."""

from datetime import datetime, timedelta

from navarch.control.agenda import Agenda
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

KEEP = timedelta(hours=24)
"""How long a node that is gone can still be listed. Its story stays in the journal, what it
cost in the ledger."""


JOURNAL_KEEP = timedelta(days=90)
"""How far back `why` and a watch can reach."""

PRUNE_EVERY = timedelta(hours=24)


class HousekeepingReconciler:
    """Keeps the fleet the size of what exists."""

    name = "housekeeping"

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store
        self._prune_at = clock.now() + PRUNE_EVERY
        self.agenda: Agenda[NodeId] = Agenda()
        for node in store.fleet().nodes.values():
            self._note(node)
        store.subscribe(self._changed, about=[Phase.GONE])

    async def reconcile(self) -> datetime | None:
        """Forget what has been gone for long enough."""
        now = self._clock.now()
        if now >= self._prune_at:
            await self._store.prune(now - JOURNAL_KEEP)
            self._prune_at = now + PRUNE_EVERY
        due = self.agenda.due(now)
        if due:
            fleet = self._store.fleet()
            known = [name for name in due if name in fleet.nodes]
            if known:
                await self._store.commit(Change(forget_nodes=known), based_on=fleet.revision)
            self.agenda.done(due)
        next_at = self.agenda.next_at()
        return self._prune_at if next_at is None else min(next_at, self._prune_at)

    def due_at(self) -> datetime | None:
        """Return from when on there is something to do."""
        due_at = self.agenda.due_at()
        return self._prune_at if due_at is None else min(due_at, self._prune_at)

    def _note(self, node: Node) -> None:
        if node.gone:
            self.agenda.wake(node.id, node.since + KEEP)

    def _changed(self, committed: Committed) -> None:
        for node in committed.change.nodes:
            if node.gone:
                self._note(node)
