"""The control plane as one value, the same in production and in simulation."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

import structlog

from navarch.app.controllers import (
    BUILT_IN,
    ControllerParts,
    CurrentStockouts,
    Opinions,
    build_controllers,
)
from navarch.config.policy import default_policy
from navarch.control.health.stragglers import StragglerController
from navarch.control.health.wear import WearController
from navarch.control.jobs.controller import HeldReadings, JobAwareNotifier
from navarch.control.nodes.bringup import BringUp
from navarch.control.nodes.launch import MissingAgent, UserData
from navarch.control.pools.ledger import Ledger
from navarch.control.pools.loads import Loads
from navarch.control.providers.guard import Providers
from navarch.control.runtime.controller import Controller
from navarch.control.runtime.operations import OperationRunner
from navarch.control.runtime.runtime import Runtime
from navarch.core.health import CheckResult, HealthReport
from navarch.core.ids import NodeId
from navarch.core.inventory import NodeMetrics, Sample
from navarch.core.launch import Offering
from navarch.health.policy.engine import PolicySet, compile_policies
from navarch.ports.alerts import AlertNotifier
from navarch.ports.api import Offer
from navarch.ports.autoscaler import MetricsSource
from navarch.ports.clock import Clock, Entropy
from navarch.ports.liveness import Liveness
from navarch.ports.metrics import Metrics, NoMetrics
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.offload import Offload
from navarch.ports.provider import Provider
from navarch.ports.store import Committed, Store
from navarch.service.agents import AgentService, Timing
from navarch.service.fleet import FleetService, Readings, no_offerings, not_simulated
from navarch.service.jobs import JobService
from navarch.state.index import Index

__all__ = ["LivenessTracker", "Opinions", "Plane", "build_control_plane"]

log = structlog.get_logger(__name__)

T = TypeVar("T")


class LivenessTracker(Liveness, Readings, Protocol):
    """Liveness that is fed by heartbeats."""

    def record_heartbeat(self, node: NodeId, metrics: NodeMetrics | None) -> None:
        """Record that `node` is alive now."""
        ...

    def record_late_samples(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Record earlier readings."""
        ...

    def utilization(self, nodes: Sequence[NodeId]) -> Sequence[float | None]:
        """Return the average over each node's GPUs, in percent; None if it is unknown."""
        ...

    def forget(self, node: NodeId) -> None:
        """Drop a node that is gone."""
        ...


class Plane:
    """Every controller and every use case, around one store."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        store: Store,
        *,
        fleet: FleetService,
        agents: AgentService,
        jobs: JobService,
        controllers: Callable[[OperationRunner], list[Controller]],
        metrics: Metrics,
        strict: bool,
    ) -> None:
        self.fleet = fleet
        self.agents = agents
        self.jobs = jobs
        self.store = store
        self.controllers = controllers
        self._clock = clock
        self._entropy = entropy
        self._metrics = metrics
        self._strict = strict

    async def run(self) -> None:
        """Keep the fleet as it should be, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            operations = OperationRunner(self._clock, self._entropy, tasks, strict=self._strict)
            runtime = Runtime(
                self._clock,
                self._entropy,
                self.controllers(operations),
                strict=self._strict,
                metrics=self._metrics,
            )
            leave = self.store.subscribe(runtime.on_commit)
            try:
                await runtime.run()
            finally:
                leave()


def build_control_plane(
    clock: Clock,
    entropy: Entropy,
    store: Store,
    *,
    providers: Iterable[Provider],
    notifier: WorkloadNotifier,
    liveness: LivenessTracker,
    timing: Callable[[], Timing] = Timing,
    opinions: Opinions | None = None,
    policies: Callable[[], PolicySet] | None = None,
    alerts: Sequence[AlertNotifier] = (),
    metrics_source: MetricsSource | None = None,
    loads: Loads | None = None,
    offerings: Callable[[], Awaitable[Sequence[Offering]]] = no_offerings,
    assortment: Callable[[], Awaitable[Sequence[Offer]]] | None = None,
    inject: Callable[[NodeId, CheckResult], Awaitable[None]] = not_simulated,
    save_readings: Callable[[], Awaitable[None]] | None = None,
    bringup: BringUp | None = None,
    user_data: UserData | None = None,
    missing_agent: MissingAgent = lambda _: None,
    scheduler_offload: Offload | None = None,
    metrics: Metrics | None = None,
    strict: bool = False,
) -> Plane:
    """Return a control plane that is ready to run.

    `missing_agent` returns why no agent would start on the machines of a pool; no machine is
    bought for such a pool. `scheduler_offload` runs the placement of jobs, which may take a moment
    in a large fleet. `strict` lets a bug in a controller or a remediator end the whole process
    instead of one round: right for tests, wrong in production.
    """
    index = Index(store.fleet())
    ledger = Ledger(clock, store)
    default_policies = compile_policies(default_policy())
    offload = scheduler_offload or _Inline()
    opinions = opinions or Opinions()
    stockouts = CurrentStockouts()
    learning: list[WearController | StragglerController] = []

    def on_report(node: NodeId, report: HealthReport) -> None:
        for controller in learning:
            controller.on_report(node, report)

    agents = AgentService(
        clock,
        store,
        index,
        liveness,
        timing=timing,
        policies=policies or (lambda: default_policies),
        utilization=liveness.utilization,
        on_report=on_report,
    )
    wear = WearController(clock, store, agents.note_findings)
    stragglers = StragglerController(
        clock, store, agents.note_findings, interval=lambda: timing().health_check_interval
    )
    learning += [wear, stragglers]

    def on_commit(committed: Committed) -> None:
        """Advance the state that controllers and services share, before any of them reads it."""
        try:
            index.advance(committed)
        except Exception:
            if strict:
                raise
            # A stale index would decide wrongly from now on; a fresh one costs a moment.
            log.exception("index.bug", revision=committed.after.revision)
            index.rebuild(committed.after)
        ledger.on_commit(committed)
        for node in committed.change.nodes:
            if node.gone:
                liveness.forget(node.id)
                agents.ingest.forget(node)

    store.subscribe(on_commit)
    parts = ControllerParts(
        clock=clock,
        entropy=entropy,
        store=store,
        index=index,
        providers=Providers(providers, metrics),
        notifier=JobAwareNotifier(store, notifier),
        liveness=liveness,
        readings=HeldReadings(store, liveness),
        opinions=opinions,
        ledger=ledger,
        stockouts=stockouts,
        learning=learning,
        offload=offload,
        alerts=alerts,
        metrics_source=metrics_source,
        loads=loads,
        save_readings=save_readings,
        bringup=bringup,
        user_data=user_data,
        missing_agent=missing_agent,
        strict=strict,
    )
    return Plane(
        clock,
        entropy,
        store,
        fleet=FleetService(
            clock,
            entropy,
            store,
            liveness,
            offerings=offerings,
            assortment=assortment,
            closed=stockouts.closed,
            obstacle=stockouts.obstacle,
            inject=inject,
            budgets=opinions.budgets,
            ledger=ledger,
            strategies=lambda: (*BUILT_IN, *opinions.remediators),
            missing_agent=missing_agent,
        ),
        agents=agents,
        jobs=JobService(clock, store, offload, opinions.scheduling),
        controllers=lambda operations: build_controllers(parts, operations),
        metrics=metrics or NoMetrics(),
        strict=strict,
    )


class _Inline:
    """Runs calls in the event loop, where there are no threads, as in virtual time."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what `call` returns."""
        return call()
