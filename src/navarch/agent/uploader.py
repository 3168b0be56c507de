"""What is kept on disk goes to the control plane from here, in order."""

from functools import partial

import structlog

from navarch.agent.connection import Backoff, Contact
from navarch.agent.signals import Bells
from navarch.agent.spool import Memory, Recall
from navarch.agent.spool.outbox import NumberedSample
from navarch.core.errors import InvalidError, NavarchError, NotFoundError, UnreachableError
from navarch.core.health import CheckResult, HealthReport
from navarch.ports.clock import Clock, Entropy
from navarch.ports.link import Link

log = structlog.get_logger(__name__)

SAMPLES_AT_ONCE = 200


class Deliveries:
    """Sends each report until the control plane has it, and only then lets go of it."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        link: Link,
        *,
        contact: Contact,
        recall: Recall,
        bells: Bells,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._link = link
        self._contact = contact
        self._recall = recall
        self._bells = bells

    async def run(self) -> None:
        """Deliver whenever there is something, and somebody to deliver it to."""
        backoff = Backoff(self._entropy)
        while not self._bells.stopping:
            pause = None
            try:
                await self.deliver()
                backoff.reset()
            except NotFoundError:
                self._contact.forgotten()
                self._bells.looks.ring()
                self._bells.beats.ring()
            except NavarchError as error:
                log.warning("agent.not_delivered", node=self._contact.node, error=str(error))
                pause = backoff.next_s()
            await self._bells.deliveries.wait(pause)

    async def deliver(self) -> None:
        """Send everything that is kept, health first, each kind oldest first."""
        if not (self._contact.up and self._contact.registered):
            return
        while report := await self._recall.ask(self._oldest_report):
            await self._send(report)
        await self._send_unwritten()
        await self._send_evidence()
        await self._send_samples()

    def _oldest_report(self, memory: Memory) -> HealthReport | None:
        return memory.buffer.oldest_report(self._clock.now())

    async def _send(self, report: HealthReport) -> None:
        try:
            status = await self._link.report_health(self._contact.node, report)
        except InvalidError as error:
            # It would be refused for ever, and everything behind it would wait for ever.
            log.warning("agent.report_refused", number=report.number, error=str(error))
            status = None
        now = self._clock.now()
        await self._recall.note(lambda memory: memory.delivered(report, status, now=now))

    async def _send_unwritten(self) -> None:
        while waiting := await self._recall.ask(_unwritten):
            try:
                report = HealthReport(results=waiting[0][0], boot_id=waiting[1])
                await self._link.report_health(self._contact.node, report)
            except InvalidError as error:
                log.warning("agent.report_refused", error=str(error))
            await self._recall.ask(lambda memory: memory.unwritten.pop(0))

    async def _send_evidence(self) -> None:
        while waiting := await self._recall.ask(lambda memory: memory.evidence.oldest()):
            name, evidence = waiting
            try:
                await self._link.report_evidence(evidence)
            except UnreachableError:
                raise
            except NavarchError as error:
                log.warning("agent.evidence_refused", id=evidence.note.id, error=str(error))
            await self._recall.ask(partial(_drop_evidence, name))

    async def _send_samples(self) -> None:
        while samples := await self._recall.ask(self._oldest_samples):
            try:
                await self._link.report_metrics(
                    self._contact.node, [numbered.sample for numbered in samples]
                )
            except UnreachableError:
                raise
            except NavarchError as error:
                # Old readings are nice to have; a control plane need not want them.
                log.debug("agent.samples_refused", node=self._contact.node, error=str(error))
            await self._samples_delivered(samples[-1].number)

    def _oldest_samples(self, memory: Memory) -> list[NumberedSample]:
        return memory.buffer.oldest_samples(self._clock.now(), SAMPLES_AT_ONCE)

    async def _samples_delivered(self, number: int) -> None:
        await self._recall.note(lambda memory: memory.buffer.samples_delivered(number))


def _unwritten(memory: Memory) -> tuple[list[tuple[CheckResult, ...]], str] | None:
    return (memory.unwritten, memory.boot_id) if memory.unwritten else None


def _drop_evidence(name: str, memory: Memory) -> None:
    memory.evidence.drop(name)
