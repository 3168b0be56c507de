"""Everybody whom the server buys machines from: those of the file, simulated or not, and others."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from navarch.app.addresses import Address
from navarch.app.extensions import Extensions
from navarch.app.fake import BLOCKS, FakeMachines, FakeSettings
from navarch.app.offer_catalog import Account
from navarch.app.providers.building import Surroundings, build_provider, renew_provider
from navarch.clock.system import ThreadOffload
from navarch.config import Config
from navarch.config.provider import FakeConfig
from navarch.core.errors import NotPossibleError
from navarch.core.health import CheckResult
from navarch.core.ids import NodeId, ProviderName
from navarch.ports.provider import ListsOfferings, Provider, TellsSoldOut


class ProviderRegistry:
    """The providers of one server, and what only they know."""

    def __init__(self, extensions: Extensions) -> None:
        self._extensions = extensions
        self._fakes: list[FakeMachines] = []
        self._clouds: list[Provider] = []

    def build(
        self,
        config: Config,
        surroundings: Surroundings,
        tasks: asyncio.TaskGroup,
        http: Address,
        *,
        token: Callable[[], str | None],
    ) -> None:
        """Make the providers that the file names. Simulated machines talk to us at `http`."""
        disks = _threads("navarch-fake-disk", surroundings.closing)
        probes = _threads("navarch-fake-probe", surroundings.closing)
        for provider in config.providers.values():
            if not isinstance(provider, FakeConfig):
                self._clouds.append(build_provider(provider, surroundings))
                continue
            self._fakes.append(
                FakeMachines(
                    surroundings.clock,
                    surroundings.entropy,
                    tasks,
                    _fake_settings(provider),
                    directory=surroundings.data_dir / "fake" / provider.name,
                    server=f"http://{http.reachable()}",
                    token=token,
                    offload=disks,
                    probe_offload=probes,
                    extra_checks=self._extensions.health_checks,
                )
            )

    def renew(self, config: Config) -> None:
        """Have the providers use what the file now says, where that can change while they run."""
        for cloud in self._clouds:
            if cloud.name in config.providers:
                renew_provider(cloud, config.providers[cloud.name])

    def restore(self) -> None:
        """Start the simulated machines that were there before."""
        for machines in self._fakes:
            machines.restore()

    def all(self) -> list[Provider]:
        """Return every provider."""
        fakes = [machines.cloud for machines in self._fakes]
        return [*fakes, *self._clouds, *self._extensions.providers]

    def accounts(self, config: Config) -> Iterator[Account]:
        """Yield every provider as far as its wares go."""
        for machines in self._fakes:
            name = ProviderName(machines.cloud.name)
            yield Account(name=name, type=FakeConfig.type, ask=machines.offerings)
        for cloud in (*self._clouds, *self._extensions.providers):
            said = config.providers.get(cloud.name)
            yield Account(
                name=ProviderName(cloud.name),
                type=cloud.name if said is None else said.type,
                region=getattr(said, "region", None) or "",
                ask=cloud.offerings if isinstance(cloud, ListsOfferings) else None,
                ask_sold_out=cloud.sold_out if isinstance(cloud, TellsSoldOut) else None,
            )

    async def inject(self, node: NodeId, result: CheckResult) -> None:
        """Make a simulated machine report a fault."""
        for machines in self._fakes:
            if machines.has(node):
                await machines.inject(node, result)
                return
        raise NotPossibleError(f"node {node} is not simulated; its faults are its own")


def _threads(name: str, closing: ExitStack) -> ThreadOffload:
    threads = ThreadOffload(name)
    closing.callback(threads.close)
    return threads


def _fake_settings(config: FakeConfig) -> FakeSettings:
    return FakeSettings(
        name=config.name,
        gpus=config.gpu_count,
        gpu_model=config.gpu_type,
        boot_s=(config.boot_min.total_seconds(), config.boot_max.total_seconds()),
        bad_boots=config.bad_boot_share,
        prices=config.prices,
        spot_prices=config.spot_prices,
        stock=config.stock,
        reservations=config.reservations,
        blocks=BLOCKS if config.blocks is None else config.blocks,
    )
