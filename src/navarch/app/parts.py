"""The parts that a configuration and its extensions choose: buying, sizing, meters, notifiers."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import cast

from navarch.app.servers import StartError
from navarch.clock import ThreadOffload
from navarch.config import Config
from navarch.config import scheduler as written
from navarch.config.autoscaling import CustomConfig
from navarch.config.disruption import to_budget
from navarch.config.pool import PoolConfig
from navarch.config.pool_providers import Strategy
from navarch.config.scheduler import to_queue
from navarch.config.server import NotifierConfig, PrometheusConfig
from navarch.core.budget import Budget
from navarch.core.errors import ExtensionError
from navarch.core.ids import PoolName
from navarch.fleet.disruption.unhealthy import CordonAndReplace
from navarch.fleet.jobs.scheduling import Scheduling
from navarch.meters.pools import CombinedMeter, HeartbeatMeter, JobsMeter
from navarch.meters.prometheus import PrometheusMeter, PrometheusQueries
from navarch.notifiers.log import CombinedWorkloads, LogWorkloads
from navarch.notifiers.webhook import WebhookUrls, WebhookWorkloads
from navarch.ports.alert_channel import AlertChannel
from navarch.ports.autoscaler import Autoscaler, MetricsSource
from navarch.ports.checks import HealthCheck
from navarch.ports.clock import Clock
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.provider import Provider, ProvisionScheduler
from navarch.ports.remediator import Remediator
from navarch.ports.store import Store
from navarch.provision import (
    Availability,
    CarbonAware,
    Cost,
    FirstAvailable,
    RegionPreference,
    RoundRobin,
)
from navarch.registry import build_part, check_part
from navarch.scheduler.config import OWN_PLUGINS, Parameters, PluginConfig, SchedulerConfig
from navarch.service.jobs import JobQueue
from navarch.stores.telemetry import TelemetryTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Extensions:
    """Everything that an embedding program may replace or add. Each is a port."""

    providers: Sequence[Provider] = ()
    provision_scheduler: ProvisionScheduler = field(default_factory=FirstAvailable)
    """For pools without a strategy in the configuration."""
    provision_schedulers: Mapping[PoolName, ProvisionScheduler] = field(default_factory=dict)
    """By pool; takes precedence over the configuration."""
    autoscalers: Mapping[PoolName, Autoscaler] = field(default_factory=dict)
    """By pool."""
    health_checks: Sequence[HealthCheck] = ()
    """Run by the agents of simulated machines, which are part of this process."""
    remediator: Remediator = field(default_factory=CordonAndReplace)
    workload_notifiers: Sequence[WorkloadNotifier] = ()
    alert_channels: Sequence[AlertChannel] = ()
    """Routes of the configuration name them; without a route, each receives every alert."""
    metrics_sources: Sequence[MetricsSource] = ()
    """Queried in order; a later source fills in what the earlier ones lack."""
    budgets: Sequence[Budget] = ()
    """Spending limits, in addition to those of the configuration."""


@dataclass(slots=True)
class Parts:
    """Parts that a reload may change: the collections stay the same objects, updated in place."""

    provision_schedulers: dict[PoolName, ProvisionScheduler]
    autoscalers: dict[PoolName, Autoscaler]
    budgets: list[Budget]
    remediators: dict[str, Remediator]

    def become(self, other: "Parts") -> None:
        """Hold what `other` holds. Keep old remediators, which nodes may still name."""
        self.provision_schedulers.clear()
        self.provision_schedulers.update(other.provision_schedulers)
        self.autoscalers.clear()
        self.autoscalers.update(other.autoscalers)
        self.budgets[:] = other.budgets
        self.remediators |= other.remediators


def load_parts(config: Config, extensions: Extensions) -> Parts:
    """Return the parts that the file and the extensions name; raises if one cannot be used."""
    _check(extensions)
    named = provision_schedulers(config, extensions.provision_scheduler)
    strategies = (pool.remediation.strategy for pool in config.pools.values())
    return Parts(
        provision_schedulers={**named, **extensions.provision_schedulers},
        autoscalers={**custom_autoscalers(config), **extensions.autoscalers},
        budgets=[*(to_budget(each) for each in config.budgets), *extensions.budgets],
        remediators=dict(load_remediators(strategies)),
    )


def _check(extensions: Extensions) -> None:
    """Raise ExtensionError if a part of the embedding program lacks its method."""
    default = extensions.provision_scheduler
    check_part("provision_schedulers", type(default).__name__, default, method="score")
    for kind, parts, method in (
        ("provision_schedulers", extensions.provision_schedulers, "score"),
        ("autoscalers", extensions.autoscalers, "recommend"),
    ):
        for pool, part in parts.items():
            check_part(kind, f'{type(part).__name__} for pool "{pool}"', part, method=method)


def provision_schedulers(
    config: Config, default: ProvisionScheduler
) -> dict[PoolName, ProvisionScheduler]:
    """Return the provision scheduler of each configured pool; `default` if the file names none."""
    return {
        PoolName(name): _provision_scheduler(pool, default) for name, pool in config.pools.items()
    }


def _provision_scheduler(pool: PoolConfig, default: ProvisionScheduler) -> ProvisionScheduler:
    if pool.provision_scheduler is not None:
        factory, settings = pool.provision_scheduler, pool.provision_settings
        made = _build_part(pool, "provision_schedulers", factory, settings, "score")
        return cast("ProvisionScheduler", made)
    match pool.strategy:
        case Strategy.PRIORITY:
            return default
        case Strategy.FIRST_AVAILABLE:
            return FirstAvailable()
        case Strategy.COST:
            return Cost()
        case Strategy.AVAILABILITY:
            return Availability()
        case Strategy.ROUND_ROBIN:
            return RoundRobin({source.name: source.weight for source in pool.sources})
        case Strategy.REGION_PREFERENCE:
            return RegionPreference(pool.region_order)
        case Strategy.CARBON_AWARE:
            return CarbonAware(pool.carbon_g_per_kwh)


def custom_autoscalers(config: Config) -> dict[PoolName, Autoscaler]:
    """Return the third-party autoscalers that the file names, by pool."""
    return {
        PoolName(name): cast(
            "Autoscaler",
            _build_part(pool, "autoscalers", custom.factory, custom.settings, "recommend"),
        )
        for name, pool in config.pools.items()
        if isinstance(custom := pool.autoscaling, CustomConfig)
    }


def _build_part(
    pool: PoolConfig, kind: str, factory: str, settings: Mapping[str, object], method: str
) -> object:
    try:
        return build_part(kind, factory, settings, method=method)
    except ExtensionError as error:
        raise ExtensionError(f'pool "{pool.name}": {error}') from error


def load_remediators(names: Iterable[str]) -> Mapping[str, Remediator]:
    """Return the third-party remediators among `names`, each written as `module:Class`.

    Only a configuration file may name them, never the API: loading one runs its code in this
    process.
    """
    found: dict[str, Remediator] = {}
    for name in sorted({name for name in names if ":" in name}):
        module, _, attribute = name.partition(":")
        try:
            made = getattr(importlib.import_module(module), attribute)()
        except Exception as error:
            raise StartError(f"remediation {name!r} cannot be loaded: {error}") from error
        if not callable(getattr(made, "remediate", None)):
            raise StartError(f"remediation {name!r} has no method remediate(pool, node)")
        found[name] = made
    return found


def build_meter(
    store: Store,
    telemetry: TelemetryTable,
    prometheus: PrometheusConfig | None,
    extensions: Extensions,
    closing: ExitStack,
) -> MetricsSource:
    """Return every source of metrics as one; sources of extensions take precedence."""
    sources = list(extensions.metrics_sources)
    if prometheus is not None:
        threads = ThreadOffload("navarch-prometheus")
        closing.callback(threads.close)
        queries = PrometheusQueries(
            url=prometheus.url,
            utilization=prometheus.utilization or "",
            pending_jobs=prometheus.pending_jobs or "",
            queue_depth=prometheus.queue_depth or "",
            nodes_needed=prometheus.nodes_needed or "",
            timeout=prometheus.timeout,
            headers={name: value.reveal() for name, value in prometheus.headers.items()},
        )
        sources.append(PrometheusMeter(threads, queries))
    return CombinedMeter(
        [*sources, JobsMeter(store, JobQueue(store)), HeartbeatMeter(store, telemetry)]
    )


def build_notifier(
    clock: Clock, config: NotifierConfig, extensions: Extensions, closing: ExitStack
) -> WorkloadNotifier:
    """Return every configured workload notifier as one; the log if there is none."""
    notifiers = list(extensions.workload_notifiers)
    hook = config.webhook
    if hook is not None and config.type == "webhook":
        threads = ThreadOffload("navarch-webhook")
        closing.callback(threads.close)
        urls = WebhookUrls(
            cordon=hook.cordon_url or "",
            uncordon=hook.uncordon_url or "",
            drain=hook.drain_url or "",
            drain_status=hook.drain_status_url or "",
            timeout=hook.timeout,
            headers={name: value.reveal() for name, value in hook.headers.items()},
        )
        notifiers.append(WebhookWorkloads(clock, threads, urls))
    if len(notifiers) > 1:
        return CombinedWorkloads(notifiers)
    return notifiers[0] if notifiers else LogWorkloads()


def to_scheduling(config: written.SchedulerConfig) -> Scheduling:
    """Return the scheduling of jobs. A list of plugins in the file replaces the default list."""
    more = _listed(config.more_plugins)
    named = {plugin.name for plugin in more}
    defaults = [plugin for plugin in OWN_PLUGINS if plugin.name not in named]
    return Scheduling(
        queues={name: to_queue(queue) for name, queue in config.queues.items()},
        config=SchedulerConfig(
            plugins=_listed(config.plugins) or (*more, *defaults),
            parameters=Parameters(
                simulations_per_action=config.simulations_per_action,
                seconds_per_action=config.seconds_per_action,
            ),
        ),
    )


def placing_config(plugins: Iterable[written.PluginConfig]) -> SchedulerConfig:
    """Return a scheduler configuration with the listed plugins, or with the default ones."""
    return SchedulerConfig(plugins=_listed(plugins) or OWN_PLUGINS)


def _listed(plugins: Iterable[written.PluginConfig]) -> tuple[PluginConfig, ...]:
    return tuple(PluginConfig(name=plugin.name, arguments=plugin.arguments) for plugin in plugins)
