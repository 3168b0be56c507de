"""From a report to what it changes: verdicts by policy, conditions, incidents, journal."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar, TypeVarTuple

import msgspec
import structlog

from navarch.core.command import Command
from navarch.core.event import Event, Subject, about
from navarch.core.evolve import evolve
from navarch.core.fleet import Change, Fleet
from navarch.core.health import POLICY, CheckResult, Health, HealthReport
from navarch.core.ids import CommandId, IncidentId, NodeId
from navarch.core.incident import Incident, IncidentKind
from navarch.core.node import Node
from navarch.fleet.verdicts import with_past_results, with_results
from navarch.health.incidents.finding import NVLINK_LABEL, Finding
from navarch.health.incidents.grouping import group
from navarch.health.policy.engine import Engine, Match, PolicySet, Verdict, apply_verdict
from navarch.health.policy.history import FINDING, finding_event, occurrence_of
from navarch.health.policy.occurrence import Occurrence, is_occurrence
from navarch.health.policy.policy import machine_phase
from navarch.ports.clock import Clock
from navarch.ports.store import Committed, Matter, Store
from navarch.service.keyed_lock import KeyedLock
from navarch.service.seen_symptoms import SeenSymptoms
from navarch.service.unjudged import failure_events, stands_unjudged, unjudged_results

log = structlog.get_logger(__name__)

AHEAD_MAX = timedelta(seconds=5)
"""How far an agent's clock may be ahead of ours before its times are taken for wrong."""

K = TypeVar("K", bound=str)
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Utilization = Callable[[Sequence[NodeId]], Sequence[float | None]]


class _Judged(msgspec.Struct, frozen=True):
    occurrence: Occurrence
    engine: Engine
    verdict: Verdict
    result: CheckResult
    place: int
    """Where in its report it stands."""


class Weighed(msgspec.Struct, frozen=True, kw_only=True):
    """What a report comes to."""

    node: Node
    change: Change
    found: Sequence[_Judged] = ()

    def note(self) -> None:
        """Let the policies remember what they counted, now that it is written down."""
        for item in self.found:
            item.engine.note(item.verdict)


@dataclass(frozen=True, slots=True)
class _Familiar:
    """A report that changed nothing, and what it was held against."""

    results: tuple[CheckResult, ...]
    node: Node
    engine: Engine
    incidents: list[Incident]


_NOTHING = Change()


