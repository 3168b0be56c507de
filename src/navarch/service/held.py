"""The API for actions that automation holds back."""

from collections.abc import Sequence

from navarch.control.runtime.updates import retried
from navarch.core.disruption import DeferredBy
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.core.recovery import Recovery
from navarch.ports.clock import Clock
from navarch.ports.held import HeldNode
from navarch.ports.store import Store


class HeldService:
    """Serves HeldApi by recording releases; the remediation controller acts on them."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store

    async def list_held(self, *, pool: PoolName | None = None) -> Sequence[HeldNode]:
        """Return every node with a held action, the longest held first."""
        fleet = self._store.fleet()
        if pool is not None and pool not in fleet.pools:
            raise NotFoundError(f"pool not found: {pool}")
        nodes = fleet.nodes if pool is None else fleet.in_pool(pool)
        found = [shown for node in nodes.values() if (shown := _shown(node)) is not None]
        return sorted(found, key=lambda each: (each.held.since, each.node))

    @retried
    async def release_held(
        self, nodes: Sequence[NodeId] = (), *, pool: PoolName | None = None, reason: str
    ) -> Sequence[HeldNode]:
        """Release held actions of nodes, or of all nodes of a pool."""
        if bool(nodes) is (pool is not None):
            raise InvalidError("specify either nodes or a pool")
        fleet = self._store.fleet()
        braked: list[Pool] = []
        if pool is None:
            waiting = [_waiting(fleet, name) for name in nodes]
        else:
            held = await self.list_held(pool=pool)
            waiting = [fleet.nodes[x.node] for x in held if x.held.releasable]
            paused = fleet.pools[pool].braked or fleet.pools[pool].held
            braked = [fleet.pools[pool]] if paused else []
            if not waiting and not braked:
                for each in held:
                    if each.held.by is DeferredBy.REMEDIATOR:
                        _check_releasable(fleet.nodes[each.node])
                dry = " but a dry run" if held else ""
                raise NotPossibleError(f"nothing is held back in pool {pool}{dry}")
        now = self._clock.now()
        why = reason.strip() or "released by hand"
        after = [_released(node, why) for node in waiting]
        events = [
            Event(at=now, about=about("node", node.id), kind="node.released", reason=why)
            for node in after
        ]
        events += [
            Event(at=now, about=about("pool", each.name), kind="pool.unbraked", reason=why)
            for each in braked
        ]
        pools = [evolve(each, braked=None, brake_released_at=now) for each in braked]
        change = Change(pools=pools, nodes=after, events=events)
        await self._store.commit(change, based_on=fleet.revision)
        return [shown for node in after if (shown := _shown(node)) is not None]

    async def list_recoveries(self, *, node: NodeId | None = None) -> Sequence[Recovery]:
        """Return the stored recoveries, newest first."""
        known = self._store.fleet().recoveries.values()
        found = [recovery for recovery in known if node is None or recovery.node == node]
        return sorted(found, key=lambda each: (each.begun_at, each.id), reverse=True)


def _shown(node: Node) -> HeldNode | None:
    if node.held is None or node.gone:
        return None
    return HeldNode(node=node.id, pool=node.pool, held=node.held)


def _waiting(fleet: Fleet, name: NodeId) -> Node:
    node = fleet.nodes.get(name)
    if node is None:
        raise NotFoundError(f"node not found: {name}")
    if node.held is None or node.gone:
        raise NotPossibleError(f"nothing is held back about node {name}")
    _check_releasable(node)
    return node


def _check_releasable(node: Node) -> None:
    """Raise NotPossibleError if the held action cannot be released."""
    assert node.held is not None, node.id
    instead = f"or use `navarch terminate {node.id}`"
    if node.held.by is DeferredBy.DRY_RUN:
        raise NotPossibleError(f"remediation of pool {node.pool} is a dry run; end that, {instead}")
    if node.held.by is DeferredBy.REMEDIATOR:
        raise NotPossibleError(
            f"nothing is decided about node {node.id}: {node.held.because}; repair the remediator, "
            f"give pool {node.pool} another, {instead}"
        )


def _released(node: Node, why: str) -> Node:
    assert node.held is not None, node.id
    return evolve(node, held=evolve(node.held, released=why))
