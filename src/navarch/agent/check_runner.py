"""Rounds of health checks, and what is written down of them."""

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
from navarch.core.health import CheckResult, Health
from navarch.core.history import History
from navarch.core.inventory import Gpu
from navarch.core.machine import MachineKind
from navarch.core.metrics import GpuMetrics
from navarch.ports.checks import EventSource, HealthCheck, MachineView
from navarch.ports.clock import Clock
from navarch.ports.diagnostics import Diagnostics
from navarch.ports.gpu import GpuError, GpuEvent, GpuHealth, GpuReader
from navarch.ports.host import Host

log = structlog.get_logger(__name__)

EVENTS_MAX = 500
"""So many unsettled events are written down at once, lest a storm of them fill the memory."""


class GpuSnapshot:
    """A GpuReader for one round.

    It shows every check the same list, the same readings and the same events, and remembers
    which events it showed: those, and no later ones, may be settled once the round is written
    down. A GPU, or a driver, that does not answer is not asked again by the next check.
    """

    def __init__(self, reader: GpuReader) -> None:
        self._reader = reader
        self._events: Sequence[GpuEvent] | None = None
        self._retain_events = False
        self._health: dict[str, GpuHealth | GpuError] = {}
        self._list_error: GpuError | None = None
        self.gpus: tuple[Gpu, ...] | None = None
        """What was listed, if anybody asked and the driver answered."""

    @property
    def last_event(self) -> int:
        """The number up to which events may be settled; zero for none."""
        return self._events[-1].number if self._events and not self._retain_events else 0

    @property
    def event_count(self) -> int:
        """How many events were shown."""
        return len(self._events or ())

    def retain_events(self) -> None:
        """Settle none: a check that failed may not have told of them."""
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
        """Return what a GPU is doing."""
        return self._reader.metrics(gpu)

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return what a GPU says of its own condition."""
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
        """Return what has happened."""
        if self._events is None:
            self._events = tuple(self._reader.events())
        return self._events

    def settle(self, number: int) -> None:
        """Do nothing: checks only look."""

    def close(self) -> None:
        """Do nothing: checks only look."""


class CheckRunner:
    """Looks at the machine, whether or not anybody can be told."""

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
        """Set once a report is written down."""
        self.registered_gpus: tuple[Gpu, ...] | None = None
        """The GPUs that the control plane knows of."""

    async def run(self) -> None:
        """Make every check when it is due, until stopped; the first time at once."""
        while not self._signals.stopping:
            if self._connection.repeat_reports:
                await self._repeat_everything()
            await self.run_checks(self._schedule.due(self._clock.monotonic()))
            due = self._schedule.next_due()
            await self._signals.checks.wait(None if due is None else due - self._clock.monotonic())

    def set_interval(self, interval: timedelta) -> None:
        """Change how often to look and to report."""
        self._schedule.set_default(interval)
        self._throttle.set_interval(interval)
        self._signals.checks.set()

    def schedule_all(self) -> None:
        """Make every check soon."""
        self._schedule.start_over()
        self._signals.checks.set()

    def schedule_now(self, check: str) -> None:
        """Make the check of that name now: there is something for it to see."""
        self._schedule.schedule_now(check)
        self._signals.checks.set()

    async def run_all(self) -> list[CheckResult]:
        """Make every check, and return what they found."""
        return await self.run_checks(self._schedule.checks)

    async def run_checks(self, checks: Sequence[HealthCheck]) -> list[CheckResult]:
        """Make `checks`, and write down what they found."""
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
                    # Only now: whoever dies before this line sees them again after a restart.
                    self._gpus.settle(snapshot.last_event)
            await self._collect_for(results)
        self._reregister_on_change(snapshot.gpus)
        return results

    async def report(self, results: Sequence[CheckResult]) -> None:
        """Write down at once what was found outside the rounds."""
        async with self._lock:
            now = self._clock.monotonic()
            self._throttle.add(results, now)
            self._throttle.flush_now()
            await self.update_readiness(results)
            due = self._throttle.due(now)
            if due:
                await self._store(due)

    async def all_delivered(self) -> bool:
        """Return whether the control plane has all that was written down."""
        now = self._clock.now()
        return await self._disk_access.run(lambda spool: spool.buffer.oldest_report(now) is None)

    async def report_directly(self, results: tuple[CheckResult, ...]) -> None:
        """Write down at once what no driver was asked about, whatever round is under way."""
        now = self._clock.now()
        await self._disk_access.try_run(lambda spool: spool.add_report(results, at=now))
        self._signals.uploads.set()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Look at nothing meanwhile: what a reset does to the GPUs is not their fault."""
        async with self._lock:
            yield

    async def collect_evidence(self, why: str) -> None:
        """Take a bundle because something is about to be changed that it would show."""
        async with self._lock:
            await self._collect(why, ())

    async def _collect_for(self, results: Sequence[CheckResult]) -> None:
        """Take evidence of what was just found, while it is still there to be seen."""
        grave = [] if self._evidence is None else self._evidence.select(results)
        if grave:
            reasons = dict.fromkeys(
                result.reason for result in grave
            )  # Two checks may say the same.
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
        """Mark the machine as not ready, or as ready again, where `results` call for it."""
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
        """Tell everything again: the one whom we told has forgotten."""

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
            # A broken check is a finding. It is not the end of the agent.
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
        # Let the report go first: to replace a file for good takes several times as long.
        await self._clock.sleep(0)
        await self._disk_access.try_run(lambda spool: spool.findings.add(results))

    def _reregister_on_change(self, gpus: tuple[Gpu, ...] | None) -> None:
        """Introduce the machine again once its GPUs are not the ones we told of."""
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
