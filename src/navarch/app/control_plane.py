"""The control plane as one value, the same in production and in simulation."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from navarch.config.policy import default_policy
from navarch.control.housekeeping.alerts import AlertController
from navarch.control.providers.notices import ProviderNoticeController
from navarch.control.pools.autoscaling import AutoscalingController
from navarch.control.health.bad_hosts import BadHostController
from navarch.control.nodes.bringup import BringUp, BringUpController
from navarch.control.pools.budgets import BudgetController
from navarch.control.nodes.commands import CommandController
from navarch.control.nodes.drain import DrainController
from navarch.control.pools.emptiness import EmptinessController
from navarch.control.nodes.liveness import LivenessController
from navarch.control.housekeeping.nodes import HousekeepingController
from navarch.control.health.incidents import IncidentController
from navarch.control.jobs.controller import HeldReadings, JobAwareNotifier, JobController
from navarch.control.nodes.launch import LaunchController, MissingAgent, UserData
from navarch.control.pools.ledger import Ledger
from navarch.control.pools.loads import Loads
from navarch.control.loop import Loop, Reconciler, Turns
from navarch.control.nodes.notification import NotificationController
from navarch.control.providers.inventory import InventoryController
from navarch.control.runtime.operations import OperationRunner
from navarch.control.providers.pending_observations import PendingObservations
from navarch.control.pools.planning import PlanPool, PoolPlanningController
from navarch.control.pools.pool_indexes import PoolIndexes
from navarch.control.providers.guard import Providers
from navarch.control.health.recovery import RecoveryController
from navarch.control.health.remediation import RemediationController
from navarch.control.housekeeping.snapshots import SnapshotController
from navarch.control.pools.stockouts import StockoutMemory
from navarch.control.health.stragglers import StragglerController
from navarch.control.nodes.termination import TerminationController
from navarch.control.providers.topology import TopologyController
from navarch.control.health.wear import WearController
from navarch.core.budget import Budget
from navarch.core.fleet import Change, Fleet
from navarch.core.governor import GovernorSettings, default_settings
from navarch.core.health import CheckResult, HealthReport
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.metrics import NodeMetrics, Sample
from navarch.core.node import Phase
from navarch.core.offering import Offering
from navarch.core.pool import Pool
from navarch.core.remediation import ALERT_ONLY, CORDON_AND_REPLACE, LADDER_STRATEGY
from navarch.fleet.disruption.governor.suspicion import PolicyChange
from navarch.fleet.disruption.unhealthy import AlertOnly, CordonAndReplace, Ladder
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.fleet.plan import Plan
from navarch.fleet.planner import matters_to_size
from navarch.fleet.pool_plan import plan_pool_size
from navarch.fleet.stockouts import SPANS, Spans
from navarch.health.policy.engine import PolicySet, compile_policies
from navarch.ports.alerts import AlertNotifier
from navarch.ports.api import Offer
from navarch.ports.autoscaler import Autoscaler, MetricsSource
from navarch.ports.clock import Clock, Entropy
from navarch.ports.liveness import Liveness
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.offload import Offload
from navarch.ports.provider import Provider
from navarch.ports.provision import ProvisionScheduler
from navarch.ports.remediator import Remediator
from navarch.ports.store import Committed, Store
from navarch.provision.strategies import FirstAvailable
from navarch.service.agents import AgentService, Timing
from navarch.service.fleet import FleetService, Readings, no_offerings, not_simulated
from navarch.service.jobs import JobService

T = TypeVar("T")


class Hearing(Liveness, Readings, Protocol):
    """Liveness that is fed by heartbeats."""

    def heard(self, node: NodeId, metrics: NodeMetrics | None) -> None:
        """Note that `node` is alive now."""
        ...

    def heard_late(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Take readings from before."""
        ...

    def utilization(self, nodes: Sequence[NodeId]) -> Sequence[float | None]:
        """Return the average over each node's GPUs, in percent; None if it never said."""
        ...

    def forget(self, node: NodeId) -> None:
        """Drop a node that is gone."""
        ...


