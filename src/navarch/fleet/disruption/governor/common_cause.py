"""Common causes: what nodes with the same fault share, and other nodes do not.

For each fault, the share of nodes that show it among those with an attribute (a rack, a driver, a
zone) is compared with the share among all others. Nodes that were replaced count as well, with the
attributes they had then. An attribute is a suspect if two things are improbable: that hardware
fails this often by itself, and that the nodes with the fault have the attribute by chance. The
suspect with the highest lift, the ratio of the two shares, is named. What every node has cannot be
compared, and explains nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import exp, lgamma, log

from navarch.core.disruption import DAY, Deferred, DeferredBy, GovernorSettings
from navarch.core.health import HEARTBEAT, Condition
from navarch.core.ids import NodeId
from navarch.core.node import POLICY, Node, Trait
from navarch.fleet.disruption.governor.attributes import (
    GROUPS,
    PLACES,
    SOFTWARE,
    WORDS,
    Attribute,
    changing_kinds,
    describe,
    lasting_attributes,
    rank,
    words_of,
)
from navarch.fleet.disruption.governor.domain_stats import DomainStats, Shown

FAULTS_PER_NODE_DAY = 0.007
"""The worst published rate at which nodes fail by themselves: seven a day in a thousand nodes."""

CHANCE_MAX = 0.001
"""Faults are unusual if hardware shows as many by itself with a lower probability than this."""

COINCIDENCE_MAX = 0.01
"""An attribute is a suspect if nodes with the fault have it by coincidence with a lower probability
than this, among all attributes that are compared."""

LIFT_MIN = 2.0
"""A suspect makes the fault at least this much more frequent."""

SAME = 0.95
"""Attributes of the same nodes with this share of the highest lift are named together."""

BROKEN_BY_CHANGE_MIN = 0.5
"""The share of its nodes that must show the fault if a change came to all nodes. It is compared
with the time before the change only, in which anything else may have changed too."""

BROKEN_BY_POLICY_MIN = 0.1
"""The same for a new policy: it changes no machine, so that sound ones are at stake."""

BROKEN_BY_GROUP_MIN = 0.1
"""The same for a pool, a provider or an instance type: a bad batch of machines shows the same fault
too, on far fewer of them in a day."""

CHECK_NODES_MIN = 5
CHECK_SHARE_MIN = 0.02
CHECK_CHANCE_MAX = 1e-6
"""A check is suspected if it fails on at least this many nodes, and on this share of them, within
the window of the governor, and independent faults do that with a lower probability than this. Below
that, machines may really fail more often than elsewhere."""

SHARED_FAULTS = frozenset({"infiniband", "mounts", "clock", "nvlink", "fabric"})
"""Faults that a switch, a file server or a time server shows on sound machines."""

CAUSES_MAX = 4
"""How many causes of one fault are told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChange:
    """A change of the health policy."""

    revision: str
    since: datetime
    past: "PolicyChange | None" = None
    """The change before this one; None for the first policy of the fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonCause:
    """One fault, and what the nodes that show it share."""

    fault: str
    attributes: tuple[Attribute, ...]
    """Several if they came together and cannot be told apart; empty if it is the check itself."""
    nodes: frozenset[NodeId]
    """The nodes that show the fault for this cause. On other nodes it has another cause."""
    words: str
    """The sentence for operators, with the evidence."""

    @property
    def suspects(self) -> tuple[str, ...]:
        """The attributes as they are recorded with a deferred action."""
        return tuple([f"{kind}={value}" for kind, value in self.attributes])

    @property
    def excuses(self) -> bool:
        """Whether the machines are likely sound.

        Machines of one place may be broken together, by heat or by a power surge, but not if the
        fault is one that their network shows.
        """
        is_place = bool(self.attributes) and all(kind in PLACES for kind, _ in self.attributes)
        return not is_place or self.fault in SHARED_FAULTS


def find_causes(
    stats: DomainStats,
    settings: GovernorSettings,
    *,
    policy: PolicyChange | None = None,
    now: datetime,
) -> Mapping[str, Sequence[CommonCause]]:
    """Return the common causes of each fault that has any, the one with the highest lift first.

    Once nodes are deferred for a cause, it stays suspected until none of them shows the fault:
    while a bad driver is rolled back, machine by machine, the nodes that still have it are no more
    to blame than before.
    """
    found: dict[str, Sequence[CommonCause]] = {}
    for fault, shown in stats.showing.items():
        if len(shown) < settings.suspect_nodes and not any(map(_defers, shown.values())):
            continue
        cases = [
            _case(fault, stats.attributes[name], node, condition, policy)
            for name, (node, condition) in shown.items()
        ]
        since = now - settings.change_window
        recent = [case for case in cases if case.since >= since]
        causes = list(_suspects(fault, recent, stats, settings, policy, now))
        explained = _explained(causes)
        causes += _suspected_before(fault, cases, explained)
        if _suspected_check(fault, cases, _explained(causes), stats, settings, now) is not None:
            # A check that fails on sound machines fails more often in some places by chance.
            causes = [cause for cause in causes if cause.excuses]
            check = _suspected_check(fault, cases, _explained(causes), stats, settings, now)
            causes += [] if check is None else [check]
        if causes:
            found[fault] = [_as_named(cause, cases) for cause in causes]
    return found


def _explained(causes: Sequence[CommonCause]) -> frozenset[NodeId]:
    return frozenset[NodeId]().union(*(cause.nodes for cause in causes))


def _as_named(cause: CommonCause, cases: "Sequence[_Case]") -> CommonCause:
    """Return the cause in the words with which it was named first: the evidence grows each time."""
    named = [
        case.deferred
        for case in cases
        if case.deferred is not None
        and case.deferred.suspects == cause.suspects
        and case.deferred.faults == (cause.fault,)
    ]
    first = min(named, key=lambda each: (each.since, each.because), default=None)
    return cause if first is None else replace(cause, words=first.because)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A node with the fault, with the attributes that it had when the fault appeared."""

    node: NodeId
    since: datetime
    attributes: frozenset[Attribute]
    before: Mapping[Attribute, str]
    """The value that each software of it replaced."""
    deferred: Deferred | None
    """The action that is deferred because this fault has a common cause."""


