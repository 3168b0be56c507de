"""Evaluation of a health report: verdicts by policy, and the incidents that they belong to.

Everything here is pure. `control/health/ingest.py` reads the state that it needs, and commits what
follows from it.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from navarch.core.event import Event, about
from navarch.core.fleet import Fleet
from navarch.core.health import CheckResult, Condition, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.incident import Incident, IncidentKind
from navarch.core.node import Node
from navarch.health.policy.engine import Engine, Match, Verdict, apply_verdict
from navarch.health.policy.history import finding_event
from navarch.health.policy.occurrence import Occurrence, is_occurrence
from navarch.health.policy.policy import MachinePhase

AHEAD_MAX = timedelta(seconds=5)
"""How far an agent's clock may be ahead before its times are not used."""

IsRecorded = Callable[[NodeId, str, datetime], bool]
"""Returns whether an incident records what a check found on a node at a time."""


class JudgedResult(msgspec.Struct, frozen=True):
    """A result that the policy has judged."""

    occurrence: Occurrence
    engine: Engine
    verdict: Verdict
    result: CheckResult
    """The result as the policy sees it."""
    position: int
    """Its position in the report."""


def is_of_past_boot(node: Node, report: HealthReport) -> bool:
    """Return whether a report is about a boot of `node` that is over.

    Agents buffer reports on disk while the control plane is unreachable, and a machine may reboot
    meanwhile. Reports that name no boot are about the present one.
    """
    return bool(report.boot_id and node.boot_id) and report.boot_id != node.boot_id


def judge_results(
    node: Node, report: HealthReport, engine: Engine, phase: MachinePhase, now: datetime
) -> list[JudgedResult]:
    """Return the verdict on each result that a policy decides about, the oldest first."""
    happened = sorted(
        (_moment(result, report, now), position)
        for position, result in enumerate(report.results)
        if is_occurrence(result)
    )
    judged: list[JudgedResult] = []
    counted: list[Match] = []
    for at, position in happened:
        result = report.results[position]
        occurrence = Occurrence(result=result, node=node, at=at, phase=phase)
        verdict = engine.judge(occurrence, beside=counted)
        counted += verdict.matches
        seen = apply_verdict(result, verdict, engine.policy)
        judged.append(JudgedResult(occurrence, engine, verdict, seen, position))
    return judged


def sort_results(
    judged: Sequence[JudgedResult], node: Node, report: HealthReport, is_recorded: IsRecorded
) -> tuple[list[JudgedResult], Sequence[CheckResult]]:
    """Return what is new, and the results of the whole report as the policy sees them.

    Neither contains results that repeat a recorded event.
    """
    new: list[JudgedResult] = []
    kept: dict[int, CheckResult] = dict(enumerate(report.results))
    for item in judged:
        verdict, result = item.verdict, item.result
        if is_repeated(item, node, is_recorded):
            del kept[item.position]
            continue
        kept[item.position] = result
        before = _condition_of(node, result)
        is_event = result.lasting and (before is None or bool(result.facts.get("at")))
        is_changed = before is None or (before.health, before.fatal) != (
            verdict.health,
            verdict.fatal,
        )
        if is_event or (verdict.health is not Health.HEALTHY and is_changed):
            new.append(item)
    return new, list(kept.values())


def events_of(
    new: Iterable[JudgedResult], incidents: Sequence[Incident], fleet: Fleet, now: datetime
) -> list[Event]:
    """Return the journal's events about new findings and their incidents."""
    events = [
        finding_event(
            item.occurrence,
            item.verdict,
            item.engine.policy,
            now=now,
            incident=_incident_of(item, incidents),
        )
        for item in new
    ]
    for incident in incidents:
        before = fleet.incidents.get(incident.id)
        cause = incident.check, incident.node, incident.kind
        if not incident.is_open:
            kind, reason = "incident.closed", incident.note
        elif before is None:
            action = f"; recommended action: {incident.action}" if incident.action else ""
            kind, reason = "incident.opened", f"{incident.kind}: {incident.title}{action}"
        elif (before.check, before.node, before.kind) != cause:
            kind = "incident.changed"
            reason = f"the cause is now {incident.kind}: {incident.title}"
        else:
            continue
        facts = {
            "kind": str(incident.kind),
            "node": str(incident.node),
            "state": str(incident.state),
            "action": incident.action,
        }
        subject, because = about("incident", incident.id), (about("node", incident.node),)
        events.append(
            Event(at=now, about=subject, kind=kind, reason=reason, because=because, facts=facts)
        )
    return events


def is_repeated(item: JudgedResult, node: Node, is_recorded: IsRecorded) -> bool:
    """Return whether the same event was reported before, with the same meaning.

    An agent that restarts reports again what it knows, and a second source may report the same
    event. Both keep the time of the event.
    """
    at, verdict = item.result.facts.get("at"), item.verdict
    if not item.result.lasting or not at:
        return False
    before = _condition_of(node, item.result)
    if before is not None and before.facts.get("at") == at:
        return (before.health, before.fatal) == (verdict.health, verdict.fatal)
    if verdict.health is not Health.HEALTHY:
        return False
    return is_recorded(node.id, item.result.check, item.occurrence.at)


def _moment(result: CheckResult, report: HealthReport, now: datetime) -> datetime:
    """Return the time of an event as its source reports it, unless that is impossible."""
    at = report.at or now
    if reported := result.facts.get("at"):
        with suppress(ValueError):
            at = datetime.fromisoformat(reported)
    return now if at.tzinfo is None or at > now + AHEAD_MAX else min(at, now)


def _condition_of(node: Node, result: CheckResult) -> Condition | None:
    return next((c for c in node.conditions if c.check == result.check), None)


def _incident_of(item: JudgedResult, incidents: Iterable[Incident]) -> str:
    """Return the open incident that a result is a symptom of; empty if there is none."""
    node, result = item.occurrence.node.id, item.result
    pid = result.facts.get("pid", "")
    for incident in incidents:
        if not incident.is_open:
            continue
        if incident.kind is IncidentKind.APPLICATION and pid and incident.pid != pid:
            continue
        for symptom in incident.symptoms:
            if symptom.check == result.check and symptom.node == node:
                return incident.id
    return ""
