"""The engine: a compiled policy that judges occurrences."""

import hashlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from navarch.core.health import SEVERITY, CheckResult, Health
from navarch.core.ids import PoolName
from navarch.core.records import evolve
from navarch.health.policy.expression import Expressions, find_flaw, variables_used
from navarch.health.policy.occurrence import (
    Occurrence,
    condition_name,
    is_reported_once,
    variables,
)
from navarch.health.policy.policy import COUNT_MAX, Policy, Rule, Scope

MatchKey = tuple[str, str, str]
"""A node, a rule, and the GPU (empty for the node as a whole)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One event for which a rule's condition held."""

    key: MatchKey
    at: datetime
    times: int = 1
    value: str = ""
    """The value to count, for rules that count distinct values."""


class Windows:
    """The recent matches of rules that count, for as long as their windows last."""

    def __init__(self) -> None:
        self._matches: dict[str, dict[MatchKey, deque[Match]]] = {}
        """Keyed by node, so that a node can be forgotten quickly."""

    def count(
        self, match: Match, *, within: timedelta, distinct: bool, beside: Iterable[Match] = ()
    ) -> int:
        """Return the count within the window that ends with `match`, including it.

        `beside` are matches of the same report that are not stored yet.
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
        """Store a match; a repeated match is stored once."""
        of_node = self._matches.setdefault(match.key[0], {})
        kept = of_node.setdefault(match.key, deque(maxlen=COUNT_MAX))
        while kept and kept[0].at <= match.at - within:
            kept.popleft()
        if match not in kept:
            kept.append(match)

    def forget(self, node: str) -> None:
        """Drop the matches of a node."""
        self._matches.pop(node, None)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A policy's decision about one occurrence, and the rule it comes from."""

    health: Health
    fatal: bool
    action: str
    rule: str = ""
    """Empty if no rule matched; then the check's own result stands."""
    broken: tuple[str, ...] = ()
    """Rules that could not be evaluated, each with the reason."""
    matches: tuple[Match, ...] = ()
    """The matches to store for rules that count."""


class Engine:
    """Judges occurrences by one policy. Only `note` changes its state."""

    def __init__(self, policy: Policy) -> None:
        conditions = [rule.condition for rule in policy.rules]
        for rule in policy.rules:
            flaw = find_flaw(rule.condition)
            assert flaw is None, f"{rule.name}: {flaw.message}"
        self.policy = policy
        self.windows = Windows()
        self.remembers = policy.memory > timedelta(0)
        """Whether verdicts depend on earlier occurrences."""
        rules = hashlib.sha256(msgspec.json.encode(policy)).hexdigest()[:8]
        self.revision = f"{policy.name}@{rules}"
        """An identifier of exactly these rules; it changes with any rule."""
        self._conditions = Expressions(conditions)
        self._variables_used = variables_used(conditions)

    def judge(self, occurrence: Occurrence, *, beside: Sequence[Match] = ()) -> Verdict:
        """Return the verdict of the first rule that matches.

        `beside` are the matches of other occurrences in the same report, which count too. A rule
        that cannot be evaluated must not hide a fault: the other rules are tried, and their verdict
        stands only if it is at least as severe as the check's own.
        """
        result = occurrence.result
        default = Verdict(health=result.health, fatal=result.fatal, action=result.action)
        broken: list[str] = []
        matches: list[Match] = []
        decided: Verdict | None = None
        holding: Iterable[bool | str]
        try:
            holding = self._conditions.hold(variables(occurrence, self._variables_used))
        except Exception as error:  # noqa: BLE001 - a finding may hold what no variable can
            holding = [f"{type(error).__name__}: {error}"] * len(self.policy.rules)
        for rule, holds in zip(self.policy.rules, holding, strict=True):
            if isinstance(holds, str):
                broken.append(f"{rule.name}: {holds}")
            elif holds and self._enough(rule, occurrence, matches, beside):
                fatal = result.fatal or result.lasting if rule.fatal is None else rule.fatal
                decided = Verdict(
                    health=rule.result,
                    fatal=fatal and rule.result is Health.UNHEALTHY,
                    action=result.action if rule.action is None else rule.action,
                    rule=rule.name,
                )
                break
        if decided is None or (broken and _rank(default) > _rank(decided)):
            decided = default
        return evolve(decided, broken=tuple(broken), matches=tuple(matches))

    def note(self, verdict: Verdict) -> None:
        """Store the matches of a verdict that has been committed."""
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
    """The policy of the fleet, and those of pools with their own."""

    fleet: Engine
    pools: Mapping[PoolName, Engine] = field(default_factory=dict)

    def of(self, pool: PoolName | None) -> Engine:
        """Return the engine for the nodes of `pool`; None means nodes without a pool."""
        return self.fleet if pool is None else self.pools.get(pool, self.fleet)


def compile_policies(fleet: Policy, pools: Mapping[PoolName, Policy] | None = None) -> PolicySet:
    """Return the engines for these policies, each compiled once."""
    return PolicySet(
        fleet=Engine(fleet),
        pools={name: Engine(policy) for name, policy in (pools or {}).items()},
    )


def apply_verdict(result: CheckResult, verdict: Verdict, policy: Policy) -> CheckResult:
    """Return `result` with the policy's verdict, and the rule in the reason if it differs."""
    facts = {**result.facts, "rule": verdict.rule} if verdict.rule else dict(result.facts)
    reason = result.reason
    if (verdict.health, verdict.fatal) != (result.health, result.fatal):
        fatal = ", fatal" if verdict.fatal else ""
        reason += f" ({verdict.health}{fatal} by rule {verdict.rule} of policy {policy.name})"
    if verdict.broken:
        reason += f" (policy {policy.name} could not be applied: {'; '.join(verdict.broken)})"
    # No later round confirms what is reported once: a round without it must not clear it.
    lasting = result.lasting or (verdict.health is Health.UNHEALTHY and is_reported_once(result))
    return evolve(
        result,
        check=condition_name(result) if lasting else result.check,
        health=verdict.health,
        lasting=lasting,
        fatal=verdict.fatal,
        action=verdict.action,
        reason=reason,
        facts=facts,
    )


def _rank(verdict: Verdict) -> tuple[int, bool]:
    return SEVERITY[verdict.health], verdict.fatal
