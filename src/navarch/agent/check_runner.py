"""Rounds of health checks, and what is written down of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import structlog

from navarch.agent.connection import Contact
from navarch.agent.evidence import EvidenceTaker
from navarch.agent.probe import Probe
from navarch.agent.schedule import News, Schedule
from navarch.agent.settings import Pace
from navarch.agent.signals import Bells
from navarch.agent.spool import Memory, Recall
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


class Look:
    """A GpuReader for one round.

    It shows every check the same list, the same readings and the same events, and remembers
    which events it showed: those, and no later ones, may be settled once the round is written
    down. A GPU, or a driver, that does not answer is not asked again by the next check.
    """

    def __init__(self, reader: GpuReader) -> None:
        self._reader = reader
        self._events: Sequence[GpuEvent] | None = None
        self._keep = False
        self._health: dict[str, GpuHealth | GpuError] = {}
        self._silent: GpuError | None = None
        self.gpus: tuple[Gpu, ...] | None = None
        """What was listed, if anybody asked and the driver answered."""

    @property
    def events_shown(self) -> int:
        """The number up to which events may be settled; zero for none."""
        return self._events[-1].number if self._events and not self._keep else 0

    @property
    def event_count(self) -> int:
        """How many events were shown."""
        return len(self._events or ())

    def keep_events(self) -> None:
        """Settle none: a check that failed may not have told of them."""
        self._keep = True

    def list_gpus(self) -> Sequence[Gpu]:
        """Return every GPU."""
        if self._silent is not None:
            raise self._silent
        if self.gpus is None:
            try:
                self.gpus = tuple(self._reader.list_gpus())
            except GpuError as error:
                self._silent = error
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


class Looks:
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
        contact: Contact,
        recall: Recall,
        probe: Probe,
        bells: Bells,
        pace: Pace,
        evidence: EvidenceTaker | None = None,
    ) -> None:
        self._clock = clock
        self._gpus = gpus
        self._host = host
        self._gpus_expected = gpus_expected
        self._sources = sources
        self._kind = kind
        self._diagnostics = diagnostics
        self._history = History()
        self._contact = contact
        self._recall = recall
        self._probe = probe
        self._bells = bells
        self._check_s = pace.check_s
        self._schedule = Schedule(checks, usual=pace.health_check)
        self._news = News(interval=pace.health_check)
        self._evidence = evidence
        self._turn = asyncio.Lock()
        self.wrote = asyncio.Event()
        """Set once a report is written down."""
        self.told_gpus: tuple[Gpu, ...] | None = None
        """The GPUs that the control plane knows of."""

    async def run(self) -> None:
        """Make every check when it is due, until stopped; the first time at once."""
        while not self._bells.stopping:
            if self._contact.repeat:
                await self._start_over()
            await self.look(self._schedule.due(self._clock.monotonic()))
            due = self._schedule.next_due()
            await self._bells.looks.wait(None if due is None else due - self._clock.monotonic())

    def set_interval(self, interval: timedelta) -> None:
        """Change how often to look and to report."""
        self._schedule.set_usual(interval)
        self._news.set_interval(interval)
        self._bells.looks.ring()

    def look_at_everything(self) -> None:
        """Make every check soon."""
        self._schedule.start_over()
        self._bells.looks.ring()

    def hasten(self, check: str) -> None:
        """Make the check of that name now: there is something for it to see."""
        self._schedule.hasten(check)
        self._bells.looks.ring()

    async def look_now(self) -> list[CheckResult]:
        """Make every check, and return what they found."""
        return await self.look(self._schedule.checks)

    async def look(self, checks: Sequence[HealthCheck]) -> list[CheckResult]:
        """Make `checks`, and write down what they found."""
        async with self._turn:
            look = Look(self._gpus)
            results = [result for check in checks for result in await self._check(check, look)]
            self._news.gather(results, self._clock.monotonic())
            if look.event_count > EVENTS_MAX:
                self._news.hurry()
            await self.mark(results)
            due = self._news.due(self._clock.monotonic())
            if due:
                await self._write_down(due)
                if look.events_shown:
                    # Only now: whoever dies before this line sees them again after a restart.
                    self._gpus.settle(look.events_shown)
            await self._prove(results)
        self._compare(look.gpus)
        return results

    async def report(self, results: Sequence[CheckResult]) -> None:
        """Write down at once what was found outside the rounds."""
        async with self._turn:
            now = self._clock.monotonic()
            self._news.gather(results, now)
            self._news.hurry()
            await self.mark(results)
            due = self._news.due(now)
            if due:
                await self._write_down(due)

    async def everything_is_told(self) -> bool:
        """Return whether the control plane has all that was written down."""
        now = self._clock.now()
        return await self._recall.ask(lambda memory: memory.buffer.oldest_report(now) is None)

    async def tell(self, results: tuple[CheckResult, ...]) -> None:
        """Write down at once what no driver was asked about, whatever round is under way."""
        now = self._clock.now()
        await self._recall.note(lambda memory: memory.write_down(results, at=now))
        self._bells.deliveries.ring()

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Look at nothing meanwhile: what a reset does to the GPUs is not their fault."""
        async with self._turn:
            yield

    async def take_evidence(self, why: str) -> None:
        """Take a bundle because something is about to be changed that it would show."""
        async with self._turn:
            await self._take(why, ())

    async def _prove(self, results: Sequence[CheckResult]) -> None:
        """Take evidence of what was just found, while it is still there to be seen."""
        grave = [] if self._evidence is None else self._evidence.wanted(results)
        if grave:
            reasons = dict.fromkeys(
                result.reason for result in grave
            )  # Two checks may say the same.
            await self._take("; ".join(reasons), grave)

    async def _take(self, why: str, results: Sequence[CheckResult]) -> None:
        taker, node = self._evidence, self._contact.node
        if taker is None:
            return
        try:
            evidence = await self._probe.ask(
                lambda: taker.take(node, why, results), within_s=self._check_s
            )
        except GpuError as error:
            log.warning("agent.no_evidence", node=node, error=str(error))
            return
        await self._recall.note(lambda memory: memory.evidence.add(evidence))
        log.info("agent.evidence", node=node, id=evidence.note.id, bytes=evidence.note.size_bytes)
        self._bells.deliveries.ring()

    async def mark(self, results: Sequence[CheckResult]) -> None:
        """Mark the machine as not ready, or as ready again, where `results` call for it."""
        cut_off = self._contact.lost
        before = self._recall.not_ready
        await self._recall.note(lambda memory: memory.readiness.weigh(results, cut_off=cut_off))
        if self._recall.not_ready != before:
            log.warning(
                "agent.readiness", node=self._contact.node, not_ready=self._recall.not_ready
            )

    async def _start_over(self) -> None:
        """Tell everything again: the one whom we told has forgotten."""

        def repeat_findings(memory: Memory) -> None:
            memory.buffer.lost_reports = True

        await self._recall.ask(repeat_findings)
        self._contact.repeat = False
        self._news.start_over()
        self._schedule.start_over()

    async def _check(self, check: HealthCheck, look: Look) -> list[CheckResult]:
        view = MachineView(
            now=self._clock.now(),
            gpus=look,
            host=self._host,
            gpus_expected=self._gpus_expected,
            sources=self._sources(),
            kind=self._kind,
            history=self._history,
            diagnostics=self._diagnostics,
        )
        try:
            results = await self._probe.ask(lambda: list(check.run(view)), within_s=self._check_s)
        except NavarchError as error:
            look.keep_events()
            results = [_failed(check, Health.UNHEALTHY, str(error))]
        except Exception as error:
            # A broken check is a finding. It is not the end of the agent.
            look.keep_events()
            log.exception("agent.check_broken", node=self._contact.node, check=check.name)
            results = [_failed(check, Health.UNKNOWN, f"the check itself failed: {error!r}")]
        self._schedule.ran(check, results, self._clock.monotonic())
        return results

    async def _write_down(self, results: tuple[CheckResult, ...]) -> None:
        now = self._clock.now()
        await self._recall.note(lambda memory: memory.write_down(results, at=now))
        self._news.told(results, self._clock.monotonic())
        self.wrote.set()
        self._bells.deliveries.ring()
        # Let the report go first: to replace a file for good takes several times as long.
        await self._clock.sleep(0)
        await self._recall.note(lambda memory: memory.findings.add(results))

    def _compare(self, gpus: tuple[Gpu, ...] | None) -> None:
        """Introduce the machine again once its GPUs are not the ones we told of."""
        if gpus is None or self.told_gpus is None or gpus == self.told_gpus:
            return
        log.warning(
            "agent.gpus_changed",
            node=self._contact.node,
            before=len(self.told_gpus),
            after=len(gpus),
        )
        self._contact.changed()
        self._bells.beats.ring()


def _failed(check: HealthCheck, health: Health, reason: str) -> CheckResult:
    return CheckResult(check=check.name, health=health, reason=reason)
