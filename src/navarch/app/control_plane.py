"""The control plane as one value, the same in production and in simulation."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from navarch.app.controllers import BUILT_IN, ControlPlaneParts, LivenessTracker, Opinions
from navarch.config.policy import default_policy
from navarch.control.health.crash_loops import CrashLoopController
from navarch.control.health.stragglers import StragglerController
from navarch.control.health.wear import WearController
from navarch.control.pools.ledger import Ledger
from navarch.control.runtime.commit_metrics import CommitMetrics
from navarch.control.runtime.operations import OperationRunner
from navarch.control.runtime.runtime import Runtime
from navarch.core.budget import Budget
from navarch.core.health import HealthReport
from navarch.core.ids import NodeId, PoolName
from navarch.core.launch import Offering
from navarch.fleet.boot_times import AS_CONFIGURED
from navarch.health.policy.engine import compile_policies
from navarch.ports.api import FailingController
from navarch.ports.store import Committed, Store
from navarch.service.adoption import AdoptionService
from navarch.service.agents import AgentService
from navarch.service.fleet import FleetService
from navarch.service.jobs import JobService
from navarch.service.quotas import TeamQuotas

__all__ = ["LivenessTracker", "Opinions", "Plane"]

log = structlog.get_logger(__name__)


class Plane(ControlPlaneParts):
    """Every controller and every use case, around one store."""

    def __post_init__(self) -> None:
        super().__post_init__()
        default_policies = compile_policies(default_policy())
        self.agents = AgentService(
            self.clock,
            self.store,
            self.index,
            self.liveness,
            timing=self.timing,
            policies=self.policies or (lambda: default_policies),
            utilization=self.liveness.utilization,
            on_report=self._on_report,
            probes=self.peers,
            hosts_max=self.hosts_max,
        )
        note_findings = self.agents.note_findings
        stragglers = StragglerController(
            self.clock,
            self.store,
            note_findings,
            interval=lambda: self.timing().health_check_interval,
        )
        self._readers = (WearController(self.clock, self.store, note_findings), stragglers)
        crash_loops = CrashLoopController(self.clock, self.store, note_findings)
        self.learning = [*self._readers, crash_loops]
        self._runtime: Runtime | None = None
        self.fleet = self.fleet_over(
            self.store, self.ledger, self.opinions.budgets, failing=self.failing
        )
        self.adoption = self.adoption_over(self.store)
        self.jobs = self.jobs_over(self.store)
        self.store.subscribe(self._on_commit)
        self.store.subscribe(CommitMetrics(self.metrics, self.store.fleet()).on_commit)

    def fleet_over(
        self,
        store: Store,
        ledger: Ledger,
        budgets: Sequence[Budget],
        *,
        failing: Callable[[], Sequence[FailingController]] = lambda: (),
        team: str = "",
        quotas: TeamQuotas | None = None,
    ) -> FleetService:
        """Return the use cases of operators for what `store` shows of the fleet.

        `team` is the team of new pools that name none, `quotas` bound the pools of teams.
        """
        return FleetService(
            self.clock,
            self.entropy,
            store,
            self.liveness,
            offerings=self.offerings,
            assortment=self.assortment,
            on_sale=self.on_sale,
            closed=self._closed,
            obstacle=self._obstacle,
            boots=lambda: AS_CONFIGURED if self.boots is None else self.boots.watch,
            inject=self.inject,
            budgets=budgets,
            ledger=ledger,
            strategies=lambda: (*BUILT_IN, *self.opinions.remediators),
            missing_agent=self.missing_agent,
            is_configured=self.is_configured,
            failing=failing,
            team=team,
            quotas=quotas,
        )

    def adoption_over(self, store: Store) -> AdoptionService:
        """Return the use cases of adopted machines for what `store` shows."""
        return AdoptionService(self.clock, self.entropy, store, self.guarded.list_machines)

    def jobs_over(self, store: Store) -> JobService:
        """Return the use cases of jobs for what `store` shows."""
        return JobService(
            self.clock, store, self.index, self.scheduler_offload, self.opinions.scheduling
        )

    def failing(self) -> Sequence[FailingController]:
        """Return the controllers that fail; none before they run."""
        return () if self._runtime is None else (*self._runtime.failing(), *self.guard.failing())

    async def run(self) -> None:
        """Keep the fleet as it should be, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(self.clock, self.entropy, tasks, strict=self.strict)
            self._runtime = runtime = Runtime(
                self.clock,
                self.entropy,
                self.controllers(operations),
                strict=self.strict,
                metrics=self.metrics,
            )
            leave = self.store.subscribe(runtime.on_commit)
            try:
                await runtime.run()
            finally:
                leave()
                self._runtime = None

    def _on_commit(self, committed: Committed) -> None:
        """Advance the state that controllers and services share, before any of them reads it."""
        try:
            self.index.advance(committed)
        except Exception:
            if self.strict:
                raise
            # A stale index would decide wrongly from now on; a fresh one costs a moment.
            log.exception("index.bug", revision=committed.after.revision)
            self.index.rebuild(committed.after)
        self.ledger.on_commit(committed)
        self.guard.on_commit(committed)
        for node in committed.change.nodes:
            if node.gone:
                self.liveness.forget(node.id)
                self.agents.ingest.forget(node)

    def _on_report(self, node: NodeId, report: HealthReport) -> None:
        for controller in self._readers:
            controller.on_report(node, report)

    def _closed(self, offering: Offering) -> tuple[str, datetime] | None:
        return None if self.stockouts is None else self.stockouts.closed(offering)

    def _obstacle(self, pool: PoolName) -> str | None:
        return None if self.stockouts is None else self.stockouts.obstacle(pool)
