"""The announcement reconciler: what one provider says it will do to our machines."""

from datetime import datetime, timedelta

from navarch.control.providers import GuardedProvider
from navarch.core.event import Event
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId
from navarch.core.node import Node, Phase
from navarch.core.notice import Notice
from navarch.fleet.disruption.notice import announced
from navarch.fleet.verdicts import with_results
from navarch.ports.clock import Clock
from navarch.ports.store import Store

LOOK_EVERY = timedelta(seconds=5)
"""A machine has as little as 30 seconds from the notice to its end."""

_THERE = (Phase.BOOTING, Phase.READY, Phase.DRAINING)


class AnnouncementReconciler:
    """Keeps what the provider announces among the conditions of the nodes it concerns."""

    def __init__(self, clock: Clock, store: Store, provider: GuardedProvider) -> None:
        self.name = f"announcements/{provider.name}"
        self._clock = clock
        self._store = store
        self._provider = provider
        self._due = clock.now()

    async def reconcile(self) -> datetime | None:
        """Ask if it is time to, and write down what is new."""
        now = self._clock.now()
        if now < self._due:
            return self._due
        self._due = now + LOOK_EVERY
        if any(self._concerns(node) for node in self._store.fleet().nodes.values()):
            await self._hear()
        return self._due

    def due_at(self) -> datetime | None:
        """Return from when on there is something to do."""
        return self._due

    async def _hear(self) -> None:
        standing: dict[InstanceId, list[Notice]] = {}
        for each in await self._provider.notices():
            standing.setdefault(each.instance, []).append(each.notice)
        fleet, now = self._store.fleet(), self._clock.now()
        nodes: list[Node] = []
        events: list[Event] = []
        for node in fleet.nodes.values():
            if not self._concerns(node):
                continue
            assert node.instance is not None, node.id
            results = announced(node, standing.get(node.instance, []))
            after, news = with_results(node, results, now=now) if results else (node, [])
            if after != node:
                nodes.append(after)
                events += news
        if nodes:
            await self._store.commit(Change(nodes=nodes, events=events), based_on=fleet.revision)

    def _concerns(self, node: Node) -> bool:
        known = node.instance is not None and node.provider == self._provider.name
        return known and node.phase in _THERE