def _case(
    fault: str,
    present: Sequence[Attribute],
    node: Node,
    condition: Condition,
    policy: PolicyChange | None,
) -> _Case:
    """Return the case of `node`, which has the `present` attributes now."""
    attributes = lasting_attributes(present, condition)
    before: dict[Attribute, str] = {}
    for key in changing_kinds(condition):
        trait = trait_at(node, key, condition)
        if trait is not None and trait.value:
            attributes.add((key, trait.value))
            before[key, trait.value] = trait.before
    rule = policy
    while rule is not None and rule.since > condition.since:
        rule = rule.past
    if rule is not None:
        attributes.add((POLICY, rule.revision))
    if fault == HEARTBEAT:
        # Software that ends a machine shows by its other faults; a network has no version.
        attributes = {each for each in attributes if each[0] not in SOFTWARE}
    held = node.held
    defers = held is not None and _defers((node, condition)) and fault in held.faults
    return _Case(
        node=node.id,
        since=condition.since,
        attributes=frozenset(attributes),
        before=before,
        deferred=held if defers else None,
    )


def _defers(shown: Shown) -> bool:
    """Return whether an action on a present node is deferred for a common cause."""
    node, held = shown[0], shown[0].held
    if held is None or node.gone:
        return False
    return held.by is DeferredBy.CHANGE and not held.released


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Population:
    """How many nodes had each attribute within the window, whether they show the fault or not."""

    counts: Mapping[Attribute, int]
    values: Mapping[str, int]
    """How many attributes of each kind there are."""
    nodes: int
    changed: Mapping[str, int] = field(default_factory=dict)
    """How many nodes had an earlier version of each kind of software within the window, which they
    no longer have."""
    before: Mapping[Attribute, int] = field(default_factory=dict)
    """How many of them had which version then."""


