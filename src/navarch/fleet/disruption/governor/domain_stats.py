"""Counts over the whole fleet, updated node by node.

The counts derive from stored nodes alone, so that a restart computes the same ones.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import CHANGING, Node
from navarch.core.recovery import Recovery, RecoveryState
from navarch.fleet.disruption.governor.domains import Place, domains_of
from navarch.fleet.silence import heartbeat_condition

TraitValue = tuple[str, str]
"""A trait's name and its value."""

Shown = tuple[Node, Condition]
"""A node, and the condition by which it shows a fault."""


def fingerprint(condition: Condition) -> str:
    """Return the identity of a fault across nodes: its code, or its check."""
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


def needs_attention(node: Node) -> bool:
    """Return whether remediation has a decision to make about `node`."""
    is_looked_at = bool(node.conditions) or node.held is not None or node.cordoned is not None
    return is_looked_at and node.pool is not None and _is_present(node)


class DomainStats:
    """Sizes of domains, recent actions in them, and the nodes that show each fault."""

    def __init__(self, nodes: Iterable[Node] = (), recoveries: Iterable[Recovery] = ()) -> None:
        self.sizes: Counter[Place] = Counter()
        self.unwell: dict[NodeId, Node] = {}
        """Present nodes that are unhealthy."""
        self.showing: dict[str, dict[NodeId, Shown]] = {}
        """The unhealthy nodes by fault."""
        self.pools: dict[PoolName, dict[NodeId, Node]] = {}
        """Nodes that need attention by pool: conditions, deferred actions or a cordon."""
        self.waiting: dict[NodeId, None] = {}
        """Nodes with a deferred action."""
        self.silent: dict[NodeId, datetime] = {}
        """Those of them that stopped reporting, with the time since when."""
        self.having: Counter[TraitValue] = Counter()
        self.first_had: dict[TraitValue, datetime] = {}
        self._known: dict[NodeId, Node] = {}
        self._places: dict[NodeId, tuple[Place, ...]] = {}
        """The domains of each present node."""
        self._faults: dict[NodeId, dict[str, Condition]] = {}
        self._acted: dict[NodeId, tuple[datetime, tuple[Place, ...]]] = {}
        """When automation last acted on each node, and in which domains that counts."""
        self._successors: dict[NodeId, NodeId] = {}
        """The newest successor of each replaced node."""
        self._with_people: set[NodeId] = set()
        for recovery in recoveries:
            self.note_recovery(recovery)
        for node in sorted(nodes, key=lambda x: (x.acted_at is None, x.acted_at, x.id)):
            self.note(node)

    def note(self, node: Node) -> bool:
        """Update the counts with `node`; return whether it needs or needed attention.

        Nodes without a pool never do.
        """
        name = node.id
        known = self._known.get(name)
        self._known[name] = node
        before = known if name in self._places else None
        is_here = node.registered_at is not None and not node.gone
        shows_the_same = before is not None and is_here and _show_the_same(before, node)
        was_shown = before is not None and not shows_the_same and self._hide(before)
        # Most changes of a node change no count.
        if before is None or not is_here or not _are_counted_alike(before, node):
            if before is not None:
                self._count_no_more(before)
            if is_here:
                self._count(node)
        is_shown = self._show_again(node) if shows_the_same else is_here and self._show(node)
        if node.acted_at is not None and (known is None or known.acted_at != node.acted_at):
            self._note_act(node, node.acted_at)
        if node.traits and (known is None or known.traits is not node.traits):
            self._note_traits(node)
        if node.replaces is not None:
            self._successors[node.replaces] = name
        return was_shown or is_shown

    def note_recovery(self, recovery: Recovery) -> None:
        """Record whether the node of `recovery` needs an operator."""
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
        self._successors.pop(node, None)
        self._acted.pop(node, None)

    def faults_of(self, node: Node) -> Mapping[str, Condition]:
        """Return the faults that make `node` unhealthy, from the cache if possible."""
        known = self._known.get(node.id) is node
        return self._faults.get(node.id, {}) if known else fingerprints(node)

    def places_of(self, node: Node) -> tuple[Place, ...]:
        """Return the domains of `node`, from the cache if possible."""
        name = node.id
        if self._known.get(name) is node and name in self._places:
            return self._places[name]
        return domains_of(node)

    def acted_since(
        self, since: datetime, is_missed: Callable[[Node], bool]
    ) -> dict[NodeId, tuple[Place, ...]]:
        """Return the nodes with an action after `since` or an outstanding one, with their domains.

        A replacement is outstanding until the successor serves, a repair until it ends.
        `is_missed` returns whether the pool of a node is short of nodes; other pools need no
        successor.
        """
        return {
            name: places
            for name, (acted_at, places) in self._acted.items()
            if acted_at > since or self._is_outstanding(name, is_missed)
        }

    def next_expiry(self, now: datetime, windows: Iterable[timedelta]) -> datetime | None:
        """Return when the next action leaves one of `windows`."""
        ends = [acted_at + window for window in windows for acted_at, _ in self._acted.values()]
        return min((end for end in ends if end > now), default=None)

    def __len__(self) -> int:
        """Return the number of present nodes."""
        return sum(count for (kind, _), count in self.sizes.items() if kind == "pool")

    def _forget_present(self, node: Node) -> None:
        if node.id in self._places:
            self._count_no_more(node)
            self._hide(node)

    def _count(self, node: Node) -> None:
        """Add `node` to the counts of its domains and traits."""
        places = self._places[node.id] = domains_of(node)
        self._weigh(node, places, 1)

    def _count_no_more(self, node: Node) -> None:
        """Undo `_count`."""
        self._weigh(node, self._places.pop(node.id), -1)

    def _weigh(self, node: Node, places: tuple[Place, ...], change: int) -> None:
        for place in places:
            self.sizes[place] += change
        for key, trait in node.traits.items():
            self.having[key, trait.value] += change

    def _show(self, node: Node) -> bool:
        """Index a node that needs attention; return whether it has a pool and does."""
        conditions, held, is_unwell = node.conditions, node.held, node.health is Health.UNHEALTHY
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
        """Do the same as `_hide` and `_show` for a node with unchanged faults."""
        name, pool = node.id, node.pool
        if node.health is Health.UNHEALTHY:
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
        """Undo `_show`, and return what it returned."""
        held, is_unwell = node.held, node.health is Health.UNHEALTHY
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

    def _is_outstanding(self, name: NodeId, is_missed: Callable[[Node], bool]) -> bool:
        node = self._known.get(name)
        if node is None or name in self._with_people:
            return False
        if node.retiring is None:
            return node.recovery is not None and not node.gone
        return not node.retiring.surplus and not self._is_succeeded(name) and is_missed(node)

    def _is_succeeded(self, name: NodeId) -> bool:
        """Return whether a successor of `name` serves, or a successor of its successor."""
        while name in self._successors:
            name = self._successors[name]
            successor = self._known.get(name)
            if successor is None or successor.serving:
                return True
        return False

    def _note_act(self, node: Node, acted_at: datetime) -> None:
        self._acted[node.id] = (acted_at, self._places.get(node.id) or domains_of(node))

    def _note_traits(self, node: Node) -> None:
        for key in CHANGING:
            trait = node.traits.get(key)
            while trait is not None:
                value = (key, trait.value)
                self.first_had[value] = min(self.first_had.get(value, trait.since), trait.since)
                trait = trait.past


def _is_present(node: Node) -> bool:
    return node.registered_at is not None and not node.gone


def _show_the_same(before: Node, node: Node) -> bool:
    """Return whether a node has the same conditions as before and no deferred action."""
    return (
        bool(node.conditions)
        and before.conditions is node.conditions
        and before.health is node.health
        and before.held is None
        and node.held is None
    )


def _are_counted_alike(before: Node, node: Node) -> bool:
    """Return whether the properties that decide the domains of a node are the same."""
    return (
        before.pool == node.pool
        and (before.launch is node.launch or before.place == node.place)
        and before.offering is node.offering
        and (before.labels is node.labels or before.labels == node.labels)
        and before.topology is node.topology
        and (before.traits is node.traits or before.traits == node.traits)
    )
