"""Counts over the whole fleet, updated node by node.

The counts derive from stored nodes and recoveries alone, so that a restart computes the same ones.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from navarch.core.health import Condition, Health
from navarch.core.ids import NodeId, PoolName, RecoveryId
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
        """How many present nodes have each trait."""
        self._nodes: dict[NodeId, Node] = {}
        self._acted: dict[NodeId, Node] = {}
        """The nodes that automation acted on."""
        self._successors: dict[NodeId, set[NodeId]] = {}
        self._tickets: set[RecoveryId] = set()
        """The recoveries that wait for an operator."""
        self._had_since: dict[TraitValue, dict[NodeId, datetime]] = {}
        self._first_had: dict[TraitValue, datetime] = {}
        self._changed_dates: set[TraitValue] = set()
        """The traits for which `_first_had` is out of date."""
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
        if _is_present(node):
            self._count(node, 1)
            self._show(node)
        if before is None or before.traits is not node.traits:
            self._date_traits(before, node)

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
            self._date_traits(node, None)

    @property
    def first_had(self) -> Mapping[TraitValue, datetime]:
        """When the first of the recorded nodes got each trait."""
        for value in self._changed_dates:
            self._first_had.pop(value, None)
            if self._had_since[value]:
                self._first_had[value] = min(self._had_since[value].values())
        self._changed_dates.clear()
        return self._first_had

    def acted_since(
        self, since: datetime, is_missed: Callable[[Node], bool]
    ) -> dict[NodeId, tuple[Place, ...]]:
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

    def next_expiry(self, now: datetime, windows: Iterable[timedelta]) -> datetime | None:
        """Return when the next action leaves one of `windows`."""
        acts = [node.acted_at for node in self._acted.values() if node.acted_at is not None]
        ends = [acted_at + window for window in windows for acted_at in acts]
        return min((end for end in ends if end > now), default=None)

    def __len__(self) -> int:
        """Return the number of present nodes."""
        return sum(count for (kind, _), count in self.sizes.items() if kind == "pool")

    def _remove(self, node: Node) -> None:
        """Undo `note`, except for the dates of traits."""
        self._acted.pop(node.id, None)
        if node.replaces is not None:
            self._successors[node.replaces].discard(node.id)
        if _is_present(node):
            self._count(node, -1)
            self._hide(node)

    def _count(self, node: Node, change: int) -> None:
        for place in domains_of(node):
            self.sizes[place] += change
        for key, trait in node.traits.items():
            self.having[key, trait.value] += change

    def _show(self, node: Node) -> None:
        """Index a node by what is wrong with it."""
        name = node.id
        if node.pool is not None and (node.conditions or node.held or node.cordoned is not None):
            self.pools.setdefault(node.pool, {})[name] = node
        if node.held is not None:
            self.waiting[name] = None
            silence = heartbeat_condition(node)
            if silence is not None:
                self.silent[name] = silence.since
        if node.health is Health.UNHEALTHY:
            self.unwell[name] = node
            for fault, condition in fingerprints(node).items():
                self.showing.setdefault(fault, {})[name] = (node, condition)

    def _hide(self, node: Node) -> None:
        """Undo `_show`."""
        name = node.id
        if node.pool in self.pools:
            self.pools[node.pool].pop(name, None)
        self.waiting.pop(name, None)
        self.silent.pop(name, None)
        if self.unwell.pop(name, None) is not None:
            for fault in fingerprints(node):
                del self.showing[fault][name]

    def _is_outstanding(self, node: Node, is_missed: Callable[[Node], bool]) -> bool:
        if node.recovery in self._tickets:
            return False
        if node.retiring is None:
            return node.recovery is not None and not node.gone
        return not node.retiring.surplus and not self._is_succeeded(node.id) and is_missed(node)

    def _is_succeeded(self, name: NodeId) -> bool:
        """Return whether a successor of `name` serves, or a successor of its successor."""
        seen = {name}
        to_visit = [name]
        while to_visit:
            successors = self._successors.get(to_visit.pop(), set()) - seen
            if any(self._nodes[each].serving for each in successors):
                return True
            seen |= successors
            to_visit += successors
        return False

    def _date_traits(self, before: Node | None, node: Node | None) -> None:
        """Replace the dates of a node's traits, past ones included, by those of a new version."""
        if before is not None:
            for value, _ in _trait_dates(before):
                self._had_since[value].pop(before.id, None)
                self._changed_dates.add(value)
        if node is not None:
            for value, since in _trait_dates(node):
                self._had_since.setdefault(value, {})[node.id] = since
                self._changed_dates.add(value)


def _is_present(node: Node) -> bool:
    return node.registered_at is not None and not node.gone


def _trait_dates(node: Node) -> Iterator[tuple[TraitValue, datetime]]:
    """Yield the present and past values of a node's changing traits, the oldest last."""
    for key in CHANGING:
        trait = node.traits.get(key)
        while trait is not None:
            yield (key, trait.value), trait.since
            trait = trait.past
