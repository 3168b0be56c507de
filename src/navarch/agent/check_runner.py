"""Runs health checks when they are due and stores their results."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import structlog

from navarch.agent.connection import ConnectionState
from navarch.agent.evidence import EvidenceCollector
from navarch.agent.probe import Probe
from navarch.agent.schedule import CheckSchedule, ReportThrottle
from navarch.agent.settings import Timing
from navarch.agent.signals import Signals
from navarch.agent.spool import DiskAccess, Spool
from navarch.core.errors import NavarchError
from navarch.core.health import CheckResult, Health, History
from navarch.core.inventory import Gpu, GpuMetrics, MachineKind
from navarch.ports.checks import EventSource, HealthCheck, MachineView
from navarch.ports.clock import Clock
from navarch.ports.diagnostics import Diagnostics
from navarch.ports.gpu import GpuError, GpuEvent, GpuHealth, GpuReader
from navarch.ports.host import Host

log = structlog.get_logger(__name__)

EVENTS_MAX = 500
"""Above this many unsettled events, results are stored at once to bound memory."""


class GpuSnapshot:
    """A GpuReader that caches its first readings for one round of checks.

    Every check sees the same GPUs, health and events. Only the events in the snapshot may be
    settled once the round is stored. A reading that failed is not retried within the round.
    """

    def __init__(self, reader: GpuReader) -> None:
        self._reader = reader
        self._events: Sequence[GpuEvent] | None = None
        self._retain_events = False
        self._health: dict[str, GpuHealth | GpuError] = {}
        self._list_error: GpuError | None = None
        self.gpus: tuple[Gpu, ...] | None = None
        """The GPUs, once a check has listed them successfully."""

    @property
    def last_event(self) -> int:
        """The number up to which events may be settled; zero if none."""
        return self._events[-1].number if self._events and not self._retain_events else 0

    @property
    def event_count(self) -> int:
        """The number of events in the snapshot."""
        return len(self._events or ())

    def retain_events(self) -> None:
        """Leave all events unsettled, because a failed check may not have reported them."""
        self._retain_events = True

    def list_gpus(self) -> Sequence[Gpu]:
        """Return every GPU."""
        if self._list_error is not None:
            raise self._list_error
        if self.gpus is None:
            try:
                self.gpus = tuple(self._reader.list_gpus())
            except GpuError as error:
                self._list_error = error
                raise
        return self.gpus

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return a GPU's metrics, uncached."""
        return self._reader.metrics(gpu)

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return a GPU's health."""
        if gpu.uuid not in self._health:
            self._health[gpu.uuid] = self._read(gpu)
        found = self._health[gpu.uuid]
        if isinstance(found, GpuError):
            raise found
        return found

    def _read(self, gpu: Gpu) -> GpuHealth | GpuError:
        try:
            return self._reader.health(gpu)
        except GpuError as error:
            return error

    def events(self) -> Sequence[GpuEvent]:
        """Return the unsettled events."""
        if self._events is None:
            self._events = tuple(self._reader.events())
        return self._events

    def settle(self, number: int) -> None:
        """Do nothing; the runner settles events."""

    def close(self) -> None:
        """Do nothing; the snapshot does not own the reader."""


