"""The nodes of a pool that a plan must see one by one, apart from those that only count.

A pool of thousands of nodes is planned again for each of them that comes up. Such a plan needs the
count of the steady nodes, not the nodes.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import count

import msgspec

from navarch.core.health import Health
from navarch.core.ids import NodeId, ProviderName
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.fleet.boot_times import AS_CONFIGURED, BootWatch
from navarch.fleet.disruption.costly import may_be_undercut


class SteadyNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of nodes that a plan does not see one by one."""

    nodes: int = 0
    held: Mapping[ProviderName, int] = msgspec.field(default_factory=dict)
    """The number of them per provider."""
    late_at: datetime | None = None
    """When the first of them exceeds the boot deadline."""


NO_STEADY_NODES = SteadyNodes()


class PoolIndex:
    """The nodes of one pool, with steady nodes separate from the rest."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.nodes: dict[NodeId, Node] = {}
        """All nodes, in the order in which they were requested."""
        self._places: dict[NodeId, int] = {}
        self._next_place = count()
        self._steady: dict[NodeId, Node] = {}
        self._held: Counter[ProviderName] = Counter()
        """The number of steady nodes per provider."""
        self._others: dict[NodeId, Node] = {}
        self._booting: list[tuple[datetime, NodeId]] = []
        """The steady nodes that have not registered, in the order in which they began to boot."""
        for node in nodes:
            self.note(node)

    def note(self, node: Node) -> None:
        """Add `node`, or replace its earlier state."""
        name = node.id
        self.nodes[name] = node
        if name not in self._places:
            self._places[name] = next(self._next_place)
        self._remove(name)
        if _only_counts(node):
            self._steady[name] = node
            if (provider := node.provider) is not None:
                self._held[provider] += 1
            if node.phase is Phase.BOOTING:
                insort(self._booting, (node.since, name))
        else:
            self._others[name] = node

    def drop(self, name: NodeId) -> None:
        """Forget a node that the store has forgotten."""
        self._remove(name)
        self.nodes.pop(name, None)
        self._places.pop(name, None)

    def _remove(self, name: NodeId) -> None:
        """Remove the earlier state of a node from its group."""
        self._others.pop(name, None)
        before = self._steady.pop(name, None)
        if before is not None:
            if (provider := before.provider) is not None:
                self._held[provider] -= 1
            if before.phase is Phase.BOOTING:
                del self._booting[bisect_left(self._booting, (before.since, name))]

    def unsteady(self) -> tuple[list[Node], int]:
        """Return the nodes that are not steady, in order, and the number of the others."""
        names = sorted(self._others, key=self._places.__getitem__)
        return [self._others[name] for name in names], len(self._steady)

    def shown_for(
        self, pool: Pool, now: datetime, boots: BootWatch = AS_CONFIGURED
    ) -> tuple[list[Node], SteadyNodes]:
        """Return the nodes that a plan of `pool` must see, and the counts of the others.

        A plan sees every node if any of them may have to be replaced or removed (surplus, age,
        kind, price, or boot deadline) and if the nodes belong to gangs.
        """
        disruption = pool.disruption
        picky = (
            disruption.lifetime_max is not None
            or disruption.replace_drifted
            or may_be_undercut(pool)
        )
        late_at = self._booting[0][0] + pool.boot_deadline if self._booting else None
        if late_at is not None and now >= late_at:
            # No wait is shorter. Which nodes are waited for longer is only computed now.
            late_at = boots.first_deadline(pool, (self._steady[name] for _, name in self._booting))
        counts = len(self._steady) + sum(node.counts for node in self._others.values())
        is_late = late_at is not None and now >= late_at
        if pool.gang or picky or is_late or counts > pool.target:
            return list(self.nodes.values()), NO_STEADY_NODES
        # A sound node and its successor are planned together.
        replaced = self._steady.keys() & {node.replaces for node in self._others.values()}
        providers = (self._steady[name].provider for name in replaced)
        held = self._held - Counter(filter(None, providers))
        shown = sorted([*self._others, *replaced], key=self._places.__getitem__)
        steady = SteadyNodes(nodes=len(self._steady) - len(replaced), held=held, late_at=late_at)
        return [self.nodes[name] for name in shown], steady


def _only_counts(node: Node) -> bool:
    """Return whether `node` is coming up or ready, without faults, retirement or relations."""
    if node.conditions or node.health is Health.UNHEALTHY:
        return False
    if node.retiring is not None or node.replaces is not None:
        return False
    if node.gang is not None or node.waiting:
        return False
    if node.phase is Phase.REQUESTED:
        return node.launch is not None
    return node.phase is Phase.READY or node.phase is Phase.BOOTING
