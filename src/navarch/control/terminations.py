"""The termination reconciler: tells providers to end machines until they are really gone."""

from datetime import datetime, timedelta

from navarch.control.nodes import NodeFollower
from navarch.control.operations import OperationRunner
from navarch.control.pending_observations import PendingObservations
from navarch.control.providers import Providers
from navarch.core.errors import InstanceNotFoundError
from navarch.core.ids import InstanceId, NodeId, ProviderName
from navarch.core.node import Node, Phase
from navarch.ports.clock import Clock
from navarch.ports.store import Store

ASK_AGAIN = timedelta(minutes=1)
"""How long a machine may take to disappear before the provider is told again."""


class TerminationReconciler:
    """Never gives up on a machine that must go. That it is gone is for the listings to say."""

    name = "terminations"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        providers: Providers,
        errands: OperationRunner,
        evidence: PendingObservations,
    ) -> None:
        self._clock = clock
        self._providers = providers
        self._errands = errands
        self._evidence = evidence
        self._asked_at: dict[NodeId, datetime] = {}
        self._nodes = NodeFollower(
            clock,
            store,
            phases=[Phase.TERMINATING],
            concerns=_has_machine,
            advance=self._advance,
            forget=lambda node: self._asked_at.pop(node, None),
        )
        self.agenda = self._nodes.agenda

    async def reconcile(self) -> datetime | None:
        """Ask for every machine that must go and has not been asked for lately."""
        return self._nodes.round()

    def _advance(self, node: Node, now: datetime) -> datetime | None:
        key = f"terminate/{node.id}"
        if self._errands.busy(key):
            return None
        asked_at = self._asked_at.get(node.id)
        if asked_at is not None and now < asked_at + ASK_AGAIN:
            return asked_at + ASK_AGAIN
        launch = node.launch
        assert launch is not None, node.id
        assert launch.instance is not None, node.id
        provider, instance = launch.offering.provider, launch.instance
        return self._errands.send(key, lambda: self._terminate(node.id, provider, instance))

    async def _terminate(self, node: NodeId, provider: ProviderName, instance: InstanceId) -> None:
        try:
            await self._providers.get(provider).terminate(instance)
        except InstanceNotFoundError:
            pass  # It has gone already, which is for the listings to say.
        except BaseException:
            self._nodes.look_at(node)
            raise
        now = self._clock.now()
        # Unless a listing has said meanwhile that it is gone.
        if self._nodes.look_again(node, now + ASK_AGAIN):
            self._asked_at[node] = now
            self._evidence.stopped_at.setdefault(node, now)


def _has_machine(node: Node) -> bool:
    return node.instance is not None
