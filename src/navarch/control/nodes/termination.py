"""Termination: requests the end of machines until the listings show that they are gone."""

import contextlib
from datetime import datetime, timedelta
from functools import partial

from navarch.control.nodes.controller import NodeController
from navarch.control.providers.guard import Providers
from navarch.control.providers.inventory import PendingObservations
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import InstanceNotFoundError
from navarch.core.ids import InstanceId, NodeId, ProviderName
from navarch.core.node import Node, Phase
from navarch.ports.clock import Clock
from navarch.ports.store import Store

REPEAT_AFTER = timedelta(minutes=1)
"""How long a machine may take to disappear before the call is repeated."""

LISTED_WITHIN = timedelta(seconds=30)
"""How long a machine that an earlier process may have ended waits for a listing that shows it."""

LOOK_AGAIN = timedelta(seconds=1)


class TerminationController(NodeController):
    """Never gives up on a machine that must go. Only a listing proves that it is gone."""

    name = "terminations"
    phases = frozenset({Phase.TERMINATING})

    def __init__(
        self,
        clock: Clock,
        store: Store,
        providers: Providers,
        operations: OperationRunner,
        observations: PendingObservations,
    ) -> None:
        self._providers = providers
        self._observations = observations
        self._called_at: dict[NodeId, datetime] = {}
        super().__init__(clock, store, operations, memories=[self._called_at])

    def concerns(self, node: Node) -> bool:
        """Return whether `node` has a machine."""
        return node.instance is not None

    def advance(self, node: Node, now: datetime) -> datetime | None:
        """Request the end of the machine, unless that was done lately."""
        key = f"terminate/{node.id}"
        if self._operations.busy(key):
            return None
        called_at = self._called_at.get(node.id)
        if called_at is not None and now < called_at + REPEAT_AFTER:
            return called_at + REPEAT_AFTER
        launch = node.launch
        assert launch is not None, node.id
        assert launch.instance is not None, node.id
        provider, instance = launch.offering.provider, launch.instance
        started_at = self._observations.started_at
        inherited = node.since < started_at and now < started_at + LISTED_WITHIN
        if inherited and provider not in self._observations.listed_at:
            # The previous process may have made the call: then the first listing shows the end.
            return now + LOOK_AGAIN
        call = partial(self._terminate, node.id, provider, instance)
        return self.start(node.id, key, call, system=provider)

    async def _terminate(self, node: NodeId, provider: ProviderName, instance: InstanceId) -> None:
        # A machine that is not found is gone already; a listing will show that.
        with contextlib.suppress(InstanceNotFoundError):
            await self._providers.get(provider).terminate(instance)
        known = self._store.fleet().nodes.get(node)
        if known is not None and not known.gone:
            now = self._called_at[node] = self._clock.now()
            self._observations.stopped_at.setdefault(node, now)
