"""Compare two policies over the findings in the journal."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from navarch.core.event import Event
from navarch.core.health import Health
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
        word = f"{self.health}, fatal" if self.fatal else str(self.health)
        action = "" if self.action in ("", "none") else f", {self.action.replace('_', ' ')}"
        return f"{word}{action}"


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
    before, after = _Replay(old), _Replay(new)
    differences: list[Difference] = []
    count, since = 0, None
    for event in events:
        occurrence = occurrence_of(event)
        if occurrence is None:
            continue
        if start is not None and event.at < start:
            for replay in (before, after):
                replay.engine.note(replay.engine.judge(occurrence))
            continue
        count += 1
        since = occurrence.at if since is None else min(since, occurrence.at)
        node = occurrence.node.id
        one = before.judge(node, before.engine.judge(occurrence))
        other = after.judge(node, after.engine.judge(occurrence))
        if (one.health, one.fatal, one.action) != (other.health, other.fatal, other.action):
            differences.append(
                Difference(at=occurrence.at, node=node, what=event.reason, old=one, new=other)
            )
    return PolicyComparison(
        old=before.tally(),
        new=after.tally(),
        events=count,
        since=since,
        differences=tuple(differences),
    )


class _Replay:
    def __init__(self, policy: Policy) -> None:
        self.engine = Engine(policy)
        self._verdicts: Counter[str] = Counter()
        self._actions: Counter[str] = Counter()
        self._out: set[NodeId] = set()
        self._fatal = 0
        self._broken = 0

    def judge(self, node: NodeId, verdict: Verdict) -> PolicyOutcome:
        self.engine.note(verdict)
        self._verdicts[str(verdict.health)] += 1
        self._actions[verdict.action or "none"] += 1
        self._fatal += verdict.fatal
        self._broken += bool(verdict.broken)
        if verdict.health is Health.UNHEALTHY:
            self._out.add(node)
        return PolicyOutcome(
            health=verdict.health, fatal=verdict.fatal, action=verdict.action, rule=verdict.rule
        )

    def tally(self) -> PolicyTally:
        return PolicyTally(
            verdicts=dict(sorted(self._verdicts.items())),
            actions=dict(sorted(self._actions.items())),
            fatal=self._fatal,
            nodes_out=len(self._out),
            broken=self._broken,
        )