class CheckRunner:
    """Runs checks on their schedule, whether or not the control plane is reachable."""

    def __init__(
        self,
        clock: Clock,
        gpus: GpuReader,
        host: Host,
        checks: Sequence[HealthCheck],
        *,
        gpus_expected: int | None,
        kind: MachineKind | None,
        diagnostics: Diagnostics | None,
        sources: Callable[[], Sequence[EventSource]] = tuple,
        connection: ConnectionState,
        disk_access: DiskAccess,
        probe: Probe,
        signals: Signals,
        timing: Timing,
        evidence: EvidenceCollector | None = None,
    ) -> None:
        self._clock = clock
        self._gpus = gpus
        self._host = host
        self._gpus_expected = gpus_expected
        self._sources = sources
        self._kind = kind
        self._diagnostics = diagnostics
        self._history = History()
        self._connection = connection
        self._disk_access = disk_access
        self._probe = probe
        self._signals = signals
        self._check_s = timing.check_s
        self._schedule = CheckSchedule(checks, default=timing.health_check)
        self._throttle = ReportThrottle(interval=timing.health_check)
        self._evidence = evidence
        self._lock = asyncio.Lock()
        self.report_stored = asyncio.Event()
        """Set once the first report is stored."""
        self.registered_gpus: tuple[Gpu, ...] | None = None
        """The GPUs in the last registration."""

    async def run(self) -> None:
        """Run each check when it is due, until stopped; the first round is immediate."""
        while not self._signals.stopping:
            if self._connection.repeat_reports:
                await self._repeat_everything()
            await self.run_checks(self._schedule.due(self._clock.monotonic()))
            due = self._schedule.next_due()
            await self._signals.checks.wait(None if due is None else due - self._clock.monotonic())

    def set_interval(self, interval: timedelta) -> None:
        """Set the default interval of checks and of reports."""
        self._schedule.set_default(interval)
        self._throttle.set_interval(interval)
        self._signals.checks.set()

    def schedule_all(self) -> None:
        """Schedule every check to run immediately."""
        self._schedule.start_over()
        self._signals.checks.set()

    def schedule_now(self, check: str) -> None:
        """Schedule the named check to run immediately."""
        self._schedule.schedule_now(check)
        self._signals.checks.set()

    async def run_all(self) -> list[CheckResult]:
        """Run every check now and return the results."""
        return await self.run_checks(self._schedule.checks)

    async def run_checks(self, checks: Sequence[HealthCheck]) -> list[CheckResult]:
        """Run `checks`, store what is due for a report, and return the results."""
        async with self._lock:
            snapshot = GpuSnapshot(self._gpus)
            results = [result for check in checks for result in await self._check(check, snapshot)]
            self._throttle.add(results, self._clock.monotonic())
            if snapshot.event_count > EVENTS_MAX:
                self._throttle.flush_now()
            await self.update_readiness(results)
            due = self._throttle.due(self._clock.monotonic())
            if due:
                await self._store(due)
                if snapshot.last_event:
                    # After the report is stored: events lost in a crash before this are read again.
                    self._gpus.settle(snapshot.last_event)
            await self._collect_for(results)
        self._reregister_on_change(snapshot.gpus)
        return results

    async def report(self, results: Sequence[CheckResult]) -> None:
        """Store results from outside the schedule at once."""
        async with self._lock:
            now = self._clock.monotonic()
            self._throttle.add(results, now)
            self._throttle.flush_now()
            await self.update_readiness(results)
            due = self._throttle.due(now)
            if due:
                await self._store(due)

    async def all_delivered(self) -> bool:
        """Return whether the control plane has received every stored report."""
        now = self._clock.now()
        return await self._disk_access.run(lambda spool: spool.buffer.oldest_report(now) is None)

    async def report_directly(self, results: tuple[CheckResult, ...]) -> None:
        """Store results without waiting for a round in progress, which a hung driver may block."""
        now = self._clock.now()
        await self._disk_access.try_run(lambda spool: spool.add_report(results, at=now))
        self._signals.uploads.set()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Run no checks inside the block, so that a GPU reset is not reported as a failure."""
        async with self._lock:
            yield

    async def collect_evidence(self, why: str) -> None:
        """Collect a bundle before a change destroys the state it shows."""
        async with self._lock:
            await self._collect(why, ())

    async def _collect_for(self, results: Sequence[CheckResult]) -> None:
        """Collect evidence for new failures while the state is still present."""
        grave = [] if self._evidence is None else self._evidence.select(results)
        if grave:
            # Two checks may give the same reason.
            reasons = dict.fromkeys(result.reason for result in grave)
            await self._collect("; ".join(reasons), grave)

    async def _collect(self, why: str, results: Sequence[CheckResult]) -> None:
        collector, node = self._evidence, self._connection.node
        if collector is None:
            return
        try:
            evidence = await self._probe.call(
                lambda: collector.collect(node, why, results), within_s=self._check_s
            )
        except GpuError as error:
            log.warning("agent.no_evidence", node=node, error=str(error))
            return
        await self._disk_access.try_run(lambda spool: spool.evidence.add(evidence))
        log.info("agent.evidence", node=node, id=evidence.note.id, bytes=evidence.note.size_bytes)
        self._signals.uploads.set()

    async def update_readiness(self, results: Sequence[CheckResult]) -> None:
        """Mark the machine as not ready, or ready again, according to `results`."""
        cut_off = self._connection.lost
        before = self._disk_access.not_ready
        await self._disk_access.try_run(
            lambda spool: spool.readiness.update(results, cut_off=cut_off)
        )
        if self._disk_access.not_ready != before:
            log.warning(
                "agent.readiness", node=self._connection.node, not_ready=self._disk_access.not_ready
            )

    async def _repeat_everything(self) -> None:
        """Report everything again to a control plane that lost its state."""

        def repeat_findings(spool: Spool) -> None:
            spool.buffer.lost_reports = True

        await self._disk_access.run(repeat_findings)
        self._connection.repeat_reports = False
        self._throttle.start_over()
        self._schedule.start_over()

    async def _check(self, check: HealthCheck, snapshot: GpuSnapshot) -> list[CheckResult]:
        view = MachineView(
            now=self._clock.now(),
            gpus=snapshot,
            host=self._host,
            gpus_expected=self._gpus_expected,
            sources=self._sources(),
            kind=self._kind,
            history=self._history,
            diagnostics=self._diagnostics,
        )
        try:
            results = await self._probe.call(lambda: list(check.run(view)), within_s=self._check_s)
        except NavarchError as error:
            snapshot.retain_events()
            results = [_failed(check, Health.UNHEALTHY, str(error))]
        except Exception as error:
            # A check that raises is a finding; it must not stop the agent.
            snapshot.retain_events()
            log.exception("agent.check_broken", node=self._connection.node, check=check.name)
            results = [_failed(check, Health.UNKNOWN, f"the check itself failed: {error!r}")]
        self._schedule.ran(check, results, self._clock.monotonic())
        return results

    async def _store(self, results: tuple[CheckResult, ...]) -> None:
        now = self._clock.now()
        await self._disk_access.try_run(lambda spool: spool.add_report(results, at=now))
        self._throttle.mark_reported(results, self._clock.monotonic())
        self.report_stored.set()
        self._signals.uploads.set()
        # Let the upload start first: a synced file replacement takes several times as long.
        await self._clock.sleep(0)
        await self._disk_access.try_run(lambda spool: spool.findings.add(results))

    def _reregister_on_change(self, gpus: tuple[Gpu, ...] | None) -> None:
        """Register again if the GPUs differ from those of the last registration."""
        if gpus is None or self.registered_gpus is None or gpus == self.registered_gpus:
            return
        log.warning(
            "agent.gpus_changed",
            node=self._connection.node,
            before=len(self.registered_gpus),
            after=len(gpus),
        )
        self._connection.require_registration()
        self._signals.heartbeat.set()


def _failed(check: HealthCheck, health: Health, reason: str) -> CheckResult:
    return CheckResult(check=check.name, health=health, reason=reason)
