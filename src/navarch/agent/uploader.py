"""Uploads spooled reports, evidence and metrics to the control plane, in order."""

from functools import partial

import structlog

from navarch.agent.connection import Backoff, ConnectionState
from navarch.agent.signals import Signals
from navarch.agent.spool import DiskAccess, Spool
from navarch.agent.spool.outbox import NumberedSample
from navarch.core.errors import InvalidError, NavarchError, NotFoundError, UnreachableError
from navarch.core.health import CheckResult, HealthReport
from navarch.ports.clock import Clock, Entropy
from navarch.ports.link import Link

log = structlog.get_logger(__name__)

SAMPLES_AT_ONCE = 200


class Uploader:
    """Sends each report until the control plane accepts it, then deletes it from the spool."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        link: Link,
        *,
        connection: ConnectionState,
        disk_access: DiskAccess,
        signals: Signals,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._link = link
        self._connection = connection
        self._disk_access = disk_access
        self._signals = signals

    async def run(self) -> None:
        """Upload whenever signalled, until stopped."""
        backoff = Backoff(self._entropy)
        while not self._signals.stopping:
            pause = None
            try:
                await self.upload()
                backoff.reset()
            except NotFoundError:
                self._connection.mark_unknown()
                self._signals.checks.set()
                self._signals.heartbeat.set()
            except NavarchError as error:
                log.warning("agent.not_delivered", node=self._connection.node, error=str(error))
                pause = backoff.next_s()
            await self._signals.uploads.wait(pause)

    async def upload(self) -> None:
        """Send everything in the spool: health first, oldest first within each kind."""
        if not (self._connection.up and self._connection.registered):
            return
        while report := await self._disk_access.run(self._oldest_report):
            await self._send(report)
        await self._send_unwritten()
        await self._send_evidence()
        await self._send_samples()

    def _oldest_report(self, spool: Spool) -> HealthReport | None:
        return spool.buffer.oldest_report(self._clock.now())

    async def _send(self, report: HealthReport) -> None:
        try:
            status = await self._link.report_health(self._connection.node, report)
        except InvalidError as error:
            # It would be refused every time and block every later report.
            log.warning("agent.report_refused", number=report.number, error=str(error))
            status = None
        now = self._clock.now()
        await self._disk_access.try_run(lambda spool: spool.delivered(report, status, now=now))

    async def _send_unwritten(self) -> None:
        while waiting := await self._disk_access.run(_unwritten):
            try:
                report = HealthReport(results=waiting[0][0], boot_id=waiting[1])
                await self._link.report_health(self._connection.node, report)
            except InvalidError as error:
                log.warning("agent.report_refused", error=str(error))
            await self._disk_access.run(lambda spool: spool.unwritten.pop(0))

    async def _send_evidence(self) -> None:
        while waiting := await self._disk_access.run(lambda spool: spool.evidence.oldest()):
            name, evidence = waiting
            try:
                await self._link.report_evidence(evidence)
            except UnreachableError:
                raise
            except NavarchError as error:
                log.warning("agent.evidence_refused", id=evidence.note.id, error=str(error))
            await self._disk_access.run(partial(_drop_evidence, name))

    async def _send_samples(self) -> None:
        while samples := await self._disk_access.run(self._oldest_samples):
            try:
                await self._link.report_metrics(
                    self._connection.node, [numbered.sample for numbered in samples]
                )
            except UnreachableError:
                raise
            except NavarchError as error:
                # Old metrics are optional; a control plane may refuse them.
                log.debug("agent.samples_refused", node=self._connection.node, error=str(error))
            await self._samples_delivered(samples[-1].number)

    def _oldest_samples(self, spool: Spool) -> list[NumberedSample]:
        return spool.buffer.oldest_samples(self._clock.now(), SAMPLES_AT_ONCE)

    async def _samples_delivered(self, number: int) -> None:
        await self._disk_access.try_run(lambda spool: spool.buffer.samples_delivered(number))


def _unwritten(spool: Spool) -> tuple[list[tuple[CheckResult, ...]], str] | None:
    return (spool.unwritten, spool.boot_id) if spool.unwritten else None


def _drop_evidence(name: str, spool: Spool) -> None:
    spool.evidence.drop(name)
