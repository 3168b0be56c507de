"""Reports of machines that boot: they extend the wait for the agent, and show what is awaited."""

from navarch.control.runtime.controller import retried
from navarch.core.boot_report import BootReport
from navarch.core.errors import NotFoundError
from navarch.fleet.bringup import reported
from navarch.ports.clock import Clock
from navarch.ports.store import Store
from navarch.service.pace import ReportPace

REPORT_COST_S = 1.0
"""The part of a node's time that a report takes: thirty at once, then one a second."""


class BootReportService:
    """Records the steps of machines whose agents have not registered yet."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock = clock
        self._store = store
        self._pace = ReportPace(clock)

    async def report_boot(self, report: BootReport) -> None:
        """Record a step. One of a node that no longer boots has no effect."""
        if report.node not in self._store.fleet().nodes:
            raise NotFoundError(f"no node {report.node}")
        await self._pace.spend(report.node, REPORT_COST_S)
        await self._record(report)

    @retried
    async def _record(self, report: BootReport) -> None:
        fleet = self._store.fleet()
        node = fleet.nodes.get(report.node)
        change = None if node is None else reported(node, report, now=self._clock.now())
        if change is not None:
            await self._store.commit(change, based_on=fleet.revision)
