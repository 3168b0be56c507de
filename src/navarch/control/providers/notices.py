"""Provider notices: what one provider announces about the machines of the fleet."""

from collections.abc import Sequence
from datetime import timedelta

from navarch.control.providers.guard import GuardedProvider
from navarch.control.runtime.controller import Controller
from navarch.core.event import Event
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId
from navarch.core.instance import Notice
from navarch.core.node import Node, Phase
from navarch.fleet.disruption.notice import announced
from navarch.fleet.verdicts import with_results
from navarch.ports.clock import Clock
from navarch.ports.store import Store

LOOK_EVERY = timedelta(seconds=5)
"""A machine has as little as 30 seconds from the notice to its end."""

_RUNNING = (Phase.BOOTING, Phase.READY, Phase.DRAINING)


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
