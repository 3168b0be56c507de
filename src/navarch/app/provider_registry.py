"""The providers of a server: those of its configuration, simulated ones, and extensions."""

import asyncio
from collections.abc import Callable, Iterator

from navarch.app.addresses import Address
from navarch.app.extensions import Extensions
from navarch.app.fake import FakeMachines
from navarch.app.offer_catalog import Account
from navarch.app.providers import ProviderContext, build_provider, renew_provider
from navarch.config import Config
from navarch.config.provider import FakeConfig
from navarch.core.health import CheckResult
from navarch.core.ids import NodeId, ProviderName
from navarch.ports.provider import ListsOfferings, Provider, TellsSoldOut
from navarch.service.fleet import not_simulated


class ProviderRegistry:
    """The providers of one server."""

    def __init__(self, extensions: Extensions) -> None:
        self._extensions = extensions
        self._fakes: list[FakeMachines] = []
        self._clouds: list[Provider] = []

    def build(
        self,
        config: Config,
        context: ProviderContext,
        tasks: asyncio.TaskGroup,
        http: Address,
        *,
        token: Callable[[], str | None],
    ) -> None:
        """Build the configured providers. Agents of simulated machines connect to `http`."""
        disks, probes = context.threads("fake-disk"), context.threads("fake-probe")
        for provider in config.providers.values():
            if not isinstance(provider, FakeConfig):
                self._clouds.append(build_provider(provider, context))
                continue
            self._fakes.append(
                FakeMachines(
                    context.clock,
                    context.entropy,
                    tasks,
                    provider,
                    directory=context.data_dir / "fake" / provider.name,
                    server=f"http://{http.reachable()}",
                    token=token,
                    offload=disks,
                    probe_offload=probes,
                    extra_checks=self._extensions.health_checks,
                )
            )

    def renew(self, config: Config) -> None:
        """Pass on what a reloaded configuration may change of running providers."""
        for cloud in self._clouds:
            if cloud.name in config.providers:
                renew_provider(cloud, config.providers[cloud.name])

    def restore(self) -> None:
        """Start the simulated machines of the previous process."""
        for machines in self._fakes:
            machines.restore()

    def all(self) -> list[Provider]:
        """Return every provider."""
        fakes = [machines.cloud for machines in self._fakes]
        return [*fakes, *self._clouds, *self._extensions.providers]

    def accounts(self, config: Config) -> Iterator[Account]:
        """Yield the account of every provider, for the offer catalog."""
        for machines in self._fakes:
            name = ProviderName(machines.cloud.name)
            yield Account(name=name, type=FakeConfig.type, list_offerings=machines.offerings)
        for cloud in (*self._clouds, *self._extensions.providers):
            configured = config.providers.get(cloud.name)
            yield Account(
                name=ProviderName(cloud.name),
                type=cloud.name if configured is None else configured.type,
                region=getattr(configured, "region", None) or "",
                list_offerings=cloud.offerings if isinstance(cloud, ListsOfferings) else None,
                list_sold_out=cloud.sold_out if isinstance(cloud, TellsSoldOut) else None,
            )

    async def inject(self, node: NodeId, result: CheckResult) -> None:
        """Make a simulated machine report a fault."""
        for machines in self._fakes:
            if any(machine.request.name == node for machine in machines.cloud.alive()):
                await machines.inject(node, result)
                return
        await not_simulated(node, result)
