"""Topology: queries one provider for the network location of each machine."""

from collections.abc import Sequence
from datetime import timedelta

from navarch.control.providers.guard import GuardedProvider
from navarch.control.runtime.controller import Controller, update_with_retry
from navarch.control.runtime.work_queue import WorkQueue
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId
from navarch.core.instance import Notice, Topology
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.fleet.disruption.notice import announced
from navarch.fleet.verdicts import with_results
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


LOOK_EVERY = timedelta(seconds=5)
"""A machine has as little as 30 seconds from the notice to its end."""


class ProviderNoticeController(Controller):
    """Keeps the notices of a provider among the conditions of the nodes they concern."""

    def __init__(self, clock: Clock, store: Store, provider: GuardedProvider) -> None:
        self.name = f"announcements/{provider.name}"
        super().__init__(clock, store, [provider.name])
        self._provider = provider

    async def reconcile(self, keys: Sequence[str]) -> None:
        """Query the provider, and record what is new."""
        for key in keys:
            self.queue.add_at(key, self._clock.now() + LOOK_EVERY)
        if not any(self._concerns(node) for node in self._store.fleet().nodes.values()):
            return
        notices: dict[InstanceId, list[Notice]] = {}
        for each in await self._provider.notices():
            notices.setdefault(each.instance, []).append(each.notice)
        fleet, now = self._store.fleet(), self._clock.now()
        nodes: list[Node] = []
        events: list[Event] = []
        for node in fleet.nodes.values():
            if not self._concerns(node):
                continue
            assert node.instance is not None, node.id
            results = announced(node, notices.get(node.instance, []))
            after, news = with_results(node, results, now=now) if results else (node, [])
            if after != node:
                nodes.append(after)
                events += news
        if nodes:
            await self._store.commit(Change(nodes=nodes, events=events), based_on=fleet.revision)

    def _concerns(self, node: Node) -> bool:
        known = node.instance is not None and node.provider == self._provider.name
        return known and node.phase in _RUNNING
