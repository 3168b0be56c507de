"""The nodes of a pool that need attention, and the count of the steady ones.

A plan only needs the count of steady nodes. The index separates them from the others, so that the
cost of planning a large pool grows with the changes in it, not with its size.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from navarch.core.health import Health
from navarch.core.ids import NodeId, ProviderName
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.fleet.disruption.costly import may_be_undercut


class SteadyNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of nodes that a plan does not see one by one."""

    nodes: int = 0
    held: Mapping[ProviderName, int] = msgspec.field(default_factory=dict)
    """The number of them per provider."""
    booting_since: datetime | None = None
    """When the first of them that has not registered began to boot."""

    def late_at(self, pool: Pool) -> datetime | None:
        """Return when the first of them exceeds the boot deadline."""
        return self.booting_since and self.booting_since + pool.boot_deadline


NO_STEADY_NODES = SteadyNodes()


class PoolIndex:
    """The nodes of one pool, with steady nodes separate from the rest.

    It is derived from the nodes alone: after a restart it is built again.
    """

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._nodes: dict[NodeId, Node] = {}
        self._sorted_by: dict[NodeId, object] = {}
        """The properties that decided the group of each node and of its related nodes."""
        self._places: dict[NodeId, int] = {}
        self._next_place = 0
        self._others: dict[NodeId, Node] = {}
        self._counted: dict[NodeId, Node] = {}
        self._held: Counter[ProviderName] = Counter()
        self._booting: list[tuple[datetime, NodeId]] = []
        self._failed: dict[NodeId, Node] = {}
        """Nodes that were abandoned because they never came up."""
        self._successors: dict[NodeId, dict[NodeId, None]] = {}
        """The successors of each replaced node."""
        for node in nodes:
            self.note(node)

    def note(self, node: Node) -> None:
        """Add `node`, or replace its earlier state."""
        name = node.id
        before = self._nodes.get(name)
        self._nodes[name] = node
        retiring = node.retiring
        if retiring is not None and retiring.failed_at is not None:
            self._failed[name] = node
        elif name in self._failed:
            del self._failed[name]
        sorted_by = _sorted_by(node)
        if before is None:
            self._places[name] = self._next_place
            self._next_place += 1
        elif self._sorted_by[name] == sorted_by:
            self._renew(before, node)
            return
        self._sorted_by[name] = sorted_by
        if before is not None and before.replaces != node.replaces:
            self._part(before)
        if node.replaces is not None:
            self._successors.setdefault(node.replaces, {})[name] = None
        self._sort_family(name)

    def drop(self, name: NodeId) -> None:
        """Forget a node that the store has forgotten."""
        node = self._nodes.pop(name, None)
        if node is None:
            return
        del self._places[name], self._sorted_by[name]
        self._failed.pop(name, None)
        self._part(node)
        self._sort_family(name)

    def all_nodes(self) -> list[Node]:
        """Return all nodes, in the order in which they were requested."""
        return list(self._nodes.values())

    def others(self) -> list[Node]:
        """Return the nodes that are not steady, in the same order."""
        if len(self._others) < 2:
            return list(self._others.values())
        return sorted(self._others.values(), key=lambda node: self._places[node.id])

    def steady(self) -> SteadyNodes:
        """Return the counts of the steady nodes."""
        return SteadyNodes(
            nodes=len(self._counted), held=self._held, booting_since=self._booting_since()
        )

    def late_at(self, pool: Pool) -> datetime | None:
        """Return when the first steady node exceeds the boot deadline."""
        booting_since = self._booting_since()
        return booting_since and booting_since + pool.boot_deadline

    def shown_for(self, pool: Pool, now: datetime) -> tuple[list[Node], SteadyNodes]:
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
        if pool.gang or picky:
            return self.all_nodes(), NO_STEADY_NODES
        others, steady = self.others(), self.steady()
        late_at = steady.late_at(pool)
        counts = steady.nodes + sum([node.counts for node in others])
        if (late_at is not None and now >= late_at) or counts > pool.target:
            return self.all_nodes(), NO_STEADY_NODES
        return others, steady

    def may_have_failed(self, pool: Pool, now: datetime) -> list[Node]:
        """Return all nodes that may have failed to come up."""
        late_at = self.late_at(pool)
        if late_at is not None and now >= late_at:
            return self.all_nodes()
        return list((self._others | self._failed).values())

    def _renew(self, before: Node, node: Node) -> None:
        """Replace the state of a node whose group, like that of its related nodes, is unchanged."""
        name = node.id
        if name in self._others:
            self._others[name] = node
        elif name in self._counted:
            self._counted[name] = node
            if before.launch is not node.launch or before.offering is not node.offering:
                self._hold(before, -1)
                self._hold(node, 1)
            if before.since is not node.since or before.phase is not node.phase:
                self._await(node)

    def _part(self, node: Node) -> None:
        """Remove `node` from the successors of the node that it replaces."""
        if node.replaces is None:
            return
        heirs = self._successors[node.replaces]
        del heirs[node.id]
        if not heirs:
            del self._successors[node.replaces]
        self._sort_family(node.replaces)

    def _sort_family(self, name: NodeId) -> None:
        """Assign a changed node and its related nodes to their groups.

        A change can affect every node of a chain in which each node replaces the one before.
        """
        node = self._nodes.get(name)
        if name not in self._successors and (node is None or node.replaces is None):
            self._put(name)
            return
        family: dict[NodeId, None] = {}
        found = [name]
        while found:
            each = found.pop()
            if each not in family:
                family[each] = None
                found += self._successors.get(each, ())
                known = self._nodes.get(each)
                if known is not None and known.replaces is not None:
                    found.append(known.replaces)
        for each in family:
            self._put(each)

    def _put(self, name: NodeId) -> None:
        before = self._counted.pop(name, None)
        if before is not None:
            self._hold(before, -1)
        elif name in self._others:
            del self._others[name]
        node = self._nodes.get(name)
        if node is None or (node.gone and self._is_over(node)):
            return
        replaced = None if node.replaces is None else self._nodes.get(node.replaces)
        if not self._is_plain(node) or (replaced is not None and not self._is_over(replaced)):
            self._others[name] = node
            return
        self._counted[name] = node
        self._hold(node, 1)
        self._await(node)

    def _hold(self, node: Node, change: int) -> None:
        """Add `change` to the count of the provider of `node`."""
        seller = node.provider
        if seller is not None:
            self._held[seller] += change

    def _await(self, node: Node) -> None:
        """Record when `node` began to boot, if it has not registered."""
        if node.phase is Phase.BOOTING:
            heapq.heappush(self._booting, (node.since, node.id))

    def _is_over(self, node: Node) -> bool:
        """Return whether `node` is gone and needs no successor.

        It never served, was surplus, or is replaced by a steady node.
        """
        if not node.gone:
            return False
        if not _has_served(node):
            return True
        replaced = None if node.replaces is None else self._nodes.get(node.replaces)
        if replaced is not None and not self._stands_for(node, replaced):
            # A plan must see it to find that the node before it needs no successor.
            return False
        return self._is_taken(node)

    def _is_taken(self, node: Node) -> bool:
        """Return whether `node` is replaced by a steady node, directly or through successors."""
        for name in self._successors.get(node.id, ()):
            heir = self._nodes[name]
            if self._is_plain(heir) or (self._stands_for(heir, node) and self._is_taken(heir)):
                return True
        return False

    def _stands_for(self, heir: Node, node: Node) -> bool:
        """Return whether only the lost successor `heir`, not `node`, may need a replacement."""
        if not heir.gone or not node.gone:
            return False
        came_later = self._places[heir.id] > self._places[node.id]
        return came_later and heir.since >= node.since and _has_served(heir)

    def _is_plain(self, node: Node) -> bool:
        """Return whether `node` is steady and has no successor."""
        return node.id not in self._successors and _only_counts(node)

    def _booting_since(self) -> datetime | None:
        while self._booting:
            since, name = self._booting[0]
            node = self._counted.get(name)
            if node is not None and node.phase is Phase.BOOTING and node.since == since:
                return since
            heapq.heappop(self._booting)
        return None


def _only_counts(node: Node) -> bool:
    """Return whether `node` is coming up or ready, without faults, retirement or gang."""
    if node.conditions or node.health is Health.UNHEALTHY:
        return False
    if node.retiring is not None or node.gang is not None or node.waiting:
        return False
    if node.phase is Phase.REQUESTED:
        return node.launch is not None
    return node.phase is Phase.READY or node.phase is Phase.BOOTING


def _sorted_by(node: Node) -> object:
    """Return the properties that decide the group of `node` and of its related nodes."""
    if node.gone:
        return node.replaces, node.since, _has_served(node)
    return node.replaces, _only_counts(node)


def _has_served(node: Node) -> bool:
    """Return whether `node` needs a successor once it is gone."""
    surplus = node.retiring is not None and node.retiring.surplus
    return node.registered_at is not None and not surplus
