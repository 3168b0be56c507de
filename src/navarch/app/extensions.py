"""What embedders may bring along."""

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
    """Everything that can be replaced or added without touching the core. Each is a port."""

    providers: Sequence[Provider] = ()
    provision_scheduler: ProvisionScheduler = field(default_factory=FirstAvailable)
    """For pools whose configuration names no strategy of its own."""
    provision_schedulers: Mapping[PoolName, ProvisionScheduler] = field(default_factory=dict)
    """By the name of the pool for which they choose, whatever its configuration says."""
    autoscalers: Mapping[PoolName, Autoscaler] = field(default_factory=dict)
    """By the name of the pool whose size they decide."""
    health_checks: Sequence[HealthCheck] = ()
    """Made by the agents that this process runs itself: those of simulated machines."""
    remediator: Remediator = field(default_factory=CordonAndReplace)
    workload_notifiers: Sequence[WorkloadNotifier] = ()
    alert_notifiers: Sequence[AlertNotifier] = ()
    metrics_sources: Sequence[MetricsSource] = ()
    """Asked in order; what the first does not know, the next may."""
    budgets: Sequence[Budget] = ()
    """What may be spent, on top of what the configuration says."""
