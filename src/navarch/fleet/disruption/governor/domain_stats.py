"""Counts over the whole fleet, updated node by node.

The counts derive from stored nodes and recoveries alone, so that a restart computes the same ones.
Nodes that are gone count as well for as long as they are stored: a fault that made a node leave is
evidence about those that stay.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from navarch.core.health import HEARTBEAT, Condition, Health
from navarch.core.ids import NodeId, PoolName, RecoveryId
from navarch.core.node import Node
from navarch.core.recovery import Recovery, RecoveryState
from navarch.fleet.disruption.governor.attributes import (
    CUT_OFF_TOGETHER,
    Attribute,
    attributes_of,
    domains_of,
)
from navarch.fleet.silence import heartbeat_condition

TOOK_OVER_AFTER = timedelta(minutes=30)
"""A successor that was well for so long has taken its place: if it breaks later, the node that it
replaced counts no longer against the budgets, which the new fault needs."""

Shown = tuple[Node, Condition]
"""A node, and the condition by which it shows a fault."""


def fingerprints(node: Node) -> dict[str, Condition]:
    """Return the faults that make `node` unhealthy, each with its first condition."""
    found: dict[str, Condition] = {}
    for condition in node.conditions:
        if condition.health is Health.UNHEALTHY:
            found.setdefault(fault_of(condition), condition)
    return found


def fault_of(condition: Condition) -> str:
    """Return the fault of a condition, by which other nodes show it: its code, or its check."""
    check = condition.check.partition("/")[0]
    code, kind = condition.facts.get("code", ""), condition.facts.get("kind", "")
    return f"{kind or check} {code}" if code else check


def needs_attention(node: Node) -> bool:
    """Return whether remediation has a decision to make about `node`."""
    is_looked_at = bool(node.conditions) or node.held is not None or node.cordoned is not None
    return is_looked_at and node.pool is not None and _is_present(node)


class DomainStats:
    """Sizes of domains, recent actions in them, and the nodes that show each fault."""

    def __init__(self, nodes: Iterable[Node] = (), recoveries: Iterable[Recovery] = ()) -> None:
        self.sizes: Counter[Attribute] = Counter()
        """How many present nodes have each attribute."""
        self.exposed: Counter[Attribute] = Counter()
        """How many stored nodes have, or had until they were gone, each attribute."""
        self.attributes: dict[NodeId, tuple[Attribute, ...]] = {}
        """The attributes of each stored node that has registered."""
        self.changed: dict[NodeId, Node] = {}
        """The nodes with software that replaced an earlier version."""
        self.unwell: dict[NodeId, Node] = {}
        """Present nodes that are unhealthy."""
        self.showing: dict[str, dict[NodeId, Shown]] = {}
        """The nodes with each fault; those that are gone had it when they left."""
        self.pools: dict[PoolName, dict[NodeId, Node]] = {}
        """Nodes that need attention by pool: conditions, deferred actions or a cordon."""
        self.waiting: dict[NodeId, None] = {}
        """Nodes with a deferred action."""
        self.ended: dict[NodeId, Node] = {}
        """Nodes whose machines ended without a decision, with nothing wrong before."""
        self.returned: dict[NodeId, Node] = {}
        """Nodes that did not report for a while and reported again."""
        self.stopped: dict[Attribute, dict[NodeId, Node]] = {}
        """Nodes that do not report, or did not for a while, by each place that they can be cut off
        with."""
        self.silent: dict[NodeId, datetime] = {}
        """Those of them that stopped reporting, with the time since when."""
        self._nodes: dict[NodeId, Node] = {}
        self._acted: dict[NodeId, Node] = {}
        """The nodes that automation acted on."""
        self._successors: dict[NodeId, set[NodeId]] = {}
        self._tickets: set[RecoveryId] = set()
        """The recoveries that wait for an operator."""
        for recovery in recoveries:
            self.note_recovery(recovery)
        for node in nodes:
            self.note(node)

    def note(self, node: Node) -> None:
        """Replace the recorded version of `node`, if there is one, by this one."""
        before = self._nodes.get(node.id)
        if before is not None:
            self._remove(before)
        self._nodes[node.id] = node
        if node.acted_at is not None:
            self._acted[node.id] = node
        if node.replaces is not None:
            self._successors.setdefault(node.replaces, set()).add(node.id)
        if node.registered_at is None:
            return
        attributes = self.attributes[node.id] = attributes_of(node)
        self.exposed.update(attributes)
        if any(trait.before for trait in node.traits.values()):
            self.changed[node.id] = node
        if node.health is Health.UNHEALTHY:
            for fault, condition in fingerprints(node).items():
                self.showing.setdefault(fault, {})[node.id] = (node, condition)
        self._note_stops(node, attributes)
        if not _is_present(node):
            return
        self.sizes.update(attributes)
        if needs_attention(node) and node.pool is not None:
            self.pools.setdefault(node.pool, {})[node.id] = node
        if node.held is not None:
            self.waiting[node.id] = None
            silence = heartbeat_condition(node)
            if silence is not None:
                self.silent[node.id] = silence.since
        if node.health is Health.UNHEALTHY:
            self.unwell[node.id] = node

    def _note_stops(self, node: Node, attributes: Iterable[Attribute]) -> None:
        """Record a machine that is silent, came back after a silence, or ended unexpectedly.

        Spot machines may end at any time.
        """
        if node.past_silences:
            self.returned[node.id] = node
        if node.past_silences or node.id in self.showing.get(HEARTBEAT, ()):
            for attribute in attributes:
                if attribute[0] in CUT_OFF_TOGETHER:
                    self.stopped.setdefault(attribute, {})[node.id] = node
        is_decided = node.retiring is not None and node.retiring.decided_at is not None
        is_spot = node.place is not None and node.place.spot
        is_ill = node.health is Health.UNHEALTHY or node.acted_at is not None
        if node.gone and not (is_decided or is_spot or is_ill):
            self.ended[node.id] = node

    def note_recovery(self, recovery: Recovery) -> None:
        """Record whether `recovery` waits for an operator."""
        if recovery.state is RecoveryState.TICKET:
            self._tickets.add(recovery.id)
        else:
            self._tickets.discard(recovery.id)

    def drop(self, name: NodeId) -> None:
        """Forget a node that the store has forgotten."""
        node = self._nodes.pop(name, None)
        if node is not None:
            self._remove(node)

    def acted_since(
        self, since: datetime, is_missed: Callable[[Node], bool]
    ) -> dict[NodeId, tuple[Attribute, ...]]:
        """Return the nodes with an action after `since` or an outstanding one, with their domains.

        The domains are those at the time of the action. A replacement is outstanding until the
        successor serves, a repair until it ends. `is_missed` returns whether the pool of a node is
        short of nodes; other pools need no successor.
        """
        return {
            name: domains_of(node, at=node.acted_at)
            for name, node in self._acted.items()
            if node.acted_at is not None
            and (node.acted_at > since or self._is_outstanding(node, is_missed))
        }

    def lost(self, acted: Mapping[NodeId, Iterable[Attribute]]) -> Counter[Attribute]:
        """Return how many of the nodes that were `acted` on each domain lacks.

        A node that is gone is not lacking where a successor of it has registered.
        """
        found: Counter[Attribute] = Counter()
        for name, places in acted.items():
            if self._nodes[name].gone:
                line = filter(_is_present, self._successors_of(name))
                filled = {place for node in line for place in self.attributes[node.id]}
                found.update(place for place in places if place not in filled)
        return found

    def faults_of(self, name: NodeId) -> Iterable[str]:
        """Return the faults of a stored node; of one that is gone, those with which it left."""
        return fingerprints(self._nodes[name])

    def next_expiry(self, now: datetime, windows: Iterable[timedelta]) -> datetime | None:
        """Return when the next action leaves one of `windows`."""
        acts = [node.acted_at for node in self._acted.values() if node.acted_at is not None]
        ends = [acted_at + window for window in windows for acted_at in acts]
        return min((end for end in ends if end > now), default=None)

    def _remove(self, node: Node) -> None:
        """Undo `note`."""
        name = node.id
        self._acted.pop(name, None)
        if node.replaces is not None:
            self._successors[node.replaces].discard(name)
        attributes = self.attributes.pop(name, ())
        self.exposed.subtract(attributes)
        self.changed.pop(name, None)
        self.ended.pop(name, None)
        self.returned.pop(name, None)
        for fault in fingerprints(node):
            self.showing.get(fault, {}).pop(name, None)
        for attribute in attributes:
            if attribute in self.stopped:
                self.stopped[attribute].pop(name, None)
        if not _is_present(node):
            return
        self.sizes.subtract(attributes)
        if node.pool in self.pools:
            self.pools[node.pool].pop(name, None)
        self.waiting.pop(name, None)
        self.silent.pop(name, None)
        self.unwell.pop(name, None)

    def _is_outstanding(self, node: Node, is_missed: Callable[[Node], bool]) -> bool:
        if node.recovery in self._tickets:
            return False
        if node.retiring is None:
            return node.recovery is not None and not node.gone
        return not node.retiring.surplus and not self._is_succeeded(node.id) and is_missed(node)

    def _is_succeeded(self, name: NodeId) -> bool:
        """Return whether a successor of `name` took its place, or a successor of its successor."""
        return any(map(_took_over, self._successors_of(name)))

    def _successors_of(self, name: NodeId) -> Iterator[Node]:
        """Yield the successors of `name`, and the successors of those."""
        seen = {name}
        to_visit = [name]
        while to_visit:
            successors = self._successors.get(to_visit.pop(), set()) - seen
            yield from (self._nodes[each] for each in sorted(successors))
            seen |= successors
            to_visit += successors


def _is_present(node: Node) -> bool:
    return node.registered_at is not None and not node.gone


def _took_over(node: Node) -> bool:
    """Return whether `node` serves, or was well for so long that its faults are its own."""
    if node.serving or node.registered_at is None:
        return node.serving
    ends = [each.since for each in node.conditions if each.health is Health.UNHEALTHY]
    if node.acted_at is not None:
        ends.append(node.acted_at)
    return min(ends, default=node.registered_at) >= node.registered_at + TOOK_OVER_AFTER
