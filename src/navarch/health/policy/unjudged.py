"""Findings that the policy could not judge, as conditions of unknown health."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from navarch.core.event import Event, about
from navarch.core.health import POLICY, CheckResult, Condition, Health, HealthReport
from navarch.core.node import Node
from navarch.health.policy.engine import Engine, Verdict

REVISION, RULES = "policy", "rules"
"""The facts of such a condition: the policy that failed, and its rules that did."""


def is_unjudged(node: Node, check: str) -> bool:
    """Return whether `node` has a condition because no rule could judge a result of `check`."""
    return any(condition.check == POLICY + check for condition in node.conditions)


def unjudged_results(
    node: Node,
    report: HealthReport,
    failed: Sequence[tuple[CheckResult, Verdict]],
    judged: Iterable[CheckResult],
    engine: Engine,
) -> list[CheckResult]:
    """Return the results that `report` adds because rules of the policy failed, now or before.

    A finding of before is settled when its check passes, when the policy judges it, or when another
    policy is in force. A quiet round does not settle an event of the past.
    """
    before = [each for each in node.conditions if each.check.startswith(POLICY)]
    results: list[CheckResult] = []
    if before:
        settled = {POLICY + result.check for result in judged}
        passed = {POLICY + x.check for x in report.results if x.health is Health.HEALTHY}
        passed -= {POLICY + result.check for result, _ in failed}
        for each in before:
            is_replaced = each.facts.get(REVISION) != engine.revision
            has_passed = each.check in passed and not each.lasting
            if is_replaced or has_passed or each.check in settled:
                results.append(CheckResult(check=each.check, health=Health.HEALTHY))
    for result, verdict in failed:
        rules = "; rule ".join(verdict.broken)
        names = ", ".join(each.partition(": ")[0] for each in verdict.broken)
        results.append(
            CheckResult(
                check=POLICY + result.check,
                health=Health.UNKNOWN,
                reason=f"policy {engine.policy.name} cannot judge {result.check}: rule {rules}",
                lasting=result.lasting,
                facts={REVISION: engine.revision, RULES: names},
            )
        )
    return results


def failure_events(before: Node, after: Node, now: datetime) -> list[Event]:
    """Return one event for each new set of rules that failed on a node: people are alerted."""
    known = set(map(_failure, before.conditions))
    events: list[Event] = []
    for condition in after.conditions:
        failure = _failure(condition)
        if not condition.check.startswith(POLICY) or failure in known:
            continue
        known.add(failure)
        until = "its health is unknown until the policy is corrected or the check passes"
        events.append(
            Event(
                at=now,
                about=about("node", after.id),
                kind="policy.failed",
                reason=f"{condition.reason}; {until}",
                facts=dict(condition.facts),
            )
        )
    return events


def _failure(condition: Condition) -> tuple[str, str]:
    return condition.facts.get(REVISION, ""), condition.facts.get(RULES, "")
