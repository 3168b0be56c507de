"""Everything an agent keeps on disk."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

import structlog

from navarch.agent.spool.command_journal import CommandJournal
from navarch.agent.spool.disk import Disk, DiskError
from navarch.agent.spool.findings import Findings, Readiness
from navarch.agent.spool.outbox import AGE_MAX, BYTES_MAX, EvidenceQueue, ReportBuffer
from navarch.core.health import CheckResult, HealthReport
from navarch.core.node import NodeStatus
from navarch.ports.offload import Offload

log = structlog.get_logger(__name__)
T = TypeVar("T")

UNWRITTEN_MAX = 256


class Spool:
    """What is on disk, opened. Its parts are used one call at a time, through `Recall`."""

    def __init__(
        self,
        disk: Disk,
        *,
        now: datetime,
        boot_id: str,
        new_stream: str,
        bytes_max: int = BYTES_MAX,
        age_max: timedelta = AGE_MAX,
    ) -> None:
        self.boot_id = boot_id
        self.buffer = ReportBuffer(
            disk, new_stream=new_stream, boot_id=boot_id, bytes_max=bytes_max, age_max=age_max
        )
        self.journal = CommandJournal(disk)
        self.journal.resume(now)
        self.findings = Findings(disk, boot_id=boot_id)
        self.evidence = EvidenceQueue(disk)
        self.readiness = Readiness(disk)
        self.readiness.recover(self.findings.results)
        self.unwritten: list[tuple[CheckResult, ...]] = []
        """Reports that could not be written to disk: told without a number, if at all."""

    def add_report(self, results: tuple[CheckResult, ...], *, at: datetime) -> None:
        """Keep a report until it is delivered; with what must be told again, if anything.

        What of it lasts is for `findings`, which may wait until the report is on its way: it is
        told from there only after the report has been lost.
        """
        if self.buffer.lost_reports:
            again = {result.check: result for result in self.findings.results}
            results = (*again.values(), *(r for r in results if r.check not in again))
        try:
            self.buffer.add_report(results, at=at)
        except DiskError:
            # Better told twice, or lost with the process, than not told at all.
            self.unwritten = [*self.unwritten, results][-UNWRITTEN_MAX:]
            raise
        finally:
            self.buffer.lost_reports = False

    def delivered(self, report: HealthReport, status: str | None, *, now: datetime) -> None:
        """Let go of a report that the control plane has, which says how the node stands now."""
        self.buffer.report_delivered(report.number)
        # The word of a control plane that has not heard everything counts for nothing.
        if status == NodeStatus.ACTIVE and self.buffer.oldest_report(now) is None:
            self.readiness.clear()

    def clear_findings(self) -> None:
        """Forget what was found: somebody who may has decided that the machine is fine."""
        self.findings.clear()
        self.readiness.clear()


class DiskAccess:
    """The way to an agent's memory: one call after the other, off the event loop."""

    def __init__(self, spool: Spool, offload: Offload) -> None:
        self._spool = spool
        self._offload = offload

    @property
    def not_ready(self) -> str | None:
        """Why the machine is marked as not ready, if it is."""
        return self._spool.readiness.mark

    async def run(self, question: Callable[[Spool], T]) -> T:
        """Return the answer."""
        return await self._offload.run(lambda: question(self._spool))

    async def try_run(self, write: Callable[[Spool], object]) -> None:
        """Write something down that can be made up for later, and go on if that fails."""
        try:
            await self.run(write)
        except DiskError as error:
            log.warning("agent.cannot_write", error=str(error))
