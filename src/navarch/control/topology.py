"""The topology reconciler: asks one provider where our machines stand, once for each."""

from datetime import datetime, timedelta

from navarch.control.providers import GuardedProvider
from navarch.control.updates import update_with_retry
from navarch.core.event import Event, about
from navarch.core.evolve import evolve
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase
from navarch.core.topology import Topology
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

ASK_EVERY = timedelta(seconds=10)
"""How often to ask about machines that have just been bought."""

ASK_RARELY = timedelta(minutes=10)
"""How often to ask about machines of which the provider has said nothing for a while."""

NEW_FOR = timedelta(minutes=15)

AT_ONCE = 100
"""How many machines a provider is asked about in one call."""

_THERE = (Phase.BOOTING, Phase.READY, Phase.DRAINING)


class TopologyReconciler:
    """Keeps on each node where in its provider's network it stands."""

    def __init__(self, clock: Clock, store: Store, provider: GuardedProvider) -> None:
        self.name = f"topology/{provider.name}"
        self._clock = clock
        self._store = store
        self._provider = provider
        self._asked_at: dict[NodeId, datetime] = {}
        self._unknown: dict[NodeId, Node] = {}
        """The machines of this provider of which nobody has said where they stand."""
        for node in store.fleet().nodes.values():
            self._note(node)
        store.subscribe(self._changed)

    async def reconcile(self) -> datetime | None:
        """Ask about the machines of which nothing is known and that were not asked about lately."""
        now = self._clock.now()
        due = [node for node in self._unknown.values() if self._due_at(node) <= now][:AT_ONCE]
        if due:
            await self._ask(due, now)
        return self.due_at()

    def due_at(self) -> datetime | None:
        """Return from when on there is something to ask."""
        return min((self._due_at(node) for node in self._unknown.values()), default=None)

    async def _ask(self, nodes: list[Node], now: datetime) -> None:
        self._asked_at |= dict.fromkeys([node.id for node in nodes], now)
        found = await self._provider.topology([x.instance for x in nodes if x.instance])
        for node in nodes:
            topology = found.get(node.instance) if node.instance else None
            if topology is not None:
                await self._write(node, topology)

    async def _write(self, node: Node, topology: Topology) -> None:
        where = ", ".join(f"{key.rpartition('/')[2]} {x}" for key, x in topology.labels.items())

        def proposal(_: Fleet, newest: Node) -> Change | None:
            if newest.gone or newest.instance != node.instance or newest.topology == topology:
                return None
            event = Event(
                at=self._clock.now(),
                about=about("node", newest.id),
                kind="node.located",
                reason=f"{self._provider.name} says: {where or 'nowhere in particular'}",
                facts=dict(topology.labels),
            )
            return Change(nodes=[evolve(newest, topology=topology)], events=[event])

        await update_with_retry(self._store, node.id, proposal)

    def _due_at(self, node: Node) -> datetime:
        asked_at = self._asked_at.get(node.id)
        if asked_at is None:
            return node.since
        new = asked_at < node.created_at + NEW_FOR
        return asked_at + (ASK_EVERY if new else ASK_RARELY)

    def _concerns(self, node: Node) -> bool:
        ours = node.instance is not None and node.provider == self._provider.name
        return ours and node.topology is None and node.phase in _THERE

    def _note(self, node: Node) -> None:
        if self._concerns(node):
            self._unknown[node.id] = node
        else:
            self._forget(node.id)

    def _forget(self, name: NodeId) -> None:
        self._unknown.pop(name, None)
        self._asked_at.pop(name, None)

    def _changed(self, committed: Committed) -> None:
        for node in committed.change.nodes:
            self._note(node)
        for name in committed.change.forget_nodes:
            self._forget(name)
