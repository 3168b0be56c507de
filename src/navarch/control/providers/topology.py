"""Topology: queries one provider for the network location of each machine."""

from collections.abc import Sequence
from datetime import timedelta

from navarch.control.providers.guard import GuardedProvider
from navarch.control.runtime.controller import Controller
from navarch.control.runtime.updates import update_with_retry
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.instance import Topology
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Store

QUERY_EVERY = timedelta(seconds=10)
"""How often to query about new machines."""

QUERY_RARELY = timedelta(minutes=10)
"""How often to query about machines that the provider has not located for a while."""

NEW_FOR = timedelta(minutes=15)

AT_ONCE = 100
"""How many machines one call is about."""

_RUNNING = (Phase.BOOTING, Phase.READY, Phase.DRAINING)


class TopologyController(Controller):
    """Keeps the location in the provider's network on each node."""

    queue: WorkQueue[NodeId]

    def __init__(self, clock: Clock, store: Store, provider: GuardedProvider) -> None:
        self.name = f"topology/{provider.name}"
        self._provider = provider
        nodes = store.fleet().nodes.values()
        super().__init__(clock, store, [node.id for node in nodes if self._concerns(node)])

    def on_commit(self, committed: Committed) -> None:
        """Queue the nodes with new machines of this provider."""
        for before, node in committed.moved:
            if not self._concerns(node):
                self.queue.drop_date(node.id)
            elif before is None or not self._concerns(before):
                self.queue.add(node.id)

    async def reconcile(self, keys: Sequence[NodeId]) -> None:
        """Query about the machines that have no location yet."""
        now, fleet = self._clock.now(), self._store.fleet()
        nodes = [fleet.nodes[name] for name in keys if name in fleet.nodes]
        unlocated = [node for node in nodes if self._concerns(node)]
        for node in unlocated:
            is_new = now < node.created_at + NEW_FOR
            self.queue.add_at(node.id, now + (QUERY_EVERY if is_new else QUERY_RARELY))
        for first in range(0, len(unlocated), AT_ONCE):
            some = unlocated[first : first + AT_ONCE]
            found = await self._provider.topology([x.instance for x in some if x.instance])
            for node in some:
                topology = found.get(node.instance) if node.instance else None
                if topology is not None:
                    await self._record(node, topology)

    async def _record(self, node: Node, topology: Topology) -> None:
        where = ", ".join(f"{key.rpartition('/')[2]} {x}" for key, x in topology.labels.items())

        def proposal(newest: Node) -> Change | None:
            if newest.gone or newest.instance != node.instance or newest.topology == topology:
                return None
            event = Event(
                at=self._clock.now(),
                about=about("node", newest.id),
                kind="node.located",
                reason=f"{self._provider.name} reports: {where or 'no location'}",
                facts=dict(topology.labels),
            )
            return Change(nodes=[evolve(newest, topology=topology)], events=[event])

        await update_with_retry(self._store, node.id, proposal)

    def _concerns(self, node: Node) -> bool:
        ours = node.instance is not None and node.provider == self._provider.name
        return ours and node.topology is None and node.phase in _RUNNING
