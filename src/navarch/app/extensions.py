"""Parts that an embedding program may supply."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from navarch.core.budget import Budget
from navarch.core.ids import PoolName
from navarch.fleet.disruption.unhealthy import CordonAndReplace
from navarch.ports.alerts import AlertNotifier
from navarch.ports.autoscaler import Autoscaler, MetricsSource
from navarch.ports.checks import HealthCheck
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.provider import Provider
from navarch.ports.provision import ProvisionScheduler
from navarch.ports.remediator import Remediator
from navarch.provision.strategies import FirstAvailable


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
    alert_notifiers: Sequence[AlertNotifier] = ()
    metrics_sources: Sequence[MetricsSource] = ()
    """Queried in order; a later source fills in what the earlier ones lack."""
    budgets: Sequence[Budget] = ()
    """Spending limits, in addition to those of the configuration."""
