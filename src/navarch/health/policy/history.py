"""Findings in the journal, with all that another policy needs to judge them later."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from navarch.core.event import Event, about
from navarch.core.health import POLICY, CheckResult, Condition, Health, HealthReport
from navarch.core.ids import NodeId, PoolName, ProviderName
from navarch.core.launch import Offering
from navarch.core.node import Node, Phase
from navarch.health.policy.engine import Engine, Verdict
from navarch.health.policy.occurrence import Occurrence
from navarch.health.policy.policy import MachinePhase, Policy

FINDING = "health.finding"
"""The event kind of a journalled finding."""

CONDITIONS_MAX = 20

LABELS_MAX = 32
LABEL_MAX = 200
"""All labels are kept, since another policy may use any of them, but within limits: agents set
their labels freely and must not fill the journal."""

REVISION, RULES = "policy", "rules"
"""The facts of the condition of a finding without a verdict: the policy, and its rules that failed.
"""

_FACT = "fact."
_LABEL = "label."
_NONE = "-"
_NOWHERE = Offering(provider=ProviderName(""), instance_type="", region="", zone="")
_TRUE = {True: "yes", False: ""}


def finding_event(
    occurrence: Occurrence, verdict: Verdict, policy: Policy, *, now: datetime, incident: str = ""
) -> Event:
    """Return the journal event for an occurrence and its verdict."""
    result, node = occurrence.result, occurrence.node
    place = node.place or _NOWHERE
    facts = {
        "check": result.check,
        "said": str(result.health),
        "said_fatal": _TRUE[result.fatal],
        "lasting": _TRUE[result.lasting],
        "said_action": result.action,
        "verdict": str(verdict.health),
        "fatal": _TRUE[verdict.fatal],
        "action": verdict.action,
        "rule": verdict.rule,
        "policy": policy.name,
        "broken": "; ".join(verdict.broken),
        "incident": incident,
        "at": occurrence.at.isoformat(),
        "machine_phase": str(occurrence.phase),
        "boot_id": node.boot_id,
        "pool": str(node.pool or ""),
        "provider": str(place.provider),
        "region": place.region,
        "zone": place.zone,
        "instance_type": place.instance_type,
        "gpus": str(node.gpus or ""),
        "health": str(node.health),
        "cordoned": _TRUE[node.cordoned is not None],
        "conditions": _written(node.conditions),
    }
    for name, value in list(node.labels.items())[:LABELS_MAX]:
        if len(name) + len(value) <= LABEL_MAX:
            facts[f"{_LABEL}{name}"] = value
    facts |= {f"{_FACT}{name}": value for name, value in result.facts.items() if name != "at"}
    return Event(
        at=now,
        about=about("node", node.id),
        kind=FINDING,
        reason=result.reason or f"{result.check} is {result.health}",
        because=(about("incident", incident),) if incident else (),
        facts={name: value for name, value in facts.items() if value},
    )


def occurrence_of(event: Event) -> Occurrence | None:
    """Return the occurrence that an event records, or None if it is of another kind."""
    facts = event.facts
    if event.kind != FINDING or "check" not in facts or "said" not in facts:
        return None
    at = event.at
    with suppress(ValueError):
        recorded = datetime.fromisoformat(facts.get("at", ""))
        at = at if recorded.tzinfo is None else recorded
    return Occurrence(
        result=CheckResult(
            check=facts["check"],
            health=Health(facts["said"]),
            reason=event.reason,
            fatal="said_fatal" in facts,
            lasting="lasting" in facts,
            action=facts.get("said_action", ""),
            facts={k.removeprefix(_FACT): v for k, v in facts.items() if k.startswith(_FACT)},
        ),
        node=_node(NodeId(event.about.partition("/")[2]), facts, at),
        at=at,
        phase=MachinePhase(facts.get("machine_phase", MachinePhase.BUSY)),
    )


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
    known = [(each.facts.get(REVISION), each.facts.get(RULES)) for each in before.conditions]
    events: list[Event] = []
    for condition in after.conditions:
        failure = condition.facts.get(REVISION), condition.facts.get(RULES)
        if not condition.check.startswith(POLICY) or failure in known:
            continue
        known.append(failure)
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


def _node(name: NodeId, facts: Mapping[str, str], at: datetime) -> Node:
    """Return the node with the fields that a policy can use."""
    return Node(
        id=name,
        pool=PoolName(facts["pool"]) if "pool" in facts else None,
        phase=Phase.READY,
        since=at,
        created_at=at,
        registered_at=at,
        boot_id=facts.get("boot_id", ""),
        gpus=int(facts.get("gpus", "0")),
        health=Health(facts.get("health", Health.UNKNOWN)),
        cordoned="it was" if "cordoned" in facts else None,
        labels={k.removeprefix(_LABEL): v for k, v in facts.items() if k.startswith(_LABEL)},
        offering=Offering(
            provider=ProviderName(facts.get("provider", "")),
            instance_type=facts.get("instance_type", ""),
            region=facts.get("region", ""),
            zone=facts.get("zone", ""),
        ),
        conditions=tuple(_condition(part, at) for part in facts.get("conditions", "").split(";"))
        if facts.get("conditions")
        else (),
    )


def _written(conditions: Sequence[Condition]) -> str:
    parts: list[str] = []
    for condition in conditions[:CONDITIONS_MAX]:
        code, gpu = (condition.facts.get(name) or _NONE for name in ("code", "gpu"))
        words = (str(condition.health), condition.check, code, gpu)
        if not any(";" in word or " " in word for word in words):
            parts.append(" ".join(words))
    return ";".join(parts)


def _condition(written: str, at: datetime) -> Condition:
    health, check, *rest = written.split(" ")
    if not rest:
        # The format before codes and GPUs were written: take them from an XID's name.
        name, _, place = check.partition("/")
        code, _, gpu = place.partition("/")
        rest = [code, gpu] if name == "xid" and gpu else []
    known = {key: x for key, x in zip(("code", "gpu"), rest, strict=False) if x != _NONE}
    return Condition(check=check, health=Health(health), reason="", since=at, facts=known)
