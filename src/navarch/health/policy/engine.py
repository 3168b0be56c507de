"""The engine: a policy, compiled, and what it makes of occurrences."""

import hashlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from navarch.core.drafting import drafted
from navarch.core.evolve import evolve
from navarch.core.health import UNHEALTHY, CheckResult, Health
from navarch.core.ids import PoolName
from navarch.health.policy.expression import (
    Expressions,
    depends_on_moment,
    find_flaw,
    variables_used,
)
from navarch.health.policy.occurrence import Occurrence, variables
from navarch.health.policy.policy import COUNT_MAX, Policy, Rule, Scope

_SEVERITY = {Health.HEALTHY: 0, Health.UNKNOWN: 0, Health.DEGRADED: 1, Health.UNHEALTHY: 2}


MatchKey = tuple[str, str, str]
"""A node, a rule, and the GPU (empty for the node as a whole)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One event for which a rule's condition held."""

    key: MatchKey
    at: datetime
    times: int = 1
    value: str = ""
    """What is counted, where different values are counted."""


class Windows:
    """The matches of rules that count, for as long as they count."""

    def __init__(self) -> None:
        self._matches: dict[str, dict[MatchKey, deque[Match]]] = {}
        """By node, so that one of many can be forgotten without looking at the others."""

    def count(
        self, match: Match, *, within: timedelta, distinct: bool, beside: Iterable[Match] = ()
    ) -> int:
        """Return how much there has been within the window that `match` ends, with it.

        What lies `beside` it is not remembered yet, and has happened all the same.
        """
        since = match.at - within
        alike = (m for m in beside if m.key == match.key)
        before = self._matches.get(match.key[0], {}).get(match.key, ())
        seen = dict.fromkeys((*before, *alike, match))
        kept = [m for m in seen if since < m.at <= match.at]
        if distinct:
            return len({m.value for m in kept if m.value})
        return sum(m.times for m in kept)

    def note(self, match: Match, *, within: timedelta) -> None:
        """Remember a match. One that is told of again is the same one."""
        of_node = self._matches.setdefault(match.key[0], {})
        kept = of_node.setdefault(match.key, deque(maxlen=COUNT_MAX))
        while kept and kept[0].at <= match.at - within:
            kept.popleft()
        if match not in kept:
            kept.append(match)

    def forget(self, node: str) -> None:
        """Drop what is remembered of a node."""
        self._matches.pop(node, None)


@drafted
@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a policy makes of one occurrence, and by which rule."""

    health: Health
    fatal: bool
    action: str
    rule: str = ""
    """Empty when no rule matched, and the check's own judgement stands."""
    broken: tuple[str, ...] = ()
    """Rules that could not be evaluated, each with the reason."""
    matches: tuple[Match, ...] = ()
    """What to remember for rules that count."""
    steady: bool = True
    """Whether the same thing on the same node means the same at any other moment: no rule that
    had a say asked what time it is, what the machine is at, or how often it has been so."""


