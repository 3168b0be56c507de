"""The spool: everything the agent stores on disk until it is delivered."""

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
    """The stored reports, commands, findings and evidence. Not thread-safe: use `DiskAccess`."""

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
        """Reports that could not be written to disk; sent without a number."""

    def add_report(self, results: tuple[CheckResult, ...], *, at: datetime) -> None:
        """Store a report until it is delivered; after a loss of reports, with all lasting findings.

        The caller stores lasting results in `findings` afterwards. That can wait: `findings` is
        only read after reports were lost.
        """
        if self.buffer.lost_reports:
            again = {result.check: result for result in self.findings.results}
            results = (*again.values(), *(r for r in results if r.check not in again))
        try:
            self.buffer.add_report(results, at=at)
        except DiskError:
            # Sending it without a number risks a duplicate; dropping it would lose the report.
            self.unwritten = [*self.unwritten, results][-UNWRITTEN_MAX:]
            raise
        finally:
            self.buffer.lost_reports = False

    def delivered(self, report: HealthReport, status: str | None, *, now: datetime) -> None:
        """Delete a delivered report; `status` is the node's status in the reply."""
        self.buffer.report_delivered(report.number)
        # ACTIVE only counts once the control plane has received every report.
        if status == NodeStatus.ACTIVE and self.buffer.oldest_report(now) is None:
            self.readiness.clear()

    def clear_findings(self) -> None:
        """Delete all findings, after an operator or the control plane cleared the node."""
        self.findings.clear()
        self.readiness.clear()


class DiskAccess:
    """Runs calls on the spool, one at a time and off the event loop."""

    def __init__(self, spool: Spool, offload: Offload) -> None:
        self._spool = spool
        self._offload = offload

    @property
    def not_ready(self) -> str | None:
        """Why the machine is marked as not ready, if it is."""
        return self._spool.readiness.mark

    async def run(self, call: Callable[[Spool], T]) -> T:
        """Return the result of `call`."""
        return await self._offload.run(lambda: call(self._spool))

    async def try_run(self, write: Callable[[Spool], object]) -> None:
        """Run `write`; log a DiskError instead of raising it."""
        try:
            await self.run(write)
        except DiskError as error:
            log.warning("agent.cannot_write", error=str(error))
