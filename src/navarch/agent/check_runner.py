"""Runs health checks when they are due and stores their results."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import structlog

from navarch.agent.context import AgentContext
from navarch.agent.evidence import EvidenceCollector
from navarch.agent.schedule import CheckSchedule, ReportThrottle
from navarch.core.errors import NavarchError
from navarch.core.health import CHECK_VERSION, CheckResult, Health, History
from navarch.core.instance import Gpu, GpuMetrics
from navarch.core.records import evolve
from navarch.ports.checks import (
    Diagnostics,
    EventSource,
    HealthCheck,
    MachineView,
    VersionedCheck,
)
from navarch.ports.gpu import GpuError, GpuEvent, GpuHealth, GpuReader

log = structlog.get_logger(__name__)

EVENTS_MAX = 500
"""Above this many unsettled events, results are stored at once to bound memory."""


@dataclass(slots=True, eq=False)
class GpuSnapshot:
    """A GpuReader that caches its first readings for one round of checks.

    Every check sees the same GPUs, health and events. Only the events in the snapshot may be
    settled once the round is stored. A reading that failed is not retried within the round.
    """

    reader: GpuReader
    gpus: tuple[Gpu, ...] | None = None
    """The GPUs, once a check has listed them successfully."""
    events_read: Sequence[GpuEvent] | None = None
    """The events, once a check has read them."""
    retain_events: bool = False
    """Leaves all events unsettled, because a failed check may not have reported them."""
    _health: dict[str, GpuHealth | GpuError] = field(default_factory=dict)
    _list_error: GpuError | None = None

    def list_gpus(self) -> Sequence[Gpu]:
        """Return every GPU."""
        if self._list_error is not None:
            raise self._list_error
        if self.gpus is None:
            try:
                self.gpus = tuple(self.reader.list_gpus())
            except GpuError as error:
                self._list_error = error
                raise
        return self.gpus

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return a GPU's metrics, uncached."""
        return self.reader.metrics(gpu)

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return a GPU's health."""
        if gpu.uuid not in self._health:
            try:
                self._health[gpu.uuid] = self.reader.health(gpu)
            except GpuError as error:
                self._health[gpu.uuid] = error
        found = self._health[gpu.uuid]
        if isinstance(found, GpuError):
            raise found
        return found

    def events(self) -> Sequence[GpuEvent]:
        """Return the unsettled events."""
        if self.events_read is None:
            self.events_read = tuple(self.reader.events())
        return self.events_read

    def settle(self, number: int) -> None:
        """Do nothing; the runner settles events."""

    def close(self) -> None:
        """Do nothing; the snapshot does not own the reader."""


