"""Which change is behind a fault that many nodes show."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from navarch.core.governor import GovernorSettings
from navarch.core.health import Condition
from navarch.core.held import HeldBy
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.core.trait import CHANGING, POLICY
from navarch.fleet.disruption.governor.census import Census, TraitValue, fingerprints

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """One fault, and the change that it came with."""

    fault: str
    change: str
    """As people would name it: `driver 570.1 (was 550.2)`."""
    nodes: int

    @property
    def words(self) -> str:
        """The sentence for operators. No numbers: it stays the same while they change."""
        return f"nodes with {self.change} show {self.fault}; the change is suspected, not they"


def find_suspicions(
    census: Census,
    settings: GovernorSettings,
    *,
    now: datetime,
    policy: PolicyChange | None = None,
) -> Mapping[str, Suspicion]:
    """Return the faults that are held to be the work of a change, by fault."""
    found = {}
    for fault, nodes in census.showing.items():
        held = any(node.held and node.held.by is HeldBy.CHANGE for node in nodes.values())
        # Once suspected, a change stays so until half as many show it: no fluttering.
        ease = 0.5 if held else 1.0
        if len(nodes) < ease * settings.suspect_nodes:
            continue
        if len(nodes) < ease * DOMINANCE_MIN * len(census.unwell):
            continue
        suspects = list(_suspects(fault, nodes, census, settings, ease, now, policy))
        if suspects:
            found[fault] = _most_suspect(fault, suspects)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Suspect:
    key: str
    value: str
    before: str
    nodes: int
    lift: float
    """How much more often the change is found among the nodes with the fault than anywhere."""


def _suspects(
    fault: str,
    nodes: Mapping[NodeId, Node],
    census: Census,
    settings: GovernorSettings,
    ease: float,
    now: datetime,
    policy: PolicyChange | None,
) -> Iterator[_Suspect]:
    registered = max(len(census), 1)
    seen = [(node, fingerprints(node)[fault]) for node in nodes.values()]
    for key in CHANGING:
        shared: Counter[str] = Counter()
        befores: dict[str, Counter[str]] = {}
        for node, condition in seen:
            if _changed_lately(node, key, condition, census, settings):
                trait = node.traits[key]
                shared[trait.value] += 1
                befores.setdefault(trait.value, Counter())[trait.before] += 1
        for value, count in shared.most_common(1):
            having = max(census.having[key, value], 1)
            enough = max(settings.suspect_nodes, settings.suspect_share * having)
            if count >= ease * enough and count >= ease * SHARED_MIN * len(nodes):
                lift = (count / len(nodes)) / (having / registered)
                before = befores[value].most_common(1)[0][0]
                yield _Suspect(key=key, value=value, before=before, nodes=count, lift=lift)
    if policy is not None and now <= policy.since + settings.change_window:
        count = sum(condition.since >= policy.since for _, condition in seen)
        if count >= ease * SHARED_MIN * len(nodes):
            yield _Suspect(key=POLICY, value=policy.revision, before="", nodes=count, lift=1.0)


def _changed_lately(
    node: Node, key: str, condition: Condition, census: Census, settings: GovernorSettings
) -> bool:
    """Return whether the node had a change not long before it showed the fault."""
    trait = node.traits.get(key)
    if trait is None or not trait.value:
        return False
    if trait.before:
        return _shortly_before(trait.since, condition.since, settings)
    # A node that was born with it: then it is new if the fleet had another before, not long ago.
    value: TraitValue = (key, trait.value)
    first = census.first_had.get(value, trait.since)
    older = any(
        moment < first
        for (kind, other), moment in census.first_had.items()
        if kind == key and other != trait.value
    )
    return older and _shortly_before(first, condition.since, settings)


def _shortly_before(change: datetime, fault: datetime, settings: GovernorSettings) -> bool:
    return fault - settings.change_window <= change <= fault


def _most_suspect(fault: str, suspects: list[_Suspect]) -> Suspicion:
    """Name the change that tells the sick from the sound best; several, if none does so better."""
    best = max(suspect.lift for suspect in suspects)
    named = [suspect for suspect in suspects if suspect.lift >= 0.95 * best]
    words = [f"{x.key} {x.value}" + (f" (was {x.before})" if x.before else "") for x in named]
    return Suspicion(fault=fault, change=", ".join(words), nodes=max(x.nodes for x in named))
