"""The use cases of machines that Navarch did not buy."""

from navarch.control.runtime.controller import retried
from navarch.core.errors import NotFoundError, NotPossibleError
from navarch.core.event import BY_HAND
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.core.records import evolve
from navarch.fleet import lifecycle
from navarch.fleet.silence import heartbeat_condition
from navarch.ports.api import NodeView
from navarch.ports.clock import Clock
from navarch.ports.store import Store
from navarch.service.views import node_view


class AdoptionService:
    """Serves AdoptionApi."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store

    @retried
    async def forget(self, node: NodeId, *, reason: str) -> NodeView:
        """Remove a self-registered node whose host no longer reports."""
        fleet = self._store.fleet()
        before = fleet.nodes.get(node)
        if before is None:
            raise NotFoundError(f"node not found: {node}")
        _check_forgettable(before)
        pool = None if before.pool is None else fleet.pools.get(before.pool)
        if before.gone:
            return node_view(before, pool, None)
        why = f"forgotten by hand: {reason}" if reason.strip() else "forgotten by hand"
        after, event = lifecycle.forgotten(before, why, now=self._clock.now())
        event = evolve(event, facts={**event.facts, "by": BY_HAND})
        change = Change(nodes=[after], events=[event])
        await self._store.commit(change, based_on=fleet.revision)
        return node_view(after, pool, None)


def _check_forgettable(node: Node) -> None:
    """Raise NotPossibleError if the machine of `node` costs money here, or still reports."""
    if not node.self_registered:
        raise NotPossibleError(
            f"node {node.id} was bought by Navarch; end it with `navarch terminate {node.id}`"
        )
    if not node.gone and heartbeat_condition(node) is None:
        raise NotPossibleError(
            f"node {node.id} still reports; stop its agent (systemctl stop navarch-agent), wait "
            f"until `navarch get {node.id}` shows that it is silent, and forget it then"
        )
