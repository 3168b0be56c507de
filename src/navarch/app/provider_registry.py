"""The providers of a server: those of its configuration, simulated ones, and extensions."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import partial

import structlog

from navarch.api.tls import ServerTls
from navarch.app.fake import FakeMachines
from navarch.app.parts import Extensions
from navarch.app.providers import ProviderContext, build_provider, renew_provider
from navarch.app.servers import Address
from navarch.catalogue.machines import CataloguedMachine, all_machines, find_machine, priced_on
from navarch.config import Config
from navarch.config.provider import FakeConfig, LambdaConfig, ProviderConfig
from navarch.config.purchase import obstacle
from navarch.core.errors import KeyRefusedError, ProviderError
from navarch.core.health import CheckResult
from navarch.core.ids import NodeId, ProviderName
from navarch.core.launch import Offering
from navarch.core.records import evolve
from navarch.ports.api import Offer
from navarch.ports.clock import Clock
from navarch.ports.provider import ListsOfferings, ListsSoldOut, Provider
from navarch.service.fleet import not_simulated
from navarch.service.specs import OnSale

log = structlog.get_logger(__name__)

REFRESH = timedelta(minutes=15)
"""The age at which a provider's list is fetched again. Prices change daily; stock-outs are
known from refused launches."""

TIMEOUT_S = 20.0
"""How long a request for offers waits for a cloud that does not respond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A provider, as the offer catalog needs it."""

    name: ProviderName
    type: str
    region: str = ""
    """Its default region."""
    list_offerings: Callable[[], Awaitable[Sequence[Offering]]] | None = None
    """Fetches what the provider sells; None if the provider has no such list."""
    list_sold_out: Callable[[], Awaitable[Sequence[Offering]]] | None = None
    """Fetches what is sold out everywhere; None if the provider has no such list."""
    instance_types: frozenset[str] = frozenset()
    """Types that it has beside those that it lists."""
    regions: frozenset[str] = frozenset()
    """Regions that it has beside those that it lists."""
    obstacle: Callable[[Offering, Sequence[str]], str | None] = lambda _offering, _keys: None
    """Returns why it would refuse every launch of an offering with these SSH keys."""


# Lambda lists only regions with stock.
LAMBDA_REGIONS = frozenset(
    f"{area}-{number}"
    for area, numbers in {
        "asia-northeast": 2,
        "asia-south": 1,
        "australia-east": 1,
        "europe-central": 1,
        "europe-south": 1,
        "me-west": 1,
        "us-east": 3,
        "us-midwest": 1,
        "us-south": 3,
        "us-west": 3,
    }.items()
    for number in range(1, numbers + 1)
)


class OfferCatalog:
    """The offers of every account, and of the clouds without an account."""

    def __init__(self, clock: Clock, accounts: Iterable[Account]) -> None:
        self._clock = clock
        self._accounts = tuple(accounts)
        self._lists: dict[ProviderName, tuple[datetime, Sequence[Offering], set[Offering]]] = {}
        """When each list was fetched, what is on it, and what of that is sold out."""
        self._unusable: dict[ProviderName, str] = {}
        """The accounts whose key is missing or unknown, with the reason."""

    async def offers(self) -> list[Offer]:
        """Return every offer, those of accounts first."""
        answers = await asyncio.gather(*(self._at(account) for account in self._accounts))
        found = [offer for offers in answers for offer in offers]
        types = {account.type for account in self._accounts}
        return found + [
            evolve(offer, configured=False)
            for machine in all_machines()
            if machine.provider not in types
            for offer in _catalogue_offers(machine, ProviderName(machine.provider), "")
        ]

    async def offerings(self) -> list[Offering]:
        """Return what can be bought.

        A machine without a price in the catalogue is not sold on demand.
        """
        return [
            offer.offering
            for offer in await self.offers()
            if offer.configured
            and offer.sold_out is None
            and (
                offer.offering.price_per_hour
                or find_machine(offer.provider_type, offer.offering.instance_type) is None
            )
        ]

    async def on_sale(self) -> dict[ProviderName, OnSale]:
        """Return the instance types and regions of every provider, as far as they are known."""
        offers = await asyncio.gather(*(self._at(account) for account in self._accounts))
        return {
            account.name: self._describe(account, [offer.offering for offer in found])
            for account, found in zip(self._accounts, offers, strict=True)
        }

    def _describe(self, account: Account, offerings: Sequence[Offering]) -> OnSale:
        if account.name not in self._lists:
            is_complete = account.list_offerings is None
            return OnSale(
                instance_types=account.instance_types if is_complete else frozenset(),
                offerings=offerings,
                obstacle=account.obstacle,
                unusable=self._unusable.get(account.name, ""),
            )
        catalogued = {x.instance_type for x in all_machines() if x.provider == account.type}
        return OnSale(
            instance_types=account.instance_types.union(
                catalogued, (offering.instance_type for offering in offerings)
            ),
            regions=account.regions.union(offering.region for offering in offerings) - {""},
            offerings=offerings,
            obstacle=account.obstacle,
            unusable=self._unusable.get(account.name, ""),
        )

    async def _at(self, account: Account) -> list[Offer]:
        await self._refresh(account)
        at, offerings, sold_out = self._lists.get(account.name, (self._clock.now(), (), set()))
        if offerings:
            return [
                evolve(
                    _as_offer(offering, account.type, at),
                    sold_out=f"{account.name} has none anywhere" if offering in sold_out else None,
                )
                for offering in offerings
            ]
        return [
            offer
            for machine in all_machines()
            if machine.provider == account.type
            for offer in _catalogue_offers(machine, account.name, account.region)
        ]

    async def _refresh(self, account: Account) -> None:
        """Fetch the list of an account, if it has one and the last one is too old."""
        now = self._clock.now()
        at = self._lists[account.name][0] if account.name in self._lists else None
        if account.list_offerings is None or (at is not None and now < at + REFRESH):
            return
        try:
            async with asyncio.timeout(TIMEOUT_S):
                on_sale = await account.list_offerings()
                sold_out = () if account.list_sold_out is None else await account.list_sold_out()
        except (ProviderError, TimeoutError) as error:
            # The previous list stays in use, with its date.
            log.warning("offers.not_refreshed", provider=account.name, error=str(error))
            if isinstance(error, KeyRefusedError):
                self._unusable[account.name] = str(error)
            return
        self._unusable.pop(account.name, None)
        self._lists[account.name] = (now, [*on_sale, *sold_out], set(sold_out))


def _obstacle(
    configured: ProviderConfig | None, offering: Offering, ssh_keys: Sequence[str]
) -> str | None:
    found = None if configured is None else obstacle(configured, offering, ssh_keys)
    return None if found is None else str(found)


def _as_offer(offering: Offering, provider_type: str, at: datetime) -> Offer:
    """Return an offering of a provider as an offer, completed from the catalogue."""
    known = find_machine(provider_type, offering.instance_type)
    offer = Offer(offering=offering, provider_type=provider_type, priced_at=at)
    if known is None:
        return offer
    # The catalogue has the exact GPU model; some clouds call all of them H100.
    full = evolve(offering, gpu_type=known.gpu_model)
    if not offering.price_per_hour and not offering.spot:
        full = evolve(full, price_per_hour=known.usd_per_hour)
        offer = evolve(offer, priced_at=_catalogue_day())
    return evolve(_described(offer, known), offering=full)


def _catalogue_offers(
    machine: CataloguedMachine, name: ProviderName, region: str
) -> Iterator[Offer]:
    on_demand = Offering(
        provider=name,
        instance_type=machine.instance_type,
        region=region or machine.priced_in,
        gpus=machine.gpus,
        gpu_type=machine.gpu_model,
        price_per_hour=machine.usd_per_hour,
    )
    plain = Offer(offering=on_demand, provider_type=machine.provider, priced_at=_catalogue_day())
    yield _described(plain, machine)
    if machine.spot_usd_per_hour:
        spot = evolve(on_demand, spot=True, price_per_hour=machine.spot_usd_per_hour)
        yield _described(evolve(plain, offering=spot), machine)


def _described(offer: Offer, machine: CataloguedMachine) -> Offer:
    return evolve(
        offer,
        gpu_memory_gib=machine.gpu_memory_gib,
        interconnect=machine.interconnect,
        fabric=machine.fabric,
    )


def _catalogue_day() -> datetime:
    return datetime.combine(priced_on(), time(), UTC)


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
        tls: ServerTls | None = None,
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
                    server=f"{'http' if tls is None else 'https'}://{http.reachable()}",
                    tls=None if tls is None else tls.for_own_agents(),
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
            yield Account(
                name=ProviderName(machines.cloud.name),
                type=FakeConfig.type,
                list_offerings=machines.offerings,
                instance_types=frozenset(machines.cloud.prices).union(
                    getattr(config.providers.get(machines.cloud.name), "stock", None) or ()
                ),
            )
        for cloud in (*self._clouds, *self._extensions.providers):
            configured = config.providers.get(cloud.name)
            yield Account(
                name=ProviderName(cloud.name),
                type=cloud.name if configured is None else configured.type,
                region=getattr(configured, "region", None) or "",
                list_offerings=cloud.offerings if isinstance(cloud, ListsOfferings) else None,
                list_sold_out=cloud.sold_out if isinstance(cloud, ListsSoldOut) else None,
                instance_types=frozenset(x.instance_type for x in getattr(configured, "hosts", ())),
                regions=LAMBDA_REGIONS if isinstance(configured, LambdaConfig) else frozenset(),
                obstacle=partial(_obstacle, configured),
            )

    async def inject(self, node: NodeId, result: CheckResult) -> None:
        """Make a simulated machine report a fault."""
        for machines in self._fakes:
            if any(machine.request.name == node for machine in machines.cloud.alive()):
                await machines.inject(node, result)
                return
        await not_simulated(node, result)