class Plane:
    """Every loop and every use case, around one store."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        store: Store,
        *,
        fleet: FleetService,
        agents: AgentService,
        jobs: JobService,
        reconcilers: Callable[[OperationRunner], list[Reconciler]],
        strict: bool,
    ) -> None:
        self.fleet = fleet
        self.agents = agents
        self.jobs = jobs
        self.store = store
        self._clock = clock
        self._entropy = entropy
        self.reconcilers = reconcilers
        self._strict = strict

    async def run(self) -> None:
        """Keep the fleet as it should be, until cancelled."""
        turns = Turns()
        async with asyncio.TaskGroup() as tasks:
            errands = OperationRunner(
                self._clock, self._entropy, tasks, done=turns.poke, strict=self._strict
            )
            loops = [
                Loop(self._clock, self._entropy, reconciler, strict=self._strict, turns=turns)
                for reconciler in self.reconcilers(errands)
            ]
            leave = self.store.subscribe(lambda _: turns.poke())
            try:
                for loop in loops:
                    tasks.create_task(loop.run())
                await asyncio.get_running_loop().create_future()
            finally:
                leave()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinions:
    """Decisions that can be taken differently: each is a port with a default."""

    provision_scheduler: ProvisionScheduler = field(default_factory=FirstAvailable)
    provision_schedulers: Mapping[PoolName, ProvisionScheduler] = field(default_factory=dict)
    """For pools that have one of their own. Like the autoscalers and the budgets it is looked at
    in every round, so that a reload may change what is in it."""
    remediator: Remediator = field(default_factory=CordonAndReplace)
    """For pools that name none."""
    remediators: Mapping[str, Remediator] = field(default_factory=dict)
    """More that pools may name, besides those built in."""
    governor: Callable[[], GovernorSettings] = default_settings
    """How much automation may do at once; asked again at every round."""
    policy: Callable[[], PolicyChange | None] = lambda: None
    """When the rules of judgement last changed, if they have."""
    autoscalers: Mapping[PoolName, Autoscaler] = field(default_factory=dict)
    autoscale_interval: timedelta = timedelta(seconds=30)
    budgets: Sequence[Budget] = ()
    stockout_spans: Spans = field(default_factory=lambda: SPANS)
    scheduling: Callable[[], Scheduling] = Scheduling
    """How the fleet's own jobs are placed; asked again at every round."""


def build_control_plane(
    clock: Clock,
    entropy: Entropy,
    store: Store,
    *,
    providers: Iterable[Provider],
    notifier: WorkloadNotifier,
    hearing: Hearing,
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
    strict: bool = False,
) -> Plane:
    """Return a control plane that is ready to run.

    `missing_agent` returns why no agent would start on the machines of a pool: nothing is bought
    for such a pool.
    `scheduler_offload` is where jobs are placed, which may take a moment in a large fleet. `strict`
    lets a bug in a loop, or in a remediator, end the whole process instead of only that round:
    right for tests, wrong at three in the morning.
    """
    opinions = opinions or Opinions()
    notifier = JobAwareNotifier(store, notifier)
    readings = HeldReadings(store, hearing)
    scheduler_offload = scheduler_offload or _OnTheSpot()
    ledger = Ledger(clock, store)
    dressed = Providers(providers)
    default_book = compile_policies(default_policy())
    memories: list[StockoutMemory] = []

    def closed(offering: Offering) -> tuple[str, datetime] | None:
        return memories[-1].closed(offering) if memories else None

    def obstacle(pool: PoolName) -> str | None:
        return memories[-1].obstacle(pool) if memories else None

    def overheard(node: NodeId, report: HealthReport) -> None:
        wear.hear(node, report)
        stragglers.hear(node, report)

    agents = AgentService(
        clock,
        store,
        hearing,
        timing=timing,
        policies=policies or (lambda: default_book),
        utilization=hearing.utilization,
        overheard=overheard,
    )
    wear = WearController(clock, store, agents.note_findings)
    stragglers = StragglerController(
        clock, store, agents.note_findings, interval=lambda: timing().health_check_interval
    )

    def reconcilers(errands: OperationRunner) -> list[Reconciler]:
        evidence = PendingObservations(started_at=clock.now())
        budgets = BudgetController(clock, store, opinions.budgets, ledger)
        memory = StockoutMemory(clock, store, vetoes=[budgets.veto], spans=opinions.stockout_spans)
        memories[:] = [memory]

        rolls = PoolIndexes(store)

        def is_scaled(pool: Pool) -> bool:
            asked = pool.name in opinions.autoscalers or pool.autoscaling is not None
            return asked and metrics_source is not None

        async def begin(now: datetime) -> None:
            await budgets.count(now)
            await memory.begin_round(now)

        sizes = PoolPlanningController(
            clock,
            store,
            name="pools",
            plan=_plan_size(entropy, opinions, memory, rolls, dressed, readings, missing_agent),
            begin=begin,
            matters=matters_to_size,
            rolls=rolls,
        )
        memory.look_at = sizes.look_at
        incidents = IncidentController(clock, store)
        bad_hosts = BadHostController(clock, store)

        async def follow(change: Change, fleet: Fleet) -> Change:
            return await bad_hosts.follow(incidents.follow(change, fleet), fleet)

        drains = DrainController(clock, store, notifier, errands, rolls)
        found: list[Reconciler] = [
            RemediationController(
                clock,
                store,
                dressed,
                remediator=_choose_remediator(opinions),
                settings=opinions.governor,
                policy=opinions.policy,
                follow=follow,
                strict=strict,
            ),
            RecoveryController(clock, entropy, store, dressed, notifier, errands),
            sizes,
            drains.planning,
            drains,
            LaunchController(
                clock,
                store,
                dressed,
                errands,
                evidence,
                user_data=user_data,
                missing_agent=missing_agent,
            ),
            TerminationController(clock, store, dressed, errands, evidence),
            NotificationController(clock, store, notifier, errands, is_empty=drains.is_empty),
            LivenessController(clock, store, hearing),
            CommandController(clock, store),
            HousekeepingController(clock, store),
            EmptinessController(clock, store, readings, is_scaled=is_scaled),
            JobController(clock, store, scheduler_offload, scheduling=opinions.scheduling),
            incidents,
            bad_hosts,
            wear,
            stragglers,
            budgets,
        ]
        found += [
            InventoryController(clock, store, provider, hearing, errands, evidence, follow=follow)
            for provider in dressed
        ]
        found += [
            ProviderNoticeController(clock, store, provider)
            for provider in dressed
            if provider.announces
        ]
        found += [
            TopologyController(clock, store, provider)
            for provider in dressed
            if provider.describes_topology
        ]
        found += [AlertController(clock, store, each, errands) for each in alerts]
        if bringup is not None:
            found.append(BringUpController(clock, store, dressed, errands, bringup))
        if save_readings is not None:
            found.append(SnapshotController(clock, save_readings))
        if metrics_source is not None:
            found.append(
                AutoscalingController(
                    clock,
                    store,
                    opinions.autoscalers,
                    metrics_source,
                    readings=readings,
                    interval=opinions.autoscale_interval,
                    loads=loads,
                )
            )
        return found

    store.subscribe(_forget_the_gone(hearing), about=[Phase.GONE])
    return Plane(
        clock,
        entropy,
        store,
        fleet=FleetService(
            clock,
            entropy,
            store,
            hearing,
            offerings=offerings,
            assortment=assortment,
            closed=closed,
            obstacle=obstacle,
            inject=inject,
            budgets=opinions.budgets,
            ledger=ledger,
            strategies=lambda: (*BUILT_IN, *opinions.remediators),
            missing_agent=missing_agent,
        ),
        agents=agents,
        jobs=JobService(clock, store, scheduler_offload, opinions.scheduling),
        reconcilers=reconcilers,
        strict=strict,
    )


