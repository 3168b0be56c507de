"""The controllers of a control plane, in the order in which their rounds start."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Protocol, TypeVar

from navarch.control.alerts import AlertController, AlertSetup, OutboxController
from navarch.control.extension_news import ExtensionNewsController
from navarch.control.health.bad_hosts import BadHostController
from navarch.control.health.incidents import IncidentController
from navarch.control.health.peers import PeerWitness
from navarch.control.health.recovery import RecoveryController
from navarch.control.health.remediation import RemediationController
from navarch.control.health.witnesses import (
    DeadManWitness,
    ProviderWitness,
    WitnessController,
    WorkloadWitness,
)
from navarch.control.housekeeping import (
    HostRetentionController,
    HousekeepingController,
    SnapshotController,
)
from navarch.control.jobs import HeldReadings, JobAwareNotifier, JobController
from navarch.control.nodes.bringup import BringUp, BringUpController
from navarch.control.nodes.controller import CommandController
from navarch.control.nodes.drain import DrainController, NotificationController, plan_drains_of
from navarch.control.nodes.launch import LaunchController, MissingAgent, UserData
from navarch.control.nodes.liveness import LivenessController
from navarch.control.nodes.marks import MarkController
from navarch.control.nodes.termination import TerminationController
from navarch.control.nodes.workloads import GuardedWorkloads
from navarch.control.pools.autoscaling import AutoscalingController
from navarch.control.pools.boots import BootMemory
from navarch.control.pools.budgets import BudgetController
from navarch.control.pools.emptiness import EmptinessController
from navarch.control.pools.ledger import Ledger
from navarch.control.pools.loads import Loads
from navarch.control.pools.loads import Readings as Utilizations
from navarch.control.pools.scoring import GuardedProvisionScheduler
from navarch.control.pools.sizing import SizingController
from navarch.control.pools.stockouts import StockoutMemory
from navarch.control.providers.guard import Providers
from navarch.control.providers.inventory import InventoryController, PendingObservations
from navarch.control.providers.topology import ProviderNoticeController, TopologyController
from navarch.control.retention import RetentionController
from navarch.control.runtime.controller import Controller
from navarch.control.runtime.extensions import ExtensionGuard
from navarch.control.runtime.operations import OperationRunner
from navarch.core.budget import Budget
from navarch.core.disruption import GovernorSettings, default_settings
from navarch.core.fleet import Change, Fleet
from navarch.core.health import CheckResult
from navarch.core.ids import NodeId, PoolName, ProviderName
from navarch.core.launch import Offering
from navarch.core.limits import HOSTS
from navarch.core.pool import Pool
from navarch.core.recovery import ALERT_ONLY, CORDON_AND_REPLACE, LADDER_STRATEGY
from navarch.core.retention import Retention
from navarch.core.witness import PeerProbes
from navarch.fleet.disruption.governor.common_cause import PolicyChange
from navarch.fleet.disruption.unhealthy import AlertOnly, CordonAndReplace, Ladder
from navarch.fleet.host_retention import KEEP_HOSTS
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.fleet.stockouts import SPANS, Spans
from navarch.health.policy.engine import PolicySet
from navarch.ports.agents import Liveness
from navarch.ports.api import FailingController, Offer
from navarch.ports.autoscaler import Autoscaler, MetricsSource
from navarch.ports.clock import Clock, Entropy, Offload
from navarch.ports.evidence import AgingFiles
from navarch.ports.metrics import Metrics, NoMetrics
from navarch.ports.notifier import ReportsNodes, WorkloadNotifier
from navarch.ports.provider import Provider, ProvisionScheduler
from navarch.ports.remediator import Remediator
from navarch.ports.store import Store
from navarch.ports.witness import Witness
from navarch.provision import FirstAvailable
from navarch.service.agents import LivenessSink, Timing
from navarch.service.fleet import Readings, no_offerings, not_simulated
from navarch.service.specs import OnSale
from navarch.state.index import Index

T = TypeVar("T")

BUILT_IN: Mapping[str, Remediator] = {
    CORDON_AND_REPLACE: CordonAndReplace(),
    LADDER_STRATEGY: Ladder(),
    ALERT_ONLY: AlertOnly(),
}
"""The remediators that every pool may name."""

RETENTION = Retention()


class _Inline:
    """Runs calls in the event loop, where there are no threads, as in virtual time."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return what `call` returns."""
        return call()