class CheckRunner:
    """Runs checks on their schedule, whether or not the control plane is reachable."""

    def __init__(
        self,
        context: AgentContext,
        checks: Sequence[HealthCheck],
        *,
        diagnostics: Diagnostics | None,
        sources: Callable[[], Sequence[EventSource]],
        evidence: EvidenceCollector | None,
    ) -> None:
        self._context = context
        self._checks = checks
        self._diagnostics = diagnostics
        self._sources = sources
        self._evidence = evidence
        self._history = History()
        interval_s = context.timing.health_check.total_seconds()
        self._schedule = CheckSchedule(checks, default_s=interval_s)
        self._throttle = ReportThrottle(interval_s=interval_s)
        self.lock = asyncio.Lock()
        """Held during a round of checks. A GPU reset holds it, so that no check reports it."""
        self.report_stored = asyncio.Event()
        """Set once the first report is stored."""
        self.registered_gpus: tuple[Gpu, ...] | None = None
        """The GPUs in the last registration."""

    async def run(self) -> None:
        """Run each check when it is due, until stopped; the first round is immediate."""
        clock, signals = self._context.clock, self._context.signals
        while not signals.stopping:
            if self._context.connection.repeat_reports:
                # The control plane lost its state: report everything again.
                await self._context.spool.run(self._context.spool.repeat_findings)
                self._context.connection.repeat_reports = False
                self._throttle.start_over()
                self._schedule.start_over()
            await self.run_checks(self._schedule.due(clock.monotonic()))
            due = self._schedule.next_due()
            await signals.checks.sleep(None if due is None else due - clock.monotonic())

    def set_interval(self, interval: timedelta) -> None:
        """Set the default interval of checks and of reports."""
        self._schedule.default_s = self._throttle.interval_s = interval.total_seconds()
        self._context.signals.checks.set()

    def schedule_all(self) -> None:
        """Schedule every check to run immediately."""
        self._schedule.start_over()
        self._context.signals.checks.set()

    def schedule_now(self, check: str) -> None:
        """Schedule the named check to run immediately."""
        self._schedule.schedule_now(check)
        self._context.signals.checks.set()

    async def run_all(self) -> list[CheckResult]:
        """Run every check now and return the results."""
        return await self.run_checks(self._checks)

    async def run_checks(self, checks: Sequence[HealthCheck]) -> list[CheckResult]:
        """Run `checks`, store what is due for a report, and return the results."""
        async with self.lock:
            snapshot = GpuSnapshot(self._context.gpus)
            results = [result for check in checks for result in await self._check(check, snapshot)]
            self._throttle.add(results, self._context.clock.monotonic())
            events = snapshot.events_read or ()
            if len(events) > EVENTS_MAX:
                self._throttle.urgent = True
            stored = await self._store_due(results)
            if stored and events and not snapshot.retain_events:
                # After the report is stored: events lost in a crash before this are read again.
                self._context.gpus.settle(events[-1].number)
            # Collect evidence for new failures while the state is still present.
            grave = [] if self._evidence is None else self._evidence.select(results)
            if grave:
                # Two checks may give the same reason.
                reasons = dict.fromkeys(result.reason for result in grave)
                await self._collect("; ".join(reasons), grave)
        registered, found = self.registered_gpus, snapshot.gpus
        if registered is not None and found is not None and found != registered:
            log.warning(
                "agent.gpus_changed",
                node=self._context.connection.node,
                before=len(registered),
                after=len(found),
            )
            self._context.connection.registered = False
            self._context.signals.heartbeat.set()
        return results

    async def report(self, results: Sequence[CheckResult]) -> None:
        """Store results from outside the schedule at once."""
        async with self.lock:
            self._throttle.add(results, self._context.clock.monotonic())
            self._throttle.urgent = True
            await self._store_due(results)

    async def collect_evidence(self, why: str) -> None:
        """Collect a bundle before a change destroys the state it shows."""
        async with self.lock:
            await self._collect(why, ())

    async def _collect(self, why: str, results: Sequence[CheckResult]) -> None:
        if self._evidence is None:
            return
        node, spool = self._context.connection.node, self._context.spool
        try:
            evidence = await self._context.probe.call(
                partial(self._evidence.collect, node, why, results),
                within_s=self._context.timing.check_s,
            )
        except GpuError as error:
            log.warning("agent.no_evidence", node=node, error=str(error))
            return
        await spool.try_run(spool.evidence.add, evidence)
        log.info("agent.evidence", node=node, id=evidence.note.id, bytes=evidence.note.size_bytes)
        self._context.signals.uploads.set()

    async def update_readiness(self, results: Sequence[CheckResult]) -> None:
        """Mark the machine as not ready, or ready again, according to `results`."""
        connection, spool = self._context.connection, self._context.spool
        before = spool.readiness.mark
        await spool.try_run(spool.readiness.update, results, cut_off=connection.lost)
        after = spool.readiness.mark
        if after != before:
            log.warning("agent.readiness", node=connection.node, not_ready=after)

    async def _check(self, check: HealthCheck, snapshot: GpuSnapshot) -> list[CheckResult]:
        context = self._context
        view = MachineView(
            now=context.clock.now(),
            gpus=snapshot,
            host=context.host,
            gpus_expected=context.identity.gpus_expected,
            sources=self._sources(),
            kind=context.identity.kind,
            history=self._history,
            diagnostics=self._diagnostics,
        )
        try:
            results = await context.probe.call(
                partial(_run, check, view), within_s=context.timing.check_s
            )
        except NavarchError as error:
            snapshot.retain_events = True
            results = [CheckResult(check=check.name, health=Health.UNHEALTHY, reason=str(error))]
        except Exception as error:
            # A check that raises is a finding; it must not stop the agent.
            snapshot.retain_events = True
            log.exception("agent.check_broken", node=context.connection.node, check=check.name)
            reason = f"the check itself failed: {error!r}"
            results = [CheckResult(check=check.name, health=Health.UNKNOWN, reason=reason)]
        self._schedule.ran(check, results, context.clock.monotonic())
        return results

    async def _store_due(self, results: Sequence[CheckResult]) -> bool:
        """Update the readiness from `results` and store the report if one is due."""
        clock, spool = self._context.clock, self._context.spool
        await self.update_readiness(results)
        due = self._throttle.due(clock.monotonic())
        if not due:
            return False
        await spool.try_run(spool.add_report, due, at=clock.now())
        self._throttle.mark_reported(due, clock.monotonic())
        self.report_stored.set()
        self._context.signals.uploads.set()
        # Let the upload start first: a synced file replacement takes several times as long.
        await clock.sleep(0)
        await spool.try_run(spool.findings.add, due)
        return True


def _run(check: HealthCheck, view: MachineView) -> list[CheckResult]:
    """Return the results of a check, which may be any code."""
    try:
        results = list(check.run(view))
    except (SystemExit, asyncio.CancelledError) as error:
        # Passed on, they would end the agent.
        raise RuntimeError(f"the check raised {error!r}") from error
    for result in results:
        if not _is_result(result):
            raise TypeError(f"{result!r} is no result of a check")
    return [_with_version(result, check) for result in results]


def _is_result(result: object) -> bool:
    if not isinstance(result, CheckResult):
        return False
    health: object = result.health
    texts: tuple[object, ...] = (
        result.check,
        result.reason,
        *result.facts,
        *result.facts.values(),
    )
    return isinstance(health, Health) and all(isinstance(text, str) for text in texts)


def _with_version(result: CheckResult, check: HealthCheck) -> CheckResult:
    """Return `result` with the version of its check, if the check has its own."""
    if not isinstance(check, VersionedCheck) or not check.version:
        return result
    return evolve(result, facts={**result.facts, CHECK_VERSION: check.version})
