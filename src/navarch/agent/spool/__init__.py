"""The spool: everything the agent stores on disk until it is delivered."""

from collections import deque
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import ParamSpec, TypeVar

import structlog

from navarch.agent.spool.command_journal import CommandJournal
from navarch.agent.spool.disk import Disk, DiskError
from navarch.agent.spool.findings import Findings, Readiness
from navarch.agent.spool.outbox import EvidenceQueue, ReportBuffer
from navarch.core.health import CheckResult, HealthReport
from navarch.core.node import NodeStatus
from navarch.ports.clock import Offload

log = structlog.get_logger(__name__)
P = ParamSpec("P")
T = TypeVar("T")

UNWRITTEN_MAX = 256


class Spool:
    """The stored reports, commands, findings and evidence.

    Its calls block and are not thread-safe: `run` and `try_run` run them one at a time and off the
    event loop.
    """

    def __init__(
        self,
        disk: Disk,
        offload: Offload,
        *,
        now: datetime,
        boot_id: str,
        new_stream: str,
    ) -> None:
        self._offload = offload
        self.buffer = ReportBuffer(disk, new_stream=new_stream, boot_id=boot_id)
        self.journal = CommandJournal(disk, now)
        self.findings = Findings(disk, boot_id=boot_id)
        self.evidence = EvidenceQueue(disk)
        self.readiness = Readiness(disk, self.findings.results.values())
        self.unwritten: deque[tuple[CheckResult, ...]] = deque(maxlen=UNWRITTEN_MAX)
        """Reports that could not be written to disk; sent without a number. Any thread may use it.
        """

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a call on the spool."""
        return await self._offload.run(partial(call, *args, **kwargs))

    async def try_run(self, write: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run a call on the spool; log a DiskError instead of raising it."""
        try:
            await self._offload.run(partial(write, *args, **kwargs))
        except DiskError as error:
            log.warning("agent.cannot_write", error=str(error))

    def add_report(self, results: tuple[CheckResult, ...], *, at: datetime) -> None:
        """Store a report until it is delivered; after a loss of reports, with all lasting findings.

        The caller stores lasting results in `findings` afterwards. That can wait: `findings` is
        only read after reports were lost.
        """
        if self.buffer.lost_reports:
            again = self.findings.results
            results = (*again.values(), *(r for r in results if r.check not in again))
        try:
            self.buffer.add_report(results, at=at)
        except DiskError:
            # Sending it without a number risks a duplicate; dropping it would lose the report.
            self.unwritten.append(results)
            raise
        finally:
            self.buffer.lost_reports = False

    def repeat_findings(self) -> None:
        """Add all lasting findings to the next report, for a control plane that lost its state."""
        self.buffer.lost_reports = True

    def delivered(self, report: HealthReport, status: str | None, *, now: datetime) -> None:
        """Delete a delivered report; `status` is the node's status in the reply."""
        self.buffer.reports.deliver(report.number)
        # ACTIVE only counts once the control plane has received every report.
        if status == NodeStatus.ACTIVE and self.buffer.oldest_report(now) is None:
            self.readiness.clear()

    def clear_findings(self) -> None:
        """Delete all findings, after an operator or the control plane cleared the node."""
        self.findings.clear()
        self.readiness.clear()