class LivenessTracker(Liveness, LivenessSink, Readings, Utilizations, Protocol):
    """Liveness that is fed by heartbeats."""

    def forget(self, node: NodeId) -> None:
        """Drop a node that is gone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinions:
    """Decisions that can be replaced: each is a port with a default."""

    provision_scheduler: ProvisionScheduler = field(default_factory=FirstAvailable)
    provision_schedulers: Mapping[PoolName, ProvisionScheduler] = field(default_factory=dict)
    """Schedulers of single pools. Like the autoscalers and the budgets they are read in every
    round, so that a reload may change them."""
    remediator: Remediator = field(default_factory=CordonAndReplace)
    """The remediator of pools that name none."""
    remediators: Mapping[str, Remediator] = field(default_factory=dict)
    """Further remediators that pools may name."""
    governor: Callable[[], GovernorSettings] = default_settings
    """The limits of automation, read in every round."""
    policy: Callable[[], PolicyChange | None] = lambda: None
    """The last change of the health policy, if there was one."""
    autoscalers: Mapping[PoolName, Autoscaler] = field(default_factory=dict)
    autoscale_interval: timedelta = timedelta(seconds=30)
    budgets: Sequence[Budget] = ()
    stockout_spans: Spans = field(default_factory=lambda: SPANS)
    scheduling: Callable[[], Scheduling] = Scheduling
    """How jobs are placed, read in every round."""


@dataclass(eq=False)
class ControlPlaneParts:
    """What a control plane is built from, and the controllers that are built from it."""

    clock: Clock
    entropy: Entropy
    store: Store
    _: KW_ONLY
    providers: Iterable[Provider]
    notifier: WorkloadNotifier
    liveness: LivenessTracker
    timing: Callable[[], Timing] = Timing
    opinions: Opinions = field(default_factory=Opinions)
    policies: Callable[[], PolicySet] | None = None
    alerts: AlertSetup | None = None
    """How alerts reach people; None in simulations, which need none."""
    metrics_source: MetricsSource | None = None
    loads: Loads | None = None
    offerings: Callable[[], Awaitable[Sequence[Offering]]] = no_offerings
    assortment: Callable[[], Awaitable[Sequence[Offer]]] | None = None
    on_sale: Callable[[], Awaitable[Mapping[ProviderName, OnSale]]] | None = None
    inject: Callable[[NodeId, CheckResult], Awaitable[None]] = not_simulated
    save_readings: Callable[[], Awaitable[None]] | None = None
    bringup: BringUp | None = None
    user_data: UserData | None = None
    missing_agent: MissingAgent = lambda _: None
    """Returns why no agent would start on the machines of a pool; no machine is bought for such a
    pool."""
    is_configured: Callable[[PoolName], bool] = lambda _: False
    """Whether the configuration file decides what a pool buys."""
    own_user_data: Callable[[Pool], bool] | None = None
    """Whether `user_data` differs between the machines of a pool, which then cannot share a call;
    None: in every pool without user data of its own."""
    scheduler_offload: Offload = field(default_factory=_Inline)
    """Runs the placement of jobs, which may take a moment in a large fleet."""
    peer_probes: Callable[[], PeerProbes] = PeerProbes
    """How nodes probe others that are silent, read in every round."""
    on_probe: Callable[[NodeId], None] = lambda _: None
    """Called with each node that is to probe others."""
    host_retention: Callable[[], timedelta | None] = lambda: KEEP_HOSTS
    """How long silent hosts that registered by themselves are kept; None for ever."""
    retention: Callable[[], Retention] = lambda: RETENTION
    """How long history is kept, read in every round."""
    old_evidence: AgingFiles | None = None
    """Evidence and bring-up logs as files; None where there are none, as in virtual time."""
    old_logs: AgingFiles | None = None
    hosts_max: Callable[[], int] = lambda: HOSTS.most
    """How many hosts may register by themselves."""
    metrics: Metrics = field(default_factory=NoMetrics)
    strict: bool = False
    """Lets a bug in a controller or a remediator end the whole process instead of one round: right
    for tests, wrong in production."""

    def __post_init__(self) -> None:
        self.index = Index(self.store.fleet())
        self.ledger = Ledger(self.clock, self.store)
        self.guard = ExtensionGuard(self.clock.now, self.metrics)
        self.guarded = Providers(
            self.providers, self.metrics, self.guard, confirm=self.store.confirm
        )
        self.workloads = JobAwareNotifier(self.index, GuardedWorkloads(self.guard, self.notifier))
        self.readings = HeldReadings(self.index, self.liveness)
        self.stockouts: StockoutMemory | None = None
        """Of the running controllers; None before they run."""
        self.boots: BootMemory | None = None
        """The same."""
        self.peers = PeerWitness(
            self.clock,
            self.entropy,
            self.store,
            self.index,
            self.liveness,
            settings=self.peer_probes,
            heartbeat_interval=lambda: self.timing().heartbeat_interval,
            on_issue=self.on_probe,
        )
        self.learning: list[Controller] = []
        """The controllers that judge nodes by what has been reported over time."""

    def failing(self) -> Sequence[FailingController]:
        """Return the controllers that fail; none before they run."""
        return ()

    def is_alone(self, pool: Pool) -> bool:
        """Return whether each machine of `pool` takes a call of its own."""
        if self.user_data is None or pool.user_data.strip():
            return False
        return self.own_user_data is None or self.own_user_data(pool)

    def controllers(self, operations: OperationRunner) -> list[Controller]:
        """Return the controllers: those that decide before those that act."""
        clock, store, opinions = self.clock, self.store, self.opinions
        observations = PendingObservations(started_at=clock.now())
        incidents = IncidentController(clock, store, self.index)
        bad_hosts = BadHostController(clock, store)

        async def hook(change: Change, fleet: Fleet) -> Change:
            return await bad_hosts.hook(incidents.hook(change, fleet), fleet)

        remediation = RemediationController(
            clock,
            store,
            self.index,
            self.guarded,
            remediator=self._remediator,
            settings=opinions.governor,
            policy=opinions.policy,
            hook=hook,
            guard=self.guard,
            strict=self.strict,
        )
        budgets = BudgetController(clock, store, opinions.budgets, self.ledger, self.metrics)
        return [
            remediation,
            RecoveryController(
                clock, self.entropy, store, self.guarded, self.workloads, operations
            ),
            self._sizing(budgets),
            *self._node_controllers(operations, observations),
            HousekeepingController(clock, store),
            HostRetentionController(clock, store, self.host_retention),
            RetentionController(
                clock, store, self.retention, evidence=self.old_evidence, logs=self.old_logs
            ),
            EmptinessController(clock, store, self.readings, is_scaled=self._is_scaled),
            JobController(
                clock,
                store,
                self.scheduler_offload,
                self.index,
                scheduling=opinions.scheduling,
            ),
            incidents,
            bad_hosts,
            *self.learning,
            budgets,
            *[
                InventoryController(
                    clock, store, provider, self.liveness, operations, observations, hook=hook
                )
                for provider in self.guarded
            ],
            *self._optional_controllers(operations, budgets),
        ]

    def _sizing(self, budgets: BudgetController) -> SizingController:
        self.stockouts = StockoutMemory(
            self.clock,
            self.store,
            vetoes=[budgets.veto],
            spans=self.opinions.stockout_spans,
            machines_per_call=self.guarded.machines_per_call,
            covering_zones=self.guarded.covering_zones,
            alone=self.is_alone,
        )
        self.boots = BootMemory(self.clock, self.store)
        return SizingController(
            self.clock,
            self.entropy,
            self.store,
            self.index,
            self.guarded,
            budgets=budgets,
            stockouts=self.stockouts,
            boots=self.boots,
            scheduler=self._provision_scheduler,
            readings=self.readings,
            missing_agent=self.missing_agent,
            settings=self.opinions.governor,
        )

    def _provision_scheduler(self, pool: PoolName) -> ProvisionScheduler:
        opinions = self.opinions
        found = opinions.provision_schedulers.get(pool, opinions.provision_scheduler)
        return GuardedProvisionScheduler(self.guard, found)

    def _node_controllers(
        self, operations: OperationRunner, observations: PendingObservations
    ) -> list[Controller]:
        clock, store = self.clock, self.store
        drain = DrainController(clock, store, self.workloads, operations)
        assert self.stockouts is not None, "sizing comes first"
        launch = LaunchController(
            clock,
            store,
            self.guarded,
            operations,
            observations,
            user_data=self.user_data,
            missing_agent=self.missing_agent,
            refused_since=self.stockouts.refused_since,
            alone=self.is_alone,
        )
        return [
            plan_drains_of(clock, store, self.index, drain),
            drain,
            launch,
            TerminationController(clock, store, self.guarded, operations, observations),
            NotificationController(
                clock, store, self.workloads, operations, is_empty=drain.is_empty
            ),
            LivenessController(clock, store, self.liveness),
            WitnessController(
                clock, store, self.liveness, operations, self._witnesses(), guard=self.guard
            ),
            MarkController(clock, store, self.guarded, operations),
            CommandController(clock, store),
        ]

    def _optional_controllers(
        self, operations: OperationRunner, budgets: BudgetController
    ) -> list[Controller]:
        """Return the controllers of what a provider or an operator may leave out."""
        clock, store, providers = self.clock, self.store, self.guarded
        found: list[Controller] = []
        found += [ProviderNoticeController(clock, store, x) for x in providers if x.announces]
        found += [TopologyController(clock, store, x) for x in providers if x.describes_topology]
        if self.alerts is not None:
            found += [
                AlertController(
                    clock,
                    store,
                    self.alerts,
                    spending=lambda: budgets.spending,
                    failing=self.failing,
                ),
                OutboxController(
                    clock,
                    self.entropy,
                    store,
                    self.alerts,
                    operations,
                    self.metrics,
                    guard=self.guard,
                ),
            ]
        if self.bringup is not None:
            found.append(BringUpController(clock, store, providers, operations, self.bringup))
        if self.save_readings is not None:
            found.append(SnapshotController(clock, store, self.save_readings))
        if self.metrics_source is not None:
            autoscaling = AutoscalingController(
                clock,
                store,
                self.opinions.autoscalers,
                self.metrics_source,
                readings=self.readings,
                interval=self.opinions.autoscale_interval,
                loads=self.loads,
                guard=self.guard,
            )
            found.append(autoscaling)
        found.append(ExtensionNewsController(clock, store, self.guard))
        return found

    def _witnesses(self) -> list[Witness]:
        found: list[Witness] = [ProviderWitness(x) for x in self.guarded if x.checks_instances]
        if isinstance(self.notifier, ReportsNodes):
            found.append(WorkloadWitness(self.workloads.name, self.notifier))
        leases = DeadManWitness(self.clock, self.store, self.liveness)
        return [*found, self.peers, leases]

    def _is_scaled(self, pool: Pool) -> bool:
        configured = pool.name in self.opinions.autoscalers or pool.autoscaling is not None
        return configured and self.metrics_source is not None

    def _remediator(self, pool: Pool) -> Remediator:
        name = pool.remediation.strategy
        if not name:
            return self.opinions.remediator
        # An unknown name must do nothing rather than the wrong thing.
        return self.opinions.remediators.get(name) or BUILT_IN.get(name) or BUILT_IN[ALERT_ONLY]
