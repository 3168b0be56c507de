"""Who in a pool needs a look, and how many are simply there.

Of most nodes a plan has to know no more than that they count. A roll keeps them apart from the
others, node by node, so that planning a large pool costs what is going on in it.
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
from navarch.fleet.disruption.maintenance import under_maintenance


class SteadyNodes(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that a plan is not shown, because all that matters is how many there are."""

    nodes: int = 0
    held: Mapping[ProviderName, int] = msgspec.field(default_factory=dict)
    """How many of them each provider has sold us."""
    booting_since: datetime | None = None
    """When the first of them that has not reported in began to boot."""

    def late_at(self, pool: Pool) -> datetime | None:
        """Return when the first of them will have booted for too long."""
        return self.booting_since and self.booting_since + pool.boot_deadline


NO_STEADY_NODES = SteadyNodes()


class PoolIndex:
    """The nodes of one pool, those that only count apart from the rest.

    It says nothing that the nodes do not say themselves: after a restart it is made anew.
    """

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self._nodes: dict[NodeId, Node] = {}
        self._sorted_by: dict[NodeId, object] = {}
        """What decided where each of them stands, and those who are related to it."""
        self._places: dict[NodeId, int] = {}
        self._next_place = 0
        self._others: dict[NodeId, Node] = {}
        self._counted: dict[NodeId, Node] = {}
        self._held: Counter[ProviderName] = Counter()
        self._booting: list[tuple[datetime, NodeId]] = []
        self._failed: dict[NodeId, Node] = {}
        """Those that were given up because they never came up."""
        self._successors: dict[NodeId, dict[NodeId, None]] = {}
        """Who was bought to take whose place."""
        for node in nodes:
            self.note(node)

    def note(self, node: Node) -> None:
        """Take in what has become of `node`."""
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

    def everybody(self) -> list[Node]:
        """Return all nodes, in the order in which they were requested."""
        return list(self._nodes.values())

    def others(self) -> list[Node]:
        """Return the nodes that do not only count, in the same order."""
        if len(self._others) < 2:
            return list(self._others.values())
        return sorted(self._others.values(), key=lambda node: self._places[node.id])

    def beside(self) -> SteadyNodes:
        """Return what there is beside the others."""
        return SteadyNodes(
            nodes=len(self._counted), held=self._held, booting_since=self._booting_since()
        )

    def late_at(self, pool: Pool) -> datetime | None:
        """Return when the first of those that only count will have booted for too long."""
        booting_since = self._booting_since()
        return booting_since and booting_since + pool.boot_deadline

    def shown_for(self, pool: Pool, now: datetime) -> tuple[list[Node], SteadyNodes]:
        """Return the nodes by which the size of `pool` is planned, and who is there beside them.

        Everybody is shown where any of them may have to go: because there are too many, for their
        age, kind or price, or because they boot for too long; and where they belong to gangs.
        """
        disruption = pool.disruption
        picky = (
            disruption.lifetime_max is not None
            or disruption.replace_drifted
            or may_be_undercut(pool)
        )
        if pool.gang or picky:
            return self.everybody(), NO_STEADY_NODES
        others, beside = self.others(), self.beside()
        late_at = beside.late_at(pool)
        counts = beside.nodes + sum([node.counts for node in others])
        if (late_at is not None and now >= late_at) or counts > pool.target:
            return self.everybody(), NO_STEADY_NODES
        return others, beside

    def leaves_at_rest(self, before: Node | None, node: Node) -> bool:
        """Return whether nothing but the next date of a pool at rest is another by this change.

        So it is where `node` is one of those that only count, and was so `before`; where it is at
        work as before, well or ill: what is to be done about that is for others to say; and where
        it was on its way out before: it makes room, of which such a pool has no need.
        """
        if before is None:
            return False
        if node.retiring is not None:
            return before.retiring is node.retiring and node.gang is None
        if _only_works(before) and _only_works(node):
            return True
        return node.id in self._counted and _only_counts(before)

    def leaves_no_room(self, pool: Pool, before: Node | None, node: Node) -> bool:
        """Return whether `node` was at work, is to go, and `pool` has no room for another yet.

        Then all that a plan of a pool at rest can say is that it is at rest no more.
        """
        if before is None or not _only_works(before):
            return False
        if node.retiring is None or node.retiring.failed_at is not None or node.gang is not None:
            return False
        others = sum([not other.gone for other in self._others.values()])
        return len(self._counted) + others >= pool.nodes_max

    def may_have_failed(self, pool: Pool, now: datetime) -> list[Node]:
        """Return every node that never came up, and some more."""
        if self._is_somebody_late(pool, now):
            return self.everybody()
        return list((self._others | self._failed).values())

    def _is_somebody_late(self, pool: Pool, now: datetime) -> bool:
        """Return whether somebody who only counts should have reported in by now."""
        late_at = self.late_at(pool)
        return late_at is not None and now >= late_at

    def _renew(self, before: Node, node: Node) -> None:
        """Put a node in its own place again, where it stands as before and so does its family."""
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
        """Forget whom `node` replaces."""
        if node.replaces is None:
            return
        heirs = self._successors[node.replaces]
        del heirs[node.id]
        if not heirs:
            del self._successors[node.replaces]
        self._sort_family(node.replaces)

    def _sort_family(self, name: NodeId) -> None:
        """Put a node where it belongs, after something has changed, and whoever is related to it.

        Who stands for whom can change for all who replace one another, one after another.
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
        """Count a node once more, or once less, with who has sold it."""
        seller = node.provider
        if seller is not None:
            self._held[seller] += change

    def _await(self, node: Node) -> None:
        """Note when a node began to boot that has not reported in."""
        if node.phase is Phase.BOOTING:
            heapq.heappush(self._booting, (node.since, node.id))

    def _is_over(self, node: Node) -> bool:
        """Return whether `node` is gone and not missed.

        It never served, was too many, or its place is taken by somebody who only counts.
        """
        if not node.gone:
            return False
        if not _has_served(node):
            return True
        replaced = None if node.replaces is None else self._nodes.get(node.replaces)
        if replaced is not None and not self._stands_for(node, replaced):
            # It shows that the one before it is not missed, and must be shown itself.
            return False
        return self._is_taken(node)

    def _is_taken(self, node: Node) -> bool:
        """Return whether the place of `node` is taken, maybe by the heir of its heir."""
        for name in self._successors.get(node.id, ()):
            heir = self._nodes[name]
            if self._is_plain(heir) or (self._stands_for(heir, node) and self._is_taken(heir)):
                return True
        return False

    def _stands_for(self, heir: Node, node: Node) -> bool:
        """Return whether `node` is not missed as long as its lost heir is not: it went before."""
        if not heir.gone or not node.gone:
            return False
        came_later = self._places[heir.id] > self._places[node.id]
        return came_later and heir.since >= node.since and _has_served(heir)

    def _is_plain(self, node: Node) -> bool:
        """Return whether there is nothing to `node` but that it counts, and whom it replaces."""
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
    """Return whether `node` is on its way or at work, and nothing is the matter with it."""
    if node.conditions or node.health is Health.UNHEALTHY:
        return False
    if node.retiring is not None or node.gang is not None or node.waiting:
        return False
    if node.phase is Phase.REQUESTED:
        return node.launch is not None
    return node.phase is Phase.READY or node.phase is Phase.BOOTING


def _only_works(node: Node) -> bool:
    """Return whether `node` is at work, well or ill, and no successor is to be bought for it."""
    if node.phase is not Phase.READY or node.retiring is not None:
        return False
    if node.gang is not None or node.waiting:
        return False
    return not node.conditions or not any(under_maintenance([node]))


def _sorted_by(node: Node) -> object:
    """Return what decides where `node` stands, and where those stand who are related to it."""
    if node.gone:
        return node.replaces, node.since, _has_served(node)
    return node.replaces, _only_counts(node)


def _has_served(node: Node) -> bool:
    """Return whether `node` can be missed once it is gone."""
    surplus = node.retiring is not None and node.retiring.surplus
    return node.registered_at is not None and not surplus