def _population(
    stats: DomainStats,
    settings: GovernorSettings,
    policy: PolicyChange | None,
    now: datetime,
    without: frozenset[Attribute] = frozenset(),
) -> _Population:
    """Count the nodes that have none of the attributes `without`."""
    since = now - settings.change_window
    counts: Counter[Attribute] = stats.exposed
    nodes, moved = len(stats.attributes), list(stats.changed.values())
    if without:
        left = [each for each in stats.attributes.values() if without.isdisjoint(each)]
        counts = Counter(attribute for each in left for attribute in each)
        nodes = len(left)
        moved = [node for node in moved if without.isdisjoint(stats.attributes[node.id])]
    before: Counter[Attribute] = Counter()
    for node in moved:
        for key, trait in node.traits.items():
            if trait.before and trait.since >= since:
                before[key, trait.before] += 1
    changed = Counter[str]()
    for (key, _), count in before.items():
        changed[key] += count
    if policy is not None and policy.since >= since:
        # All nodes were judged by the policy before, and no longer are.
        counts = counts + Counter({(POLICY, policy.revision): nodes})
        changed[POLICY] = nodes
        if policy.past is not None:
            before[POLICY, policy.past.revision] = nodes
    values = Counter(kind for (kind, _), count in counts.items() if count)
    return _Population(counts=counts, values=values, nodes=nodes, changed=changed, before=before)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """The nodes with an attribute compared with the others."""

    attribute: Attribute
    ill: int
    having: int
    others_ill: int
    others: int
    values: int
    """How many attributes are compared: one of many fits by coincidence more often."""

    @property
    def lift(self) -> float:
        """How much more frequent the fault is with the attribute than without.

        Half a fault is added on both sides, so that three of three nodes are not infinitely more.
        """
        share = (self.ill + 0.5) / (self.having + 1)
        return share / ((self.others_ill + 0.5) / (self.others + 1))

    @property
    def coincidence(self) -> float:
        """The probability that as many nodes with the fault have the attribute by chance."""
        ill, nodes = self.ill + self.others_ill, self.having + self.others
        return hypergeometric_tail(self.ill, drawn=ill, marked=self.having, of=nodes)

    @property
    def is_significant(self) -> bool:
        """Whether the attribute is a suspect."""
        return self.lift >= LIFT_MIN and self.coincidence * self.values < COINCIDENCE_MAX

    @property
    def evidence(self) -> str:
        """Return the comparison in words."""
        return f"{self.ill} of {self.having}, and {self.others_ill} of {self.others} others"


def _suspects(
    fault: str,
    cases: Sequence[_Case],
    stats: DomainStats,
    settings: GovernorSettings,
    policy: PolicyChange | None,
    now: datetime,
) -> Iterator[CommonCause]:
    """Yield the causes of a fault, each for the cases that those before it do not explain."""
    left, without = list(cases), frozenset[Attribute]()
    for _ in range(CAUSES_MAX):
        if len(left) < settings.suspect_nodes:
            return
        ill = Counter(attribute for case in left for attribute in case.attributes)
        population = _population(stats, settings, policy, now, without)
        compared: list[_Comparison] = []
        for attribute in sorted(ill, key=_order):
            count = ill[attribute]
            if count < settings.suspect_nodes:
                continue
            having = population.counts[attribute] + population.before.get(attribute, 0)
            if chance_of(count, nodes=having, within=settings.change_window) < CHANCE_MAX:
                compared += _comparisons(attribute, count, len(left), population)
        found = [each for each in compared if each.is_significant]
        if not found:
            return
        best = max(found, key=lambda each: each.lift)
        # What came to the same nodes cannot be told apart.
        its = _having(best.attribute, left)
        same = [
            each.attribute
            for each in found
            if each.lift >= SAME * best.lift and _having(each.attribute, left) == its
        ]
        attributes = tuple(dict.fromkeys(same))
        cause = _cause(fault, attributes, left, best.evidence)
        yield cause
        left = [case for case in left if case.node not in cause.nodes]
        without = without.union(attributes)


def _having(attribute: Attribute, cases: Sequence[_Case]) -> set[NodeId]:
    return {case.node for case in cases if attribute in case.attributes}


def _order(attribute: Attribute) -> tuple[int, str]:
    """Return the place of an attribute among others: software last, as the most specific."""
    return rank(attribute[0]), attribute[1]


def _comparisons(
    attribute: Attribute, ill: int, all_ill: int, population: _Population
) -> Iterator[_Comparison]:
    """Yield the comparison with other nodes, or with the time before the change came to all."""
    kind = attribute[0]
    having = population.counts[attribute]
    past = population.before.get(attribute, 0)
    present = _Comparison(
        attribute=attribute,
        ill=ill,
        having=max(having + past, ill),
        others_ill=all_ill - ill,
        others=max(population.nodes - having - past, all_ill - ill),
        values=len(WORDS) * max(population.values[kind], 1),
    )
    if kind in GROUPS and ill < BROKEN_BY_GROUP_MIN * present.having:
        return
    if present.others and present.is_significant:
        yield present
        return
    changed = population.changed.get(kind, 0)
    share_min = BROKEN_BY_POLICY_MIN if kind == POLICY else BROKEN_BY_CHANGE_MIN
    if changed and not past and ill >= share_min * having:
        yield replace(present, others=present.others + changed)


