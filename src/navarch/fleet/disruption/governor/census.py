"""Counts over the whole fleet, kept up to date node by node.

Everything counted is on the nodes themselves, so that a restart counts the same again.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from datetime import datetime

from navarch.core.health import UNHEALTHY, Condition
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import GONE, Node
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
        if condition.health is UNHEALTHY:
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
        self._places: dict[NodeId, tuple[Place, ...]] = {}
        """Where each node is counted that is there."""
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

    def note(self, node: Node) -> bool:
        """Take in what has become of `node`; return whether that is, or was, something to look at.

        Only in nodes of some pool there ever is.
        """
        name = node.id
        known = self._known.get(name)
        self._known[name] = node
        before = known if name in self._places else None
        is_here = node.registered_at is not None and node.phase is not GONE
        shows_the_same = before is not None and is_here and _show_the_same(before, node)
        was_shown = before is not None and not shows_the_same and self._hide(before)
        if before is not None and is_here and _are_counted_alike(before, node):
            # Most of what happens to a node changes no count.
            if before.acted_at is not None or node.acted_at is not None:
                was_out, is_out = self._is_out(before), self._is_out(node)
                if was_out is not is_out:
                    self._count_out(self._places[name], 1 if is_out else -1)
        else:
            if before is not None:
                self._count_no_more(before)
            if is_here:
                self._count(node)
        is_shown = self._show_again(node) if shows_the_same else is_here and self._show(node)
        if node.acted_at is not None and (known is None or known.acted_at != node.acted_at):
            self._note_act(node, node.acted_at)
        if node.traits and (known is None or known.traits is not node.traits):
            self._note_traits(node)
        return was_shown or is_shown

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
            self._count(known)
            self._show(known)

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

    def places_of(self, node: Node) -> tuple[Place, ...]:
        """Return the domains that `node` is in, which have been looked for already."""
        name = node.id
        if self._known.get(name) is node and name in self._places:
            return self._places[name]
        return domains_of(node)

    def expire(self, before: datetime) -> None:
        """Let go of actions that are older than the window."""
        while self._queue and self._queue[0][0] <= before:
            acted_at, name = self._queue.popleft()
            if name in self._acted and self._acted[name][0] == acted_at:
                for place in self._acted.pop(name)[1]:
                    self._recent[place] -= 1

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

    def _forget_present(self, node: Node) -> None:
        if node.id in self._places:
            self._count_no_more(node)
            self._hide(node)

    def _count(self, node: Node) -> None:
        """Count a node wherever it is counted."""
        places = self._places[node.id] = domains_of(node)
        self._weigh(node, places, 1)

    def _count_no_more(self, node: Node) -> None:
        """Take back what was counted by `_count`."""
        self._weigh(node, self._places.pop(node.id), -1)

    def _weigh(self, node: Node, places: tuple[Place, ...], change: int) -> None:
        for place in places:
            self.sizes[place] += change
        for key, trait in node.traits.items():
            self.having[key, trait.value] += change
        if node.acted_at is not None and self._is_out(node):
            self._count_out(places, change)

    def _count_out(self, places: Iterable[Place], change: int) -> None:
        """Count one node more, or one less, in those places that is out by our doing."""
        for place in places:
            self._out[place] += change

    def _show(self, node: Node) -> bool:
        """Note a node where there is something to look at; return whether there is, in its pool."""
        conditions, held, is_unwell = node.conditions, node.held, node.health is UNHEALTHY
        if not conditions and held is None and node.cordoned is None and not is_unwell:
            return False
        name, pool = node.id, node.pool
        is_looked_at = pool is not None and bool(conditions or held or node.cordoned)
        if pool is not None and is_looked_at:
            if pool not in self.pools:
                self.pools[pool] = {}
            self.pools[pool][name] = node
        if held is not None:
            self.waiting[name] = None
            silence = heartbeat_condition(node)
            if silence is not None:
                self.silent[name] = silence.since
        if is_unwell:
            self.unwell[name] = node
            faults = self._faults[name] = fingerprints(node)
            for fault, condition in faults.items():
                if fault not in self.showing:
                    self.showing[fault] = {}
                self.showing[fault][name] = (node, condition)
        return is_looked_at

    def _show_again(self, node: Node) -> bool:
        """Do what `_hide` and `_show` come to for a node that shows the same fault as before."""
        name, pool = node.id, node.pool
        if node.health is UNHEALTHY:
            del self.unwell[name]
            self.unwell[name] = node
            for fault, condition in self._faults[name].items():
                showing = self.showing[fault]
                del showing[name]
                showing[name] = (node, condition)
        if pool is None:
            return False
        looked_at = self.pools[pool]
        del looked_at[name]
        looked_at[name] = node
        return True

    def _hide(self, node: Node) -> bool:
        """Take back what was noted by `_show`, of which this returns what that did."""
        held, is_unwell = node.held, node.health is UNHEALTHY
        if not node.conditions and held is None and node.cordoned is None and not is_unwell:
            return False
        name, pool = node.id, node.pool
        if held is not None:
            del self.waiting[name]
            self.silent.pop(name, None)
        if is_unwell:
            del self.unwell[name]
            for fault in self._faults.pop(name):
                del self.showing[fault][name]
        return pool in self.pools and self.pools[pool].pop(name, None) is not None

    def _is_out(self, node: Node) -> bool:
        if node.acted_at is None or node.id in self._with_people:
            return False
        leaving = node.retiring is not None and not node.retiring.surplus
        return leaving or node.recovery is not None

    def _note_act(self, node: Node, acted_at: datetime) -> None:
        before = self._acted.get(node.id)
        if before is not None:
            self._recent.subtract(before[1])
        places = self._places.get(node.id) or domains_of(node)
        self._acted[node.id] = (acted_at, places)
        for place in places:
            self._recent[place] += 1
        self._queue.append((acted_at, node.id))

    def _note_traits(self, node: Node) -> None:
        for key in CHANGING:
            trait = node.traits.get(key)
            while trait is not None:
                value = (key, trait.value)
                self.first_had[value] = min(self.first_had.get(value, trait.since), trait.since)
                trait = trait.past


def _is_present(node: Node) -> bool:
    return node.registered_at is not None and node.phase is not GONE


def _show_the_same(before: Node, node: Node) -> bool:
    """Return whether a node has the very conditions that it had, and nothing is held back."""
    return (
        bool(node.conditions)
        and before.conditions is node.conditions
        and before.health is node.health
        and before.held is None
        and node.held is None
    )


def _are_counted_alike(before: Node, node: Node) -> bool:
    """Return whether what decides where a node is counted is the same, as it mostly is."""
    return (
        before.pool == node.pool
        and (before.launch is node.launch or before.place == node.place)
        and before.offering is node.offering
        and (before.labels is node.labels or before.labels == node.labels)
        and before.topology is node.topology
        and (before.traits is node.traits or before.traits == node.traits)
    )
