"""Ingest of health reports: evaluates them against the state, and returns what to commit."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar, TypeVarTuple
from weakref import WeakValueDictionary

import msgspec
import structlog

from navarch.control.runtime.controller import retried
from navarch.control.runtime.journal import read_since
from navarch.core.event import about
from navarch.core.fleet import Change, Fleet
from navarch.core.health import POLICY, CheckResult, HealthReport
from navarch.core.ids import NodeId
from navarch.core.incident import IncidentKind
from navarch.core.node import Node
from navarch.core.records import evolve
from navarch.fleet.verdicts import with_past_results, with_results
from navarch.health.evaluate import (
    JudgedResult,
    events_of,
    is_of_past_boot,
    is_repeated,
    judge_results,
    sort_results,
)
from navarch.health.incidents.finding import NVLINK_LABEL, finding_of
from navarch.health.incidents.grouping import group
from navarch.health.policy.engine import Engine, PolicySet
from navarch.health.policy.history import (
    FINDING,
    failure_events,
    is_unjudged,
    occurrence_of,
    unjudged_results,
)
from navarch.health.policy.occurrence import is_occurrence
from navarch.health.policy.policy import machine_phase
from navarch.ports.clock import Clock
from navarch.ports.store import Store
from navarch.state.index import Index

log = structlog.get_logger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Utilization = Callable[[Sequence[NodeId]], Sequence[float | None]]


class IngestResult(msgspec.Struct, frozen=True, kw_only=True):
    """A node after a report, and the change to commit."""

    node: Node
    change: Change
    judged: Sequence[JudgedResult] = ()

    def count(self) -> None:
        """Let the policies count the verdicts, once the change is committed."""
        for item in self.judged:
            item.engine.note(item.verdict)


class HealthIngest:
    """Evaluates reports. It reads the store and commits nothing: its caller does."""

    def __init__(
        self,
        clock: Clock,
        store: Store,
        index: Index,
        *,
        policies: Callable[[], PolicySet],
        utilization: Utilization,
    ) -> None:
        self._clock = clock
        self._store = store
        self._index = index
        self._policies = policies
        self._utilization = utilization
        self._recalled: dict[NodeId, Engine] = {}
        """The engine that has counted a node's past findings."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, name: NodeId, attempt: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Return the result of an attempt to commit a report about a node, retried on conflict.

        The nodes of one NVLink domain see the same fault at the same time and report about the
        same incident: their attempts run one after the other.
        """
        node = self._store.fleet().nodes.get(name)
        key = (node.labels.get(NVLINK_LABEL) if node else None) or f"node {name}"
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            return await retried(attempt)(*args)

    async def evaluate(self, fleet: Fleet, node: Node, report: HealthReport) -> IngestResult:
        """Return what `report` changes about `node` and the incidents around it."""
        now = self._clock.now()
        is_past = is_of_past_boot(node, report)
        if is_past:
            report = evolve(report, results=tuple(r for r in report.results if r.lasting))
        judged = await self._judge(node, report, now)
        new, results = sort_results(judged, node, report, self._index.symptoms.contains)
        then = evolve(node, boot_id=report.boot_id) if is_past else node
        findings = [finding_of(then, item.result, item.occurrence.at) for item in new]
        # The open incidents of the node, and of its domain if the fabric is at fault.
        domains = [each.domain for each in findings if each.kind is IncidentKind.FABRIC]
        incidents = group(self._index.incidents.around(fleet, node.id, domains), findings)
        because = tuple([about("incident", each.id) for each in incidents if each.is_open])
        if is_past:
            after, events = with_past_results(
                node, results, boot_id=report.boot_id, now=now, because=because
            )
        else:
            unjudged = self._unjudged(judged, node, report)
            after, events = with_results(node, [*results, *unjudged], now=now, because=because)
            events = [*failure_events(node, after, now), *events]
        if not new and after is node:
            return IngestResult(node=node, change=Change(), judged=judged)
        change = Change(
            nodes=[after],
            incidents=incidents,
            events=[*events_of(new, incidents, fleet, now), *events],
        )
        return IngestResult(node=after, change=change, judged=judged)

    def forget(self, node: Node) -> None:
        """Drop what is kept about a node that is gone."""
        if self._recalled.pop(node.id, None) is not None:
            self._policies().of(node.pool).windows.forget(node.id)

    def _unjudged(
        self, judged: Sequence[JudgedResult], node: Node, report: HealthReport
    ) -> Sequence[CheckResult]:
        """Return the results to add because a rule failed on this report or on an earlier one."""
        is_recorded = self._index.symptoms.contains
        failed = [
            (item.result, item.verdict)
            for item in judged
            if item.verdict.broken
            and (is_unjudged(node, item.result.check) or not is_repeated(item, node, is_recorded))
        ]
        if not failed and not any(each.check.startswith(POLICY) for each in node.conditions):
            return ()
        sound = [item.result for item in judged if not item.verdict.broken]
        engine = judged[0].engine if judged else self._policies().of(node.pool)
        return unjudged_results(node, report, failed, sound, engine)

    async def _judge(
        self, node: Node, report: HealthReport, now: datetime
    ) -> Sequence[JudgedResult]:
        if not any(map(is_occurrence, report.results)):
            return ()
        engine = self._policies().of(node.pool)
        if engine.remembers and self._recalled.get(node.id) is not engine:
            await self._recall(engine, node.id, now)
        phase = machine_phase(
            node,
            now=now,
            boot_grace=engine.policy.boot_grace,
            utilization_pct=self._utilization([node.id])[0],
            asked=[str(command.kind) for command in self._index.commands.on_node(node.id)],
        )
        judged = judge_results(node, report, engine, phase, now)
        for item in judged:
            if item.verdict.broken:
                log.warning(
                    "policy.rule_failed",
                    node=node.id,
                    policy=engine.policy.name,
                    rules=item.verdict.broken,
                )
        return judged

    async def _recall(self, engine: Engine, node: NodeId, now: datetime) -> None:
        """Let a policy that counts read a node's past findings from the journal."""
        since = now - engine.policy.memory
        for entry in await read_since(self._store, since, about=about("node", node)):
            if entry.event.kind != FINDING:
                continue
            occurrence = occurrence_of(entry.event)
            if occurrence is not None:
                engine.note(engine.judge(occurrence))
        self._recalled[node] = engine