@dataclass(slots=True)
class Engine:
    """Judges by one policy. It remembers only what its windows need, and only when told to."""

    policy: Policy
    windows: Windows = field(default_factory=Windows)
    remembers: bool = field(init=False)
    """Whether its verdicts depend on what happened before."""
    revision: str = field(init=False)
    """A name for exactly these rules: another for any change of one."""
    _conditions: Expressions = field(init=False)
    _speaks_of: frozenset[str] = field(init=False)
    _ask_when: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        for rule in self.policy.rules:
            flaw = find_flaw(rule.condition)
            assert flaw is None, f"{rule.name}: {flaw.message}"
        conditions = [rule.condition for rule in self.policy.rules]
        self.remembers = self.policy.memory > timedelta(0)
        rules = hashlib.sha256(msgspec.json.encode(self.policy)).hexdigest()[:8]
        self.revision = f"{self.policy.name}@{rules}"
        self._conditions = Expressions(conditions)
        self._speaks_of = variables_used(conditions)
        self._ask_when = [depends_on_moment(rule.condition) for rule in self.policy.rules]

    def judge(self, occurrence: Occurrence, *, beside: Sequence[Match] = ()) -> Verdict:
        """Return what the first rule that matches says.

        What others of the same report have matched counts too: it lies `beside`. A rule that
        cannot be evaluated must not hide what happened: the other rules are tried, and what
        they say counts only where it is no milder than what the check said itself.
        """
        broken: list[str] = []
        matches: list[Match] = []
        steady = True
        decided: Verdict | None = None
        holding = self._holding(occurrence)
        for rule, when, holds in zip(self.policy.rules, self._ask_when, holding, strict=True):
            if holds is False and not when:
                continue
            counts = holds is True and (rule.within is not None or bool(rule.phases))
            steady = steady and not when and not counts
            if isinstance(holds, str):
                broken.append(f"{rule.name}: {holds}")
            elif holds and self._enough(rule, occurrence, matches, beside):
                decided = _decided(rule, occurrence.result)
                break
        if decided is None or (broken and _rank(_own(occurrence.result)) > _rank(decided)):
            decided = _own(occurrence.result)
        if steady and not broken and not matches:
            return decided
        return evolve(decided, broken=tuple(broken), matches=tuple(matches), steady=steady)

    def _holding(self, occurrence: Occurrence) -> Iterable[bool | str]:
        """Return for each rule whether its condition holds, or, as text, why that is not known."""
        try:
            return self._conditions.hold(variables(occurrence, self._speaks_of))
        except Exception as error:  # noqa: BLE001 - a finding may hold what no variable can
            return [f"{type(error).__name__}: {error}"] * len(self.policy.rules)

    def note(self, verdict: Verdict) -> None:
        """Remember what `verdict` rests on, now that it stands."""
        if not verdict.matches:
            return
        within = {rule.name: rule.within for rule in self.policy.rules}
        for match in verdict.matches:
            window = within[match.key[1]]
            assert window is not None, match
            self.windows.note(match, within=window)

    def _enough(
        self, rule: Rule, occurrence: Occurrence, matches: list[Match], beside: Sequence[Match]
    ) -> bool:
        if rule.phases and occurrence.phase not in rule.phases:
            return False
        if rule.sources > 1 and len(occurrence.sources) < rule.sources:
            return False
        if rule.within is None:
            return True
        gpu = occurrence.gpu if rule.per is Scope.GPU else ""
        times = occurrence.result.facts.get("times", "")
        match = Match(
            key=(str(occurrence.node.id), rule.name, gpu),
            at=occurrence.at,
            times=int(times) if times.isascii() and times.isdecimal() else 1,
            value=occurrence.fact(rule.distinct) if rule.distinct else "",
        )
        matches.append(match)
        counted = self.windows.count(
            match, within=rule.within, distinct=bool(rule.distinct), beside=beside
        )
        return counted >= rule.count


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet:
    """Which policy judges what happens where."""

    fleet: Engine
    pools: Mapping[PoolName, Engine] = field(default_factory=dict)

    def of(self, pool: PoolName | None) -> Engine:
        """Return what judges the nodes of `pool`, or nodes that are in none."""
        return self.fleet if pool is None else self.pools.get(pool, self.fleet)


def compile_policies(fleet: Policy, pools: Mapping[PoolName, Policy] | None = None) -> PolicySet:
    """Return the book of these policies, each compiled once."""
    return PolicySet(
        fleet=Engine(fleet),
        pools={name: Engine(policy) for name, policy in (pools or {}).items()},
    )


def apply_verdict(result: CheckResult, verdict: Verdict, policy: Policy) -> CheckResult:
    """Return `result` as the policy sees it, with a word about it where that differs."""
    facts = {**result.facts, "rule": verdict.rule} if verdict.rule else dict(result.facts)
    reason = result.reason
    if (verdict.health, verdict.fatal) != (result.health, result.fatal):
        fatal = ", fatal" if verdict.fatal else ""
        reason += f" ({verdict.health}{fatal} by rule {verdict.rule} of policy {policy.name})"
    if verdict.broken:
        reason += f" (policy {policy.name} could not be applied: {'; '.join(verdict.broken)})"
    return evolve(
        result,
        # A condition is about a code on a GPU; which process met it is no part of its name.
        check="/".join(result.check.split("/")[:3]) if result.lasting else result.check,
        health=verdict.health,
        fatal=verdict.fatal,
        action=verdict.action,
        reason=reason,
        facts=facts,
    )


def _decided(rule: Rule, result: CheckResult) -> Verdict:
    fatal = rule.fatal
    if fatal is None:
        fatal = result.fatal or result.lasting
    return Verdict(
        health=rule.result,
        fatal=fatal and rule.result is UNHEALTHY,
        action=result.action if rule.action is None else rule.action,
        rule=rule.name,
    )


def _own(result: CheckResult) -> Verdict:
    return Verdict(health=result.health, fatal=result.fatal, action=result.action)


def _rank(verdict: Verdict) -> tuple[int, bool]:
    return _SEVERITY[verdict.health], verdict.fatal
