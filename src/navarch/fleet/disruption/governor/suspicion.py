"""Suspected changes behind a fault that many nodes show."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from navarch.core.disruption import GovernorSettings
from navarch.core.health import Condition
from navarch.core.ids import NodeId
from navarch.core.node import CHANGING, POLICY, Node, Trait
from navarch.fleet.disruption.governor.domain_stats import DomainStats, Shown, TraitValue

SHARED_MIN = 0.8
"""The share of the nodes with a fault that must have had the change."""

DOMINANCE_MIN = 0.1
"""The share of all unhealthy nodes that must show the fault. A bad change breaks most nodes in one
way; hardware that fails besides it fails in many ways on few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """A change of the health policy."""

    revision: str
    since: datetime
    past: "PolicyChange | None" = None
    """The change before this one; None for the first policy of the fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """One fault, and the change that caused it."""

    fault: str
    change: str
    """The change in words: `driver 570.1 (was 550.2)`."""
    nodes: frozenset[NodeId]
    """The nodes that had the change and show the fault. On other nodes it has another cause."""

    @property
    def words(self) -> str:
        """The sentence for operators, without numbers, so that it stays the same."""
        return f"nodes with {self.change} show {self.fault}; the change is suspected, not the nodes"


def find_suspicions(
    stats: DomainStats,
    settings: GovernorSettings,
    *,
    policy: PolicyChange | None = None,
) -> Mapping[str, Suspicion]:
    """Return the faults that are blamed on a change, by fault.

    It takes many nodes to suspect a change. Once nodes are deferred for it, it stays suspected
    until none of them shows the fault: while a bad driver is rolled back, machine by machine, the
    nodes that still have it are no more to blame than before.
    """
    found = {}
    many = max(settings.suspect_nodes, DOMINANCE_MIN * len(stats.unwell))
    for fault, shown in stats.showing.items():
        held: set[NodeId] = set()
        for name, (node, _) in shown.items():
            if node.held is not None and not node.held.released and fault in node.held.faults:
                held.add(name)
        if not held and len(shown) < many:
            continue
        having = stats.having()
        changes = list(_changes(shown, stats.first_had(), settings, policy))
        # A change stays suspected if most of the deferred nodes had it.
        most = max((len(change.nodes & held) for change in changes), default=0)
        enough = max(1, SHARED_MIN * most)
        suspects = [change for change in changes if len(change.nodes & held) >= enough] or [
            change for change in changes if _is_suspect(change, shown, having, settings)
        ]
        if suspects:
            found[fault] = _most_suspect(fault, suspects, shown, having, len(stats))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """One change, and the nodes with the fault that had it shortly before."""

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


def _changes(
    shown: Mapping[NodeId, Shown],
    first_had: Mapping[TraitValue, datetime],
    settings: GovernorSettings,
    policy: PolicyChange | None,
) -> Iterator[_Change]:
    """Yield, for each trait, the change that most of the nodes had."""
    for key in CHANGING:
        by_value: dict[str, _Change] = {}
        for name, (node, condition) in shown.items():
            trait = trait_at(node, key, condition)
            if trait is not None and _is_new(trait, key, condition, first_had, settings):
                change = by_value.setdefault(trait.value, _Change(key=key, value=trait.value))
                change.note(name, trait.before)
        if by_value:
            yield max(by_value.values(), key=lambda x: (len(x.nodes), x.value))
    rules: dict[str, _Change] = {}
    for name, (_, condition) in shown.items():
        rule = policy
        while rule is not None and rule.since > condition.since:
            rule = rule.past
        if rule is not None and _shortly_before(rule.since, condition.since, settings):
            change = rules.setdefault(rule.revision, _Change(key=POLICY, value=rule.revision))
            change.note(name, "")
    if rules:
        yield max(rules.values(), key=lambda x: (len(x.nodes), x.value))


def trait_at(node: Node, key: str, condition: Condition) -> Trait | None:
    """Return the trait of `node` at the time of the fault, which may have changed since.

    A fault of the boot before the change stays until the new boot has been checked. A fault that is
    seen again after the boot that brought the change has outlived the earlier trait.
    """
    trait = node.traits.get(key)
    if trait is None or trait.since <= condition.since:
        return trait
    booted_at = node.booted_at
    came_with_boot = booted_at is not None and condition.since < booted_at <= trait.since
    if came_with_boot and condition.boot_id == node.boot_id:
        return None
    return trait.past


def _is_new(
    trait: Trait,
    key: str,
    condition: Condition,
    first_had: Mapping[TraitValue, datetime],
    settings: GovernorSettings,
) -> bool:
    """Return whether a node had the trait since shortly before it showed the fault."""
    if not trait.value:
        return False
    if trait.before:
        return _shortly_before(trait.since, condition.since, settings)
    # A trait since registration is new if the fleet had another value before, not long ago.
    first = first_had.get((key, trait.value), trait.since)
    older = any(
        moment < first
        for (kind, other), moment in first_had.items()
        if kind == key and other != trait.value
    )
    return older and _shortly_before(first, condition.since, settings)


def _shortly_before(change: datetime, fault: datetime, settings: GovernorSettings) -> bool:
    return fault - settings.change_window <= change <= fault


def _is_suspect(
    change: _Change,
    shown: Mapping[NodeId, Shown],
    having: Mapping[TraitValue, int],
    settings: GovernorSettings,
) -> bool:
    enough = SHARED_MIN * len(shown)
    if change.key != POLICY:
        share = settings.suspect_share * having[change.key, change.value]
        enough = max(enough, settings.suspect_nodes, share)
    return len(change.nodes) >= enough


def _most_suspect(
    fault: str,
    suspects: list[_Change],
    shown: Mapping[NodeId, Shown],
    having: Mapping[TraitValue, int],
    nodes: int,
) -> Suspicion:
    """Return the change that separates ill from sound nodes best; several, if equally well."""
    lifts = []
    for suspect in suspects:
        # How much more frequent the change is among nodes with the fault than in the fleet.
        lift = 1.0
        if suspect.key != POLICY:
            in_fleet = max(having[suspect.key, suspect.value], 1) / max(nodes, 1)
            lift = len(suspect.nodes) / len(shown) / in_fleet
        lifts.append(lift)
    best = max(lifts)
    named = [suspect for suspect, lift in zip(suspects, lifts, strict=True) if lift >= 0.95 * best]
    blamed = frozenset[NodeId]().union(*(suspect.nodes for suspect in named))
    return Suspicion(fault=fault, change=", ".join(x.words for x in named), nodes=blamed)
