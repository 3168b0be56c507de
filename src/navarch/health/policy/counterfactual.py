"""What history would have seen under another policy."""

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
    """What one policy makes of one event."""

    health: Health
    fatal: bool
    action: str
    rule: str

    @property
    def words(self) -> str:
        """The outcome as an operator would say it."""
        word = f"{self.health}, fatal" if self.fatal else str(self.health)
        asked = "" if self.action in ("", "none") else f", {self.action.replace('_', ' ')}"
        return f"{word}{asked}"


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
    """What one policy makes of all of history."""

    verdicts: Mapping[str, int] = field(default_factory=dict)
    """How often each health was the verdict."""
    actions: Mapping[str, int] = field(default_factory=dict)
    """How often each action was asked for."""
    fatal: int = 0
    """Verdicts that are acted on at once."""
    nodes_out: int = 0
    """Different nodes that were taken out of service."""
    broken: int = 0
    """Events for which a rule could not be evaluated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyComparison:
    """Two policies side by side, over the same history."""

    old: PolicyTally
    new: PolicyTally
    events: int
    since: datetime | None
    """When the oldest of the events happened."""
    differences: tuple[Difference, ...]


def compare_policies(
    old: Policy, new: Policy, events: Iterable[Event], *, start: datetime | None = None
) -> PolicyComparison:
    """Return what `events`, oldest first, would have come to under each of two policies.

    Each event is judged under the circumstances of its time, as the journal has kept them, and
    windows fill as they would have: also with what was written down before `start`, which is not
    compared. What an action would have changed about later events is not known, and not guessed at.
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
