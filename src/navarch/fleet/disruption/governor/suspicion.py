"""Which change is behind a fault that many nodes show."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from navarch.core.governor import GovernorSettings
from navarch.core.health import Condition
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.core.trait import CHANGING, POLICY, Trait
from navarch.fleet.disruption.governor.domain_stats import DomainStats, Shown, TraitValue

SHARED_MIN = 0.8
"""The share of the nodes with a fault that must have had the change."""

DOMINANCE_MIN = 0.1
"""The share of all unhealthy nodes that must show the fault. What a bad change breaks, it breaks
in one way on most; hardware that fails beside it fails in many ways on few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """The rules by which faults are judged have changed."""

    revision: str
    since: datetime
    past: "PolicyChange | None" = None
    """The change before this one; none if those were the first rules of the fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """One fault, and the change that it came with."""

    fault: str
    change: str
    """As people would name it: `driver 570.1 (was 550.2)`."""
    nodes: frozenset[NodeId]
    """Those that had the change and show the fault. Others that show it have it from elsewhere."""

    @property
    def words(self) -> str:
        """The sentence for operators. No numbers: it stays the same while they change."""
        return f"nodes with {self.change} show {self.fault}; the change is suspected, not they"


def find_suspicions(
    stats: DomainStats,
    settings: GovernorSettings,
    *,
    policy: PolicyChange | None = None,
) -> Mapping[str, Suspicion]:
    """Return the faults that are held to be the work of a change, by fault.

    It takes many nodes to suspect a change. Once nodes are held back for it, it stays suspected
    until none of them shows the fault: while a bad driver is taken off again, machine by machine,
    those that still have it are no more to blame than when all had it.
    """
    found = {}
    many = max(settings.suspect_nodes, DOMINANCE_MIN * len(stats.unwell))
    for fault, shown in stats.showing.items():
        held = _held_for(fault, shown) if stats.waiting else set()
        if not held and len(shown) < many:
            continue
        changes = list(_changes(shown, stats, settings, policy))
        suspects = _still_suspect(changes, held) or [
            change for change in changes if _is_suspect(change, shown, stats, settings)
        ]
        if suspects:
            found[fault] = _most_suspect(fault, suspects, shown, stats)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """One change, and those of the nodes with the fault that had it shortly before."""

    key: str
    value: str
    nodes: set[NodeId] = field(default_factory=set)
    befores: dict[str, int] = field(default_factory=dict)
    """How many of them had which value before; they need not agree."""

    def note(self, node: NodeId, before: str) -> None:
        self.nodes.add(node)
        self.befores[before] = self.befores.get(before, 0) + 1

    @property
    def words(self) -> str:
        before = max(self.befores, key=lambda value: (self.befores[value], value), default="")
        return f"{self.key} {self.value}" + (f" (was {before})" if before else "")


def _held_for(fault: str, shown: Mapping[NodeId, Shown]) -> set[NodeId]:
    return {name for name, (node, _) in shown.items() if _is_held_for(node, fault)}


def _is_held_for(node: Node, fault: str) -> bool:
    return node.held is not None and not node.held.released and fault in node.held.faults


def _changes(
    shown: Mapping[NodeId, Shown],
    stats: DomainStats,
    settings: GovernorSettings,
    policy: PolicyChange | None,
) -> Iterator[_Change]:
    """Yield, for each thing that changes, the change that most of the nodes had."""
    for key in CHANGING:
        by_value: dict[str, _Change] = {}
        for name, (node, condition) in shown.items():
            trait = trait_at(node, key, condition)
            if trait is not None and _is_new(trait, key, condition, stats, settings):
                change = by_value.setdefault(trait.value, _Change(key=key, value=trait.value))
                change.note(name, trait.before)
        if by_value:
            yield max(by_value.values(), key=lambda x: (len(x.nodes), x.value))
    rules: dict[str, _Change] = {}
    for name, (_, condition) in shown.items():
        rule = _rules_at(policy, condition)
        if rule is not None and _shortly_before(rule.since, condition.since, settings):
            change = rules.setdefault(rule.revision, _Change(key=POLICY, value=rule.revision))
            change.note(name, "")
    if rules:
        yield max(rules.values(), key=lambda x: (len(x.nodes), x.value))


def trait_at(node: Node, key: str, condition: Condition) -> Trait | None:
    """Return what `node` had when it showed the fault, which it may have been rid of since.

    A fault of the boot before the change stays until the new boot has been checked. One that is
    seen again after the boot that brought the change has outlived what the node had before.
    """
    trait = node.traits.get(key)
    if trait is None or trait.since <= condition.since:
        return trait
    booted_at = node.booted_at
    came_with_boot = booted_at is not None and condition.since < booted_at <= trait.since
    if came_with_boot and condition.boot_id == node.boot_id:
        return None
    return trait.past


def _rules_at(policy: PolicyChange | None, condition: Condition) -> PolicyChange | None:
    while policy is not None and policy.since > condition.since:
        policy = policy.past
    return policy


def _is_new(
    trait: Trait, key: str, condition: Condition, stats: DomainStats, settings: GovernorSettings
) -> bool:
    """Return whether a node had got something not long before it showed the fault."""
    if not trait.value:
        return False
    if trait.before:
        return _shortly_before(trait.since, condition.since, settings)
    # A node that was born with it: then it is new if the fleet had another before, not long ago.
    value: TraitValue = (key, trait.value)
    first = stats.first_had.get(value, trait.since)
    older = any(
        moment < first
        for (kind, other), moment in stats.first_had.items()
        if kind == key and other != trait.value
    )
    return older and _shortly_before(first, condition.since, settings)


def _shortly_before(change: datetime, fault: datetime, settings: GovernorSettings) -> bool:
    return fault - settings.change_window <= change <= fault


def _is_suspect(
    change: _Change, shown: Mapping[NodeId, Shown], stats: DomainStats, settings: GovernorSettings
) -> bool:
    enough = SHARED_MIN * len(shown)
    if change.key != POLICY:
        having = stats.having[change.key, change.value]
        enough = max(enough, settings.suspect_nodes, settings.suspect_share * having)
    return len(change.nodes) >= enough


def _still_suspect(changes: list[_Change], held: set[NodeId]) -> list[_Change]:
    """Return the changes that most of the nodes had that are held back."""
    most = max((len(change.nodes & held) for change in changes), default=0)
    enough = max(1, SHARED_MIN * most)
    return [change for change in changes if len(change.nodes & held) >= enough]


def _most_suspect(
    fault: str, suspects: list[_Change], shown: Mapping[NodeId, Shown], stats: DomainStats
) -> Suspicion:
    """Name the change that tells the sick from the sound best; several, if none does so better."""
    lifts = [_lift(suspect, shown, stats) for suspect in suspects]
    best = max(lifts)
    named = [suspect for suspect, lift in zip(suspects, lifts, strict=True) if lift >= 0.95 * best]
    nodes = frozenset[NodeId]().union(*(suspect.nodes for suspect in named))
    return Suspicion(fault=fault, change=", ".join(x.words for x in named), nodes=nodes)


def _lift(change: _Change, shown: Mapping[NodeId, Shown], stats: DomainStats) -> float:
    """Return how much more often the change is found among nodes with the fault than anywhere."""
    if change.key == POLICY:
        return 1.0
    having = max(stats.having[change.key, change.value], 1)
    return (len(change.nodes) / len(shown)) / (having / max(len(stats), 1))