def _cause(
    fault: str, attributes: tuple[Attribute, ...], cases: Sequence[_Case], evidence: str
) -> CommonCause:
    """Return the cause for those of `cases` with one of `attributes`."""
    its = [case for case in cases if not case.attributes.isdisjoint(attributes)]
    named = []
    for attribute in attributes:
        befores = Counter(case.before.get(attribute, "") for case in its)
        was = max(befores, key=lambda value: (befores[value], value), default="")
        named.append(describe(attribute) + (f" (was {was})" if was else ""))
    what = ", ".join(named)
    kinds = " and ".join([words_of(kind) for kind, _ in attributes])
    cause = CommonCause(
        fault=fault, attributes=attributes, nodes=frozenset([case.node for case in its]), words=""
    )
    blamed = f"{kinds} suspected" + (", not the nodes" if cause.excuses else "")
    return replace(cause, words=f"{fault} on nodes with {what}: {evidence}; {blamed}")


def _suspected_before(
    fault: str, cases: Sequence[_Case], explained: frozenset[NodeId]
) -> Iterator[CommonCause]:
    """Yield the causes for which nodes with the fault are deferred already."""
    recorded: dict[tuple[str, ...], Deferred] = {}
    for case in cases:
        if case.deferred is not None and case.node not in explained and case.deferred.suspects:
            recorded.setdefault(case.deferred.suspects, case.deferred)
    for suspects, deferred in recorded.items():
        pairs = [suspect.partition("=") for suspect in suspects]
        attributes = tuple([(kind, value) for kind, _, value in pairs])
        its = [case for case in cases if not case.attributes.isdisjoint(attributes)]
        nodes = frozenset([case.node for case in its]) - explained
        if nodes:
            yield CommonCause(
                fault=fault, attributes=attributes, nodes=nodes, words=deferred.because
            )


def _suspected_check(
    fault: str,
    cases: Sequence[_Case],
    explained: frozenset[NodeId],
    stats: DomainStats,
    settings: GovernorSettings,
    now: datetime,
) -> CommonCause | None:
    """Return the check itself as a cause, if it fails on more nodes than independent faults would.

    That is judged by the nodes that no other cause has `explained`.
    """
    if fault == HEARTBEAT:
        return None  # Silence of many nodes is judged by `outage`.
    left = [case for case in cases if case.node not in explained]
    before = [case.deferred for case in left if case.deferred and not case.deferred.suspects]
    if before:
        words = before[0].because
    else:
        recent = [case for case in left if case.since >= now - settings.window]
        nodes = len(stats.attributes)
        chance = chance_of(len(recent), nodes=nodes, within=settings.window)
        enough = max(CHECK_NODES_MIN, CHECK_SHARE_MIN * nodes, settings.suspect_nodes)
        if len(recent) < enough or chance >= CHECK_CHANCE_MAX:
            return None
        words = (
            f"{fault} on {len(recent)} of {nodes} nodes within {minutes(settings.window)}, more "
            "than fail independently; the check or a shared cause suspected, not the nodes"
        )
    nodes_left = frozenset([case.node for case in left])
    return CommonCause(fault=fault, attributes=(), nodes=nodes_left, words=words)


def minutes(period: timedelta) -> str:
    """Return a period as `90 min` or `2 h`."""
    count = period.total_seconds() / 60
    return f"{count / 60:g} h" if count >= 60 and count % 60 == 0 else f"{count:g} min"


def chance_of(
    faults: int, *, nodes: int, within: timedelta, per_node_day: float = FAULTS_PER_NODE_DAY
) -> float:
    """Return the probability that this many of `nodes` or more fail independently `within` a time.

    `per_node_day` is the rate at which a single one fails. The result is the tail of a Poisson
    distribution, from above: the terms after the first fall at least as fast as a geometric series.
    """
    expected = nodes * per_node_day * (within / DAY)
    if faults <= expected or expected <= 0:
        return 1.0
    first = exp(faults * log(expected) - expected - lgamma(faults + 1))
    return min(1.0, first / (1 - expected / (faults + 1)))


def hypergeometric_tail(hits: int, *, drawn: int, marked: int, of: int) -> float:
    """Return the probability that at least `hits` of `drawn` nodes are among the `marked` ones."""

    def ways(total: int, chosen: int) -> float:
        return lgamma(total + 1) - lgamma(chosen + 1) - lgamma(total - chosen + 1)

    total, everything = 0.0, ways(of, drawn)
    for count in range(max(hits, drawn + marked - of, 0), min(drawn, marked) + 1):
        term = exp(ways(marked, count) + ways(of - marked, drawn - count) - everything)
        total += term
        if term < 1e-9 * total:
            break
    return min(total, 1.0)
