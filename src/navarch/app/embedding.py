"""Navarch embedded in another program."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from navarch.app.parts import Extensions
from navarch.app.server import Running, Server
from navarch.config import Config, default_config
from navarch.core.budget import Budget
from navarch.core.errors import InvalidError
from navarch.core.ids import PoolName
from navarch.fleet.disruption.unhealthy import CordonAndReplace
from navarch.ports.alert_channel import AlertChannel
from navarch.ports.autoscaler import Autoscaler, MetricsSource
from navarch.ports.checks import HealthCheck
from navarch.ports.notifier import WorkloadNotifier
from navarch.ports.provider import Provider, ProvisionScheduler
from navarch.ports.remediator import Remediator
from navarch.provision import FirstAvailable
from navarch.scheduler import (
    Cluster,
    CycleResult,
    Plugin,
    SchedulerConfig,
    built_in_plugins,
    run_cycle,
)


class ControlPlane:
    """A control plane with parts of your own.

    ```python
    plane = ControlPlane(
        data_dir=Path("state"), providers=[MyCloud()], provision_scheduler=Cheapest()
    )
    plane.register_provider(MyOtherCloud())
    asyncio.run(plane.run())
    ```

    Every parameter is a port from `navarch.ports`; nothing has to be inherited. The providers and
    pools of a configuration are used in addition.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        config: Config | None = None,
        providers: Sequence[Provider] = (),
        provision_scheduler: ProvisionScheduler | None = None,
        provision_schedulers: Mapping[str, ProvisionScheduler] | None = None,
        autoscalers: Mapping[str, Autoscaler] | None = None,
        health_checks: Sequence[HealthCheck] = (),
        remediator: Remediator | None = None,
        workload_notifiers: Sequence[WorkloadNotifier] = (),
        alert_channels: Sequence[AlertChannel] = (),
        metrics_sources: Sequence[MetricsSource] = (),
        budgets: Sequence[Budget] = (),
        scheduler_plugins: Mapping[str, Callable[..., Plugin]] | None = None,
    ) -> None:
        self._data_dir = data_dir
        self._config = config or default_config()
        self._extensions = Extensions(
            provision_scheduler=provision_scheduler or FirstAvailable(),
            provision_schedulers={
                PoolName(name): each for name, each in (provision_schedulers or {}).items()
            },
            autoscalers={PoolName(name): each for name, each in (autoscalers or {}).items()},
            health_checks=tuple(health_checks),
            remediator=remediator or CordonAndReplace(),
            workload_notifiers=tuple(workload_notifiers),
            alert_channels=tuple(alert_channels),
            metrics_sources=tuple(metrics_sources),
            budgets=tuple(budgets),
        )
        for provider in providers:
            self.register_provider(provider)
        self._plugins = built_in_plugins()
        for name, build in (scheduler_plugins or {}).items():
            self._plugins.register(name, build)

    def register_provider(self, provider: Provider) -> None:
        """Add a provider from which pools may buy. Call it before `run`."""
        taken = {known.name for known in self._extensions.providers} | set(self._config.providers)
        if provider.name in taken:
            raise InvalidError(f"a provider named {provider.name!r} exists already")
        providers = (*self._extensions.providers, provider)
        self._extensions = replace(self._extensions, providers=providers)

    async def run(self, started: Callable[[Running], None] = lambda _: None) -> None:
        """Serve until cancelled; `started` is called with the running control plane."""
        server = Server(self._config, self._data_dir, extensions=self._extensions)
        await server.run(started)

    def schedule(self, cluster: Cluster, config: SchedulerConfig | None = None) -> CycleResult:
        """Return the decisions of the workload scheduler about `cluster`, with your plugins.

        A plugin takes part if `config` names it. The caller carries the decisions out.
        """
        return run_cycle(cluster, config, registry=self._plugins)
