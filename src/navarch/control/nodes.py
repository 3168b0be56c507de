"""A reconciler that follows single nodes: those that changed, and those that come due."""

from collections.abc import Callable, Collection
from datetime import datetime

from navarch.control.agenda import Agenda
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store


class NodeFollower:
    """Hands each node that needs a look to `advance`, which says when to look again.

    Such a node is in one of `phases`, which is asked first since most are not, and what `concerns`
    returns is true of it.
    `forget` is called when a node is gone, for whatever was remembered about it.
    """

    def __init__(
        self,
        clock: Clock,
        store: Store,
        *,
        phases: Collection[Phase],
        concerns: Callable[[Node], object],
        advance: Callable[[Node, datetime], datetime | None],
        forget: Callable[[NodeId], object] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._store = store
        self._phases = frozenset(phases)
        assert Phase.GONE not in self._phases, "nothing is to be done about a node that is gone"
        self._needs = concerns
        self._advance = advance
        self._forget = forget
        self.agenda: Agenda[NodeId] = Agenda()
        for node in store.fleet().nodes.values():
            if self._concerns(node):
                self.agenda.note(node.id)
        store.subscribe(self._changed, about=[*self._phases, Phase.GONE])

    def look_at(self, name: NodeId) -> None:
        """Look at a node in the next round, if there is anything to look for by now."""
        node = self._store.fleet().nodes.get(name)
        if node is not None and self._concerns(node):
            self.agenda.note(name)
        else:
            self.agenda.wake(name, None)

    def look_again(self, name: NodeId, at: datetime) -> bool:
        """Look at a node at `at`, if there is anything to look for now; return whether there is."""
        node = self._store.fleet().nodes.get(name)
        concerned = node is not None and self._concerns(node)
        self.agenda.wake(name, at if concerned else None)
        return concerned

    def round(self) -> datetime | None:
        """Look at what needs a look; return when the next node comes due."""
        now = self._clock.now()
        due = self.agenda.due(now)
        fleet = self._store.fleet()
        for name in due:
            node = fleet.nodes.get(name)
            concerned = node is not None and self._concerns(node)
            self.agenda.wake(name, self._advance(node, now) if node and concerned else None)
        self.agenda.done(due)
        return self.agenda.next_at()

    def _changed(self, committed: Committed) -> None:
        for node in committed.change.nodes:
            phase = node.phase
            if phase in self._phases:
                if self._needs(node):
                    self.agenda.note(node.id)
            elif phase is Phase.GONE:
                self.agenda.wake(node.id, None)
                self._forget(node.id)

    def _concerns(self, node: Node) -> bool:
        return node.phase in self._phases and bool(self._needs(node))