class _OnTheSpot:
    """Runs calls where they stand: for whoever has no threads, as in virtual time."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what `call` returns."""
        return call()


BUILT_IN: Mapping[str, Remediator] = {
    CORDON_AND_REPLACE: CordonAndReplace(),
    LADDER_STRATEGY: Ladder(),
    ALERT_ONLY: AlertOnly(),
}
"""The remediators that every pool may name."""


def _choose_remediator(opinions: Opinions) -> Callable[[Pool], Remediator]:
    def choose(pool: Pool) -> Remediator:
        name = pool.remediation.strategy
        if not name:
            return opinions.remediator
        # A name that nobody knows any more: touch nothing rather than the wrong thing.
        return opinions.remediators.get(name) or BUILT_IN.get(name) or BUILT_IN[ALERT_ONLY]

    return choose


def _plan_size(
    entropy: Entropy,
    opinions: Opinions,
    memory: StockoutMemory,
    rolls: PoolIndexes,
    providers: Providers,
    readings: HeldReadings,
    missing_agent: MissingAgent,
) -> PlanPool:
    surveyed = [provider.name for provider in providers if provider.describes_topology]

    def new_tokens() -> Iterator[Token]:
        while True:
            yield Token(entropy.new_id("launch"))

    def loads(names: Sequence[NodeId]) -> dict[NodeId, float]:
        said = zip(names, readings.utilization(names), strict=True)
        return {name: used for name, used in said if used is not None}

    def plan(pool: Pool, now: datetime) -> Plan:
        return plan_pool_size(
            pool,
            rolls.of(pool.name),
            market=memory.market,
            scheduler=opinions.provision_schedulers.get(pool.name, opinions.provision_scheduler),
            surveyed=surveyed,
            loads=loads,
            missing_agent=missing_agent(pool),
            new_tokens=new_tokens(),
            now=now,
        )

    return plan


def _forget_the_gone(hearing: Hearing) -> Callable[[Committed], None]:
    def forget(committed: Committed) -> None:
        for node in committed.change.nodes:
            if node.gone:
                hearing.forget(node.id)

    return forget
