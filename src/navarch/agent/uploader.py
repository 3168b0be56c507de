"""Uploads spooled reports, evidence and metrics to the control plane, in order."""

from dataclasses import dataclass

import structlog

from navarch.agent.connection import Backoff
from navarch.agent.context import AgentContext
from navarch.core.errors import InvalidError, NavarchError, NotFoundError, UnreachableError
from navarch.core.health import HealthReport

log = structlog.get_logger(__name__)

SAMPLES_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Uploader:
    """Sends each report until the control plane accepts it, then deletes it from the spool."""

    context: AgentContext

    async def run(self) -> None:
        """Upload whenever signalled, until stopped."""
        connection, signals = self.context.connection, self.context.signals
        backoff = Backoff(self.context.entropy)
        while not signals.stopping:
            pause = None
            try:
                await self.upload()
                backoff.failures = 0
            except NotFoundError:
                connection.mark_unknown()
                signals.checks.set()
                signals.heartbeat.set()
            except NavarchError as error:
                log.warning("agent.not_delivered", node=connection.node, error=str(error))
                pause = backoff.next_s()
            await signals.uploads.sleep(pause)

    async def upload(self) -> None:
        """Send everything in the spool: health first, oldest first within each kind."""
        connection, clock = self.context.connection, self.context.clock
        link, spool = self.context.link, self.context.spool
        if not (connection.up and connection.registered):
            return
        while report := await spool.run(spool.buffer.oldest_report, clock.now()):
            try:
                status = await link.report_health(connection.node, report)
            except InvalidError as error:
                # It would be refused every time and block every later report.
                log.warning("agent.report_refused", number=report.number, error=str(error))
                status = None
            await spool.try_run(spool.delivered, report, status, now=clock.now())
        while spool.unwritten:
            report = HealthReport(results=spool.unwritten[0], boot_id=self.context.boot_id)
            try:
                await link.report_health(connection.node, report)
            except InvalidError as error:
                log.warning("agent.report_refused", error=str(error))
            spool.unwritten.popleft()

        while waiting := await spool.run(spool.evidence.oldest):
            name, evidence = waiting
            try:
                await link.report_evidence(evidence)
            except UnreachableError:
                raise
            except NavarchError as error:
                log.warning("agent.evidence_refused", id=evidence.note.id, error=str(error))
            await spool.run(spool.evidence.drop, name)

        oldest = spool.buffer.oldest_samples
        while numbered := await spool.run(oldest, clock.now(), SAMPLES_AT_ONCE):
            try:
                await link.report_metrics(connection.node, [sample for _, sample in numbered])
            except UnreachableError:
                raise
            except NavarchError as error:
                # Old metrics are optional; a control plane may refuse them.
                log.debug("agent.samples_refused", node=connection.node, error=str(error))
            last_number, _ = numbered[-1]
            await spool.try_run(spool.buffer.samples.deliver, last_number)
