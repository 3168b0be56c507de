"""The controllers of a control plane, in the order in which their rounds start."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from navarch.control.health.bad_hosts import BadHostController
from navarch.control.health.incidents import IncidentController
from navarch.control.health.recovery import RecoveryController
from navarch.control.health.remediation import RemediationController
from navarch.control.housekeeping.alerts import AlertController
from navarch.control.housekeeping.nodes import HousekeepingController
from navarch.control.housekeeping.snapshots import SnapshotController
from navarch.control.jobs.controller import JobController
from navarch.control.nodes.bringup import BringUp, BringUpController
from navarch.control.nodes.commands import CommandController
from navarch.control.nodes.drain import DrainController, plan_drains_of
from navarch.control.nodes.launch import LaunchController, MissingAgent, UserData
from navarch.control.nodes.liveness import LivenessController
from navarch.control.nodes.notification import NotificationController
from navarch.control.nodes.termination import TerminationController
from navarch.control.pools.autoscaling import AutoscalingController
from navarch.control.pools.budgets import BudgetController
from navarch.control.pools.emptiness import EmptinessController
from navarch.control.pools.ledger import Ledger
from navarch.control.pools.loads import Loads
from navarch.control.pools.sizing import SizingController
from navarch.control.pools.stockouts import StockoutMemory
from navarch.control.pools.usage import Readings
from navarch.control.providers.guard import Providers
from navarch.control.providers.inventory import InventoryController
from navarch.control.providers.notices import ProviderNoticeController
from navarch.control.providers.pending_observations import PendingObservations
from navarch.control.providers.topology import TopologyController
from navarch.control.runtime.controller import Controller
from navarch.control.runtime.operations import OperationRunner
from navarch.core.budget import Budget
from navarch.core.disruption import GovernorSettings, default_settings
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import PoolName
from navarch.core.launch import Offering
from navarch.core.pool import Pool
from navarch.core.recovery import ALERT_ONLY, CORDON_AND_REPLACE, LADDER_STRATEGY
from navarch.fleet.disruption.governor.suspicion import PolicyChange
from navarch.fleet.disruption.unhealthy import AlertOnly, CordonAndReplace, Ladder
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.fleet.stockouts import SPANS, Spans
from navarch.ports.alerts import AlertNotifier
from navarch.ports.autoscaler import Autoscaler, MetricsSource
from navarch.ports.clock import Clock, Entropy
from navarch.ports.liveness import Liveness
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.offload import Offload
from navarch.ports.provision import ProvisionScheduler
from navarch.ports.remediator import Remediator
from navarch.ports.store import Store
from navarch.provision.strategies import FirstAvailable
from navarch.state.index import Index

BUILT_IN: Mapping[str, Remediator] = {
    CORDON_AND_REPLACE: CordonAndReplace(),
    LADDER_STRATEGY: Ladder(),
    ALERT_ONLY: AlertOnly(),
}
"""The remediators that every pool may name."""


class CurrentStockouts:
    """The stockouts of the running controllers, for the service; none before they run."""

    def __init__(self) -> None:
        self.memory: StockoutMemory | None = None

    def closed(self, offering: Offering) -> tuple[str, datetime] | None:
        """Return why `offering` was last refused and when it is tried again; None if it is open."""
        return None if self.memory is None else self.memory.closed(offering)

    def obstacle(self, pool: PoolName) -> str | None:
        """Return what prevented the last launch for `pool`; None if nothing did."""
        return None if self.memory is None else self.memory.obstacle(pool)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerParts:
    """What controllers are built from."""

    clock: Clock
    entropy: Entropy
    store: Store
    index: Index
    providers: Providers
    notifier: WorkloadNotifier
    liveness: Liveness
    readings: Readings
    opinions: Opinions
    ledger: Ledger
    stockouts: CurrentStockouts
    learning: Sequence[Controller]
    offload: Offload
    alerts: Sequence[AlertNotifier]
    metrics_source: MetricsSource | None
    loads: Loads | None
    save_readings: Callable[[], Awaitable[None]] | None
    bringup: BringUp | None
    user_data: UserData | None
    missing_agent: MissingAgent
    strict: bool


def build_controllers(parts: ControllerParts, operations: OperationRunner) -> list[Controller]:
    """Return the controllers: those that decide before those that act."""
    clock, store = parts.clock, parts.store
    observations = PendingObservations(started_at=clock.now())
    incidents = IncidentController(clock, store, parts.index)
    bad_hosts = BadHostController(clock, store)

    async def hook(change: Change, fleet: Fleet) -> Change:
        return await bad_hosts.hook(incidents.hook(change, fleet), fleet)

    budgets = BudgetController(clock, store, parts.opinions.budgets, parts.ledger)
    drain = DrainController(clock, store, parts.notifier, operations)
    return [
        RemediationController(
            clock,
            store,
            parts.index,
            parts.providers,
            remediator=_choose_remediator(parts.opinions),
            settings=parts.opinions.governor,
            policy=parts.opinions.policy,
            hook=hook,
            strict=parts.strict,
        ),
        RecoveryController(
            clock, parts.entropy, store, parts.providers, parts.notifier, operations
        ),
        _sizing(parts, budgets),
        plan_drains_of(clock, store, drain),
        drain,
        *_node_controllers(parts, operations, observations, drain),
        HousekeepingController(clock, store),
        EmptinessController(clock, store, parts.readings, is_scaled=_is_scaled(parts)),
        JobController(clock, store, parts.offload, scheduling=parts.opinions.scheduling),
        incidents,
        bad_hosts,
        *parts.learning,
        budgets,
        *[
            InventoryController(
                clock, store, provider, parts.liveness, operations, observations, hook=hook
            )
            for provider in parts.providers
        ],
        *_optional_controllers(parts, operations),
    ]


def _sizing(parts: ControllerParts, budgets: BudgetController) -> SizingController:
    opinions = parts.opinions
    stockouts = StockoutMemory(
        parts.clock, parts.store, vetoes=[budgets.veto], spans=opinions.stockout_spans
    )
    parts.stockouts.memory = stockouts

    def scheduler(pool: PoolName) -> ProvisionScheduler:
        return opinions.provision_schedulers.get(pool, opinions.provision_scheduler)

    return SizingController(
        parts.clock,
        parts.entropy,
        parts.store,
        parts.index,
        parts.providers,
        budgets=budgets,
        stockouts=stockouts,
        scheduler=scheduler,
        readings=parts.readings,
        missing_agent=parts.missing_agent,
    )


def _node_controllers(
    parts: ControllerParts,
    operations: OperationRunner,
    observations: PendingObservations,
    drain: DrainController,
) -> list[Controller]:
    clock, store = parts.clock, parts.store
    return [
        LaunchController(
            clock,
            store,
            parts.providers,
            operations,
            observations,
            user_data=parts.user_data,
            missing_agent=parts.missing_agent,
        ),
        TerminationController(clock, store, parts.providers, operations, observations),
        NotificationController(clock, store, parts.notifier, operations, is_empty=drain.is_empty),
        LivenessController(clock, store, parts.liveness),
        CommandController(clock, store),
    ]


def _optional_controllers(parts: ControllerParts, operations: OperationRunner) -> list[Controller]:
    """Return the controllers of what a provider or an operator may leave out."""
    clock, store, providers = parts.clock, parts.store, parts.providers
    found: list[Controller] = []
    found += [ProviderNoticeController(clock, store, x) for x in providers if x.announces]
    found += [TopologyController(clock, store, x) for x in providers if x.describes_topology]
    found += [AlertController(clock, store, each, operations) for each in parts.alerts]
    if parts.bringup is not None:
        found.append(BringUpController(clock, store, providers, operations, parts.bringup))
    if parts.save_readings is not None:
        found.append(SnapshotController(clock, parts.save_readings))
    if parts.metrics_source is not None:
        autoscaling = AutoscalingController(
            clock,
            store,
            parts.opinions.autoscalers,
            parts.metrics_source,
            readings=parts.readings,
            interval=parts.opinions.autoscale_interval,
            loads=parts.loads,
        )
        found.append(autoscaling)
    return found


def _is_scaled(parts: ControllerParts) -> Callable[[Pool], bool]:
    def is_scaled(pool: Pool) -> bool:
        configured = pool.name in parts.opinions.autoscalers or pool.autoscaling is not None
        return configured and parts.metrics_source is not None

    return is_scaled


def _choose_remediator(opinions: Opinions) -> Callable[[Pool], Remediator]:
    def choose(pool: Pool) -> Remediator:
        name = pool.remediation.strategy
        if not name:
            return opinions.remediator
        # An unknown name must do nothing rather than the wrong thing.
        return opinions.remediators.get(name) or BUILT_IN.get(name) or BUILT_IN[ALERT_ONLY]

    return choose