class Weighing:
    """Weighs reports. It reads the store and writes nothing: the caller commits."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        *,
        policies: Callable[[], PolicySet],
        utilization: Utilization,
    ) -> None:
        self._clock = clock
        self._store = store
        self._policies = policies
        self._utilization = utilization
        self._open = OpenIncidents(store)
        self._told = SeenSymptoms(store)
        self._recalled: dict[NodeId, Engine] = {}
        self._familiar: dict[NodeId, _Familiar] = {}
        self._turns = KeyedLock()
        self._asked: dict[NodeId, dict[CommandId, str]] = {}
        for command in store.fleet().commands.values():
            self._note(command)
        store.subscribe(self._changed)

    def in_turn(
        self, name: NodeId, attempt: Callable[[*Ts], Awaitable[T]], *told: *Ts
    ) -> Awaitable[T]:
        """Return what an attempt to write down a report from around a node returns.

        The nodes of one NVLink domain see the same fault at the same moment, and write about
        the same incident: better one after the other than all but one again.
        """
        node = self._store.fleet().nodes.get(name)
        place = (node.labels.get(NVLINK_LABEL) if node else None) or f"node {name}"
        return self._turns.take(place, attempt, *told)

    async def weigh(self, fleet: Fleet, node: Node, report: HealthReport) -> Weighed:
        """Return what `report` makes of `node`, and of the incidents around it."""
        if node.id in self._familiar and self.is_familiar(fleet, node, report):
            return Weighed(node=node, change=_NOTHING)
        now = self._clock.now()
        is_past = is_of_past_boot(node, report)
        if is_past:
            report = evolve(report, results=tuple(r for r in report.results if r.lasting))
        found = await self._judge(node, report, now)
        news, results = self._sorted_out(found, node, report)
        incidents: Sequence[Incident] = ()
        behind: tuple[Subject, ...] = ()
        if news:
            where = evolve(node, boot_id=report.boot_id) if is_past else node
            findings = [Finding(node=where, result=x.result, at=x.occurrence.at) for x in news]
            incidents = group(self._open.around(fleet, node, findings), findings)
            behind = tuple([about("incident", each.id) for each in incidents if each.is_open])
        if is_past:
            boot = report.boot_id
            after, events = with_past_results(node, results, boot_id=boot, now=now, because=behind)
        else:
            unjudged = self._unjudged(found, node, report)
            after, events = with_results(node, [*results, *unjudged], now=now, because=behind)
            events = [*failure_events(node, after, now), *events] if unjudged else events
        if news:
            events = [*_told(news, incidents, now), *_stories(fleet, incidents, now), *events]
        elif after is node:
            if found and not is_past and all(_is_timeless(item) for item in found):
                here = self._open.on(fleet, node)
                self._familiar[node.id] = _Familiar(report.results, node, found[0].engine, here)
            return Weighed(node=node, change=_NOTHING, found=found)
        change = Change(nodes=[after], incidents=incidents, events=events)
        return Weighed(node=after, change=change, found=found)

    def _sorted_out(
        self, found: Sequence[_Judged], node: Node, report: HealthReport
    ) -> tuple[list[_Judged], Sequence[CheckResult]]:
        """Return what is to be written down, and what the policy makes of the whole report.

        Of what was told of before, nothing is left in either.
        """
        if not found:
            return [], report.results
        news: list[_Judged] = []
        again: set[int] = set()
        results = list(report.results)
        for item in found:
            results[item.place] = item.result
            if _is_told_again(item, node, self._told):
                again.add(item.place)
            elif _is_news(item, node):
                news.append(item)
        if again:
            results = [result for place, result in enumerate(results) if place not in again]
        return news, results

    def _unjudged(
        self, found: Sequence[_Judged], node: Node, report: HealthReport
    ) -> Sequence[CheckResult]:
        """Return what to add to a report because a rule failed on it, or on one before it."""
        failed = [
            (item.result, item.verdict)
            for item in found
            if item.verdict.broken
            and (
                stands_unjudged(node, item.result.check)
                or not _is_told_again(item, node, self._told)
            )
        ]
        if not failed and not any(each.check.startswith(POLICY) for each in node.conditions):
            return ()
        judged = [item.result for item in found if not item.verdict.broken]
        engine = found[0].engine if found else self._policies().of(node.pool)
        return unjudged_results(node, report, failed, judged, engine)

    def is_familiar(self, fleet: Fleet, node: Node, report: HealthReport) -> bool:
        """Return whether `report` says of `node` what was weighed before and changed nothing.

        A machine that is ill says so every few seconds for as long as it is. What is said again
        of a node of which nothing has changed since, under the same policy, comes to nothing
        again, unless its judge counts or looks at the clock.
        """
        known = self._familiar.get(node.id)
        return (
            known is not None
            and known.node is node
            and known.results == report.results
            and not is_of_past_boot(node, report)
            and known.engine is self._policies().of(node.pool)
            and known.incidents == self._open.on(fleet, node)
        )

    async def _judge(self, node: Node, report: HealthReport, now: datetime) -> Sequence[_Judged]:
        """Return what the policy makes of each result that it has a say in, the oldest first."""
        happened = [
            (_moment(result, report, now), place, result)
            for place, result in enumerate(report.results)
            if is_occurrence(result)
        ]
        if not happened:
            return ()
        engine = self._policies().of(node.pool)
        if engine.remembers and self._recalled.get(node.id) is not engine:
            await self._recall(engine, node.id, now)
        phase = machine_phase(
            node,
            now=now,
            boot_grace=engine.policy.boot_grace,
            utilization_pct=self._utilization([node.id])[0],
            asked=self._asked.get(node.id, {}).values(),
        )
        if len(happened) > 1:
            happened.sort()
        found: list[_Judged] = []
        counted: list[Match] = []
        for at, place, result in happened:
            occurrence = Occurrence(result=result, node=node, at=at, phase=phase)
            verdict = engine.judge(occurrence, beside=counted)
            counted += verdict.matches
            if verdict.broken:
                log.warning(
                    "policy.rule_failed",
                    node=node.id,
                    policy=engine.policy.name,
                    rules=verdict.broken,
                )
            seen = apply_verdict(result, verdict, engine.policy)
            found.append(_Judged(occurrence, engine, verdict, seen, place))
        return found

    async def _recall(self, engine: Engine, node: NodeId, now: datetime) -> None:
        """Let a policy that counts catch up with what the journal knows of a node."""
        since = now - engine.policy.memory
        number = 0
        while page := await self._store.events(after=number, about=about("node", node)):
            number = page[-1].number
            for entry in page:
                if entry.event.kind != FINDING or entry.event.at < since:
                    continue
                occurrence = occurrence_of(entry.event)
                if occurrence is not None:
                    engine.note(engine.judge(occurrence))
        self._recalled[node] = engine

    def _note(self, command: Command) -> None:
        asked = self._asked.setdefault(command.node, {})
        asked[command.id] = str(command.kind)
        if command.over:
            del asked[command.id]
        if not asked:
            del self._asked[command.node]

    def _changed(self, committed: Committed) -> None:
        for command in committed.change.commands:
            self._note(command)
        for node in committed.change.nodes:
            self._familiar.pop(node.id, None)
            if node.gone and node.id in self._recalled:
                del self._recalled[node.id]
                self._policies().of(node.pool).windows.forget(node.id)


def is_of_past_boot(node: Node, report: HealthReport) -> bool:
    """Return whether a report tells of a boot of `node` that is over.

    Reports wait on the agent's disk while nobody can be reached, and a machine may boot
    meanwhile. Agents that do not name the boot are taken at their word, as before.
    """
    return bool(report.boot_id and node.boot_id) and report.boot_id != node.boot_id


class OpenIncidents:
    """Which incidents are open, by node and by NVLink domain."""

    def __init__(self, store: Store) -> None:
        self._by_node: dict[NodeId, dict[IncidentId, None]] = {}
        self._by_domain: dict[str, dict[IncidentId, None]] = {}
        for incident in store.fleet().incidents.values():
            self._note(incident)
        store.subscribe(self._changed, about=[Matter.INCIDENTS])

    def on(self, fleet: Fleet, node: Node) -> list[Incident]:
        """Return what is open on a node."""
        names = self._by_node.get(node.id, ())
        return [fleet.incidents[name] for name in names if name in fleet.incidents]

    def around(self, fleet: Fleet, node: Node, findings: Sequence[Finding]) -> list[Incident]:
        """Return what is open on a node, and in its domain if the fabric is at fault."""
        names = dict(self._by_node.get(node.id, {}))
        if self._by_domain:
            for finding in findings:
                if finding.kind is IncidentKind.FABRIC:
                    names |= self._by_domain.get(finding.domain, {})
        return [fleet.incidents[name] for name in names if name in fleet.incidents]

    def _note(self, incident: Incident) -> None:
        for node in incident.nodes:
            _keep(self._by_node, node, incident)
        if incident.domain:
            _keep(self._by_domain, incident.domain, incident)

    def _changed(self, committed: Committed) -> None:
        for incident in committed.change.incidents:
            self._note(incident)


def _keep(index: dict[K, dict[IncidentId, None]], name: K, incident: Incident) -> None:
    kept = index.setdefault(name, {})
    if incident.is_open:
        kept[incident.id] = None
        return
    kept.pop(incident.id, None)
    if not kept:
        del index[name]


def _moment(result: CheckResult, report: HealthReport, now: datetime) -> datetime:
    """Return when something happened: as its witness says, unless that cannot be."""
    said = result.facts.get("at", "")
    if not said and report.at is None:
        return now
    at = report.at or now
    try:
        known = datetime.fromisoformat(said) if said else at
    except ValueError:
        known = at
    if known.tzinfo is None or known > now + AHEAD_MAX:
        return now
    return min(known, now)


def _is_timeless(item: _Judged) -> bool:
    """Return whether the same result would be judged, dated and remembered alike at any moment."""
    said = item.result.facts.get("at", "")
    if said:
        try:
            # One whose date is wrong or still to come is dated anew with every report.
            dated = datetime.fromisoformat(said) == item.occurrence.at
        except ValueError:
            dated = False
        if not dated:
            return False
    return item.verdict.steady and not item.verdict.broken


def _is_told_again(item: _Judged, node: Node, told: SeenSymptoms) -> bool:
    """Return whether the very same event was told of before, and means no more than it did.

    An agent that starts again tells again of what it knows, and one whose NVML comes after its
    kernel log tells of the second witness. Both keep the date of the event.
    """
    at, verdict = item.result.facts.get("at"), item.verdict
    if not item.result.lasting or not at:
        return False
    before = next((c for c in node.conditions if c.check == item.result.check), None)
    if before is not None and before.facts.get("at") == at:
        return (before.health, before.fatal) == (verdict.health, verdict.fatal)
    if verdict.health is not Health.HEALTHY:
        return False
    return told.knows(node.id, item.result.check, item.occurrence.at)


def _is_news(item: _Judged, node: Node) -> bool:
    """Return whether there is something to write down about an occurrence."""
    before = next((c for c in node.conditions if c.check == item.result.check), None)
    if item.result.lasting and (before is None or item.result.facts.get("at")):
        return True
    if item.verdict.health is Health.HEALTHY:
        return False
    return before is None or (before.health, before.fatal) != (
        item.verdict.health,
        item.verdict.fatal,
    )


def _told(news: Iterable[_Judged], incidents: Sequence[Incident], now: datetime) -> list[Event]:
    told: list[Event] = []
    for item in news:
        policy, home = item.engine.policy, _home(incidents, item)
        told.append(finding_event(item.occurrence, item.verdict, policy, now=now, incident=home))
    return told


def _home(incidents: Iterable[Incident], item: _Judged) -> str:
    """Return the name of the open incident that something was made a part of; empty if of none."""
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


def _stories(fleet: Fleet, incidents: Iterable[Incident], now: datetime) -> Iterable[Event]:
    for incident in incidents:
        before = fleet.incidents.get(incident.id)
        if not incident.is_open:
            yield incident_event(incident, "incident.closed", incident.note, now)
        elif before is None:
            wanted = f"; asks for {incident.action}" if incident.action else ""
            reason = f"{incident.kind}: {incident.title}{wanted}"
            yield incident_event(incident, "incident.opened", reason, now)
        elif (before.check, before.node, before.kind) != (
            incident.check,
            incident.node,
            incident.kind,
        ):
            reason = f"the cause is now {incident.kind}: {incident.title}"
            yield incident_event(incident, "incident.changed", reason, now)


def incident_event(incident: Incident, kind: str, reason: str, now: datetime) -> Event:
    """Return the journal's word about an incident."""
    return Event(
        at=now,
        about=about("incident", incident.id),
        kind=kind,
        reason=reason,
        because=(about("node", incident.node),),
        facts={
            "kind": str(incident.kind),
            "node": str(incident.node),
            "state": str(incident.state),
            "action": incident.action,
        },
    )
