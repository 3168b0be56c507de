"""Counts over the whole fleet, kept up to date node by node.

Everything counted is on the nodes themselves, so that a restart counts the same again.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from datetime import datetime

from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Node, Phase
from navarch.core.recovery import Recovery, RecoveryState
from navarch.core.trait import CHANGING
from navarch.fleet.disruption.governor.domains import Place, domains_of
from navarch.fleet.silence import heartbeat_condition

TraitValue = tuple[str, str]
"""A trait's name and its value."""

Shown = tuple[Node, Condition]
"""A node, and the condition by which it shows a fault."""


def fingerprint(condition: Condition) -> str:
    """Return what makes a fault the same fault on another node: its code, or its check."""
    code = condition.facts.get("code", "")
    kind = condition.facts.get("kind", "") or condition.check.partition("/")[0]
    return f"{kind} {code}" if code else condition.check.partition("/")[0]


def fingerprints(node: Node) -> dict[str, Condition]:
    """Return the faults that make `node` unhealthy, each with its first condition."""
    found: dict[str, Condition] = {}
    for condition in node.conditions:
        if condition.health is Health.UNHEALTHY:
            found.setdefault(fingerprint(condition), condition)
    return found


class Census:
    """Knows how large every domain is, what was done there lately, and who shows which fault."""

    def __init__(self, nodes: Iterable[Node] = (), recoveries: Iterable[Recovery] = ()) -> None:
        self.sizes: Counter[Place] = Counter()
        self.unwell: dict[NodeId, Node] = {}
        """Nodes that are there and unhealthy."""
        self.showing: dict[str, dict[NodeId, Shown]] = {}
        """The same, by fault."""
        self.pools: dict[PoolName, dict[NodeId, Node]] = {}
        """Nodes with something to look at, by pool: conditions, or something held back."""
        self.waiting: dict[NodeId, None] = {}
        """Nodes about which something is held back."""
        self.silent: dict[NodeId, datetime] = {}
        """Those of them that are not heard of, and since when."""
        self.having: Counter[TraitValue] = Counter()
        self.first_had: dict[TraitValue, datetime] = {}
        self._known: dict[NodeId, Node] = {}
        self._faults: dict[NodeId, dict[str, Condition]] = {}
        self._acted: dict[NodeId, tuple[datetime, tuple[Place, ...]]] = {}
        self._recent: Counter[Place] = Counter()
        self._queue: deque[tuple[datetime, NodeId]] = deque()
        self._out: Counter[Place] = Counter()
        self._with_people: set[NodeId] = set()
        for recovery in recoveries:
            self.note_recovery(recovery)
        for node in sorted(nodes, key=lambda x: (x.acted_at is None, x.acted_at, x.id)):
            self.note(node)

    def note(self, node: Node) -> None:
        """Take in what has become of `node`."""
        before = self._known.get(node.id)
        self._known[node.id] = node
        is_here = _is_present(node)
        if before is not None and is_here and self._counts_alike(before, node):
            # Most of what happens to a node changes no count.
            self._hide(before)
            self._show(node)
        else:
            if before is not None:
                self._forget_present(before)
            if is_here:
                self._add_present(node)
        self._note_act(node)
        if before is None or before.traits is not node.traits:
            self._note_traits(node)

    def note_recovery(self, recovery: Recovery) -> None:
        """Take in whether a node waits for people rather than for us."""
        known = self._known.get(recovery.node)
        if known is not None:
            self._forget_present(known)
        if recovery.state is RecoveryState.TICKET:
            self._with_people.add(recovery.node)
        else:
            self._with_people.discard(recovery.node)
        if known is not None and _is_present(known):
            self._add_present(known)

    def drop(self, node: NodeId) -> None:
        """Forget a node that the store has forgotten."""
        before = self._known.pop(node, None)
        if before is not None:
            self._forget_present(before)
        self._with_people.discard(node)

    def faults_of(self, node: Node) -> Mapping[str, Condition]:
        """Return the faults that make `node` unhealthy, which have been looked for already."""
        known = self._known.get(node.id) is node
        return self._faults.get(node.id, {}) if known else fingerprints(node)

    def looks_at(self, name: NodeId) -> bool:
        """Return whether there is something to look at in a node of some pool."""
        node = self._known.get(name)
        return node is not None and name in self.pools.get(node.pool or PoolName(""), ())

    def expire(self, before: datetime) -> None:
        """Let go of actions that are older than the window."""
        while self._queue and self._queue[0][0] <= before:
            acted_at, name = self._queue.popleft()
            if name in self._acted and self._acted[name][0] == acted_at:
                self._recent.subtract(self._acted.pop(name)[1])

    def next_expiry(self) -> datetime | None:
        """Return the moment of the oldest action that still counts."""
        return self._queue[0][0] if self._queue else None

    def acted_in(self, place: Place) -> int:
        """Return how many nodes of a domain were acted on within the window."""
        return self._recent[place]

    def out_of(self, place: Place) -> int:
        """Return how many nodes of a domain are on their way out, or being mended, by us."""
        return self._out[place]

    def __len__(self) -> int:
        """Return how many nodes there are."""
        return sum(count for (kind, _), count in self.sizes.items() if kind == "pool")

    def _add_present(self, node: Node) -> None:
        self._count(node, 1)
        self._show(node)

    def _forget_present(self, node: Node) -> None:
        if _is_present(node):
            self._count(node, -1)
            self._hide(node)

    def _count(self, node: Node, change: int) -> None:
        """Count a node once more, or once less, wherever it is counted."""
        is_out = self._is_out(node)
        for place in domains_of(node):
            self.sizes[place] += change
            if is_out:
                self._out[place] += change
        for key, trait in node.traits.items():
            self.having[key, trait.value] += change

    def _counts_alike(self, before: Node, node: Node) -> bool:
        """Return whether a node that is here was here before, and counted in the same places."""
        return (
            _is_present(before)
            and _counted_by(before) == _counted_by(node)
            and self._is_out(before) == self._is_out(node)
        )

    def _show(self, node: Node) -> None:
        """Note a node where there is something to look at."""
        if node.pool is not None and (node.conditions or node.held or node.cordoned):
            self.pools.setdefault(node.pool, {})[node.id] = node
        if node.held is not None:
            self.waiting[node.id] = None
            silence = heartbeat_condition(node)
            if silence is not None:
                self.silent[node.id] = silence.since
        if node.health is Health.UNHEALTHY:
            self.unwell[node.id] = node
            faults = self._faults[node.id] = fingerprints(node)
            for fault, condition in faults.items():
                self.showing.setdefault(fault, {})[node.id] = (node, condition)

    def _hide(self, node: Node) -> None:
        if node.pool is not None:
            self.pools.get(node.pool, {}).pop(node.id, None)
        self.waiting.pop(node.id, None)
        self.silent.pop(node.id, None)
        self.unwell.pop(node.id, None)
        for fault in self._faults.pop(node.id, ()):
            self.showing[fault].pop(node.id, None)

    def _is_out(self, node: Node) -> bool:
        if node.acted_at is None or node.id in self._with_people:
            return False
        leaving = node.retiring is not None and not node.retiring.surplus
        return leaving or node.recovery is not None

    def _note_act(self, node: Node) -> None:
        before = self._acted.get(node.id)
        if node.acted_at is None or (before is not None and before[0] == node.acted_at):
            return
        if before is not None:
            self._recent.subtract(before[1])
        places = domains_of(node)
        self._acted[node.id] = (node.acted_at, places)
        for place in places:
            self._recent[place] += 1
        self._queue.append((node.acted_at, node.id))

    def _note_traits(self, node: Node) -> None:
        for key in CHANGING:
            trait = node.traits.get(key)
            while trait is not None:
                value = (key, trait.value)
                self.first_had[value] = min(self.first_had.get(value, trait.since), trait.since)
                trait = trait.past


def _is_present(node: Node) -> bool:
    return node.registered_at is not None and node.phase is not Phase.GONE


def _counted_by(node: Node) -> tuple[object, ...]:
    """Return what decides where a node is counted."""
    return node.pool, node.place, node.labels, node.topology, node.traits
