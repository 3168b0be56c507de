"""Compare two policies over the findings in the journal."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from navarch.core.event import Event
from navarch.core.health import Health, describe_outcome
from navarch.core.ids import NodeId
from navarch.health.policy.engine import Engine, Verdict
from navarch.health.policy.history import occurrence_of
from navarch.health.policy.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutcome:
    """The verdict of one policy on one event."""

    health: Health
    fatal: bool
    action: str
    rule: str

    @property
    def words(self) -> str:
        """The outcome for operators, such as `unhealthy, fatal, reset gpu`."""
        return describe_outcome(self.health, fatal=self.fatal, action=self.action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An event that the two policies judge differently."""

    at: datetime
    node: NodeId
    what: str
    old: PolicyOutcome
    new: PolicyOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTally:
    """The verdicts of one policy over the whole history."""

    verdicts: Mapping[str, int] = field(default_factory=dict)
    """The number of verdicts by health."""
    actions: Mapping[str, int] = field(default_factory=dict)
    """The number of verdicts by action."""
    fatal: int = 0
    """The number of verdicts that are acted on at once."""
    nodes_out: int = 0
    """The number of nodes taken out of service."""
    broken: int = 0
    """The number of events for which a rule could not be evaluated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparison:
    """Two policies side by side, over the same history."""

    old: PolicyTally
    new: PolicyTally
    events: int
    since: datetime | None
    """When the oldest event happened."""
    differences: tuple[Difference, ...]


def compare_policies(
    old: Policy, new: Policy, events: Iterable[Event], *, start: datetime | None = None
) -> PolicyComparison:
    """Return how two policies judge `events`, oldest first.

    Each event is judged in the circumstances that the journal recorded for it. Events before
    `start` fill the rules' windows but are not compared. The effect that an action would have had
    on later events is unknown and ignored.
    """
    engines = Engine(old), Engine(new)
    judged: list[tuple[NodeId, Verdict, Verdict]] = []
    differences: list[Difference] = []
    since: datetime | None = None
    for event in events:
        occurrence = occurrence_of(event)
        if occurrence is None:
            continue
        before, after = (engine.judge(occurrence) for engine in engines)
        for engine, verdict in zip(engines, (before, after), strict=True):
            engine.note(verdict)
        if start is not None and event.at < start:
            continue
        at, node = occurrence.at, occurrence.node.id
        since = at if since is None else min(since, at)
        judged.append((node, before, after))
        outcomes = (before.health, before.fatal, before.action)
        if outcomes != (after.health, after.fatal, after.action):
            one, other = _outcome(before), _outcome(after)
            differences.append(Difference(at=at, node=node, what=event.reason, old=one, new=other))
    return PolicyComparison(
        old=_tally((node, before) for node, before, _ in judged),
        new=_tally((node, after) for node, _, after in judged),
        events=len(judged),
        since=since,
        differences=tuple(differences),
    )


def _outcome(verdict: Verdict) -> PolicyOutcome:
    return PolicyOutcome(
        health=verdict.health, fatal=verdict.fatal, action=verdict.action, rule=verdict.rule
    )


def _tally(judged: Iterable[tuple[NodeId, Verdict]]) -> PolicyTally:
    verdicts: Counter[str] = Counter()
    actions: Counter[str] = Counter()
    out: set[NodeId] = set()
    fatal = broken = 0
    for node, verdict in judged:
        verdicts[str(verdict.health)] += 1
        actions[verdict.action or "none"] += 1
        fatal += verdict.fatal
        broken += bool(verdict.broken)
        if verdict.health is Health.UNHEALTHY:
            out.add(node)
    return PolicyTally(
        verdicts=dict(sorted(verdicts.items())),
        actions=dict(sorted(actions.items())),
        fatal=fatal,
        nodes_out=len(out),
        broken=broken,
    )
