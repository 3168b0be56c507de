"""Everything that is for sale: what the accounts say themselves, and the catalogue for the rest."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

import structlog

from navarch.catalogue.machines import CataloguedMachine, all_machines, find_machine, priced_on
from navarch.core.errors import ProviderError
from navarch.core.evolve import evolve
from navarch.core.ids import ProviderName
from navarch.core.offering import Offering
from navarch.ports.api import Offer
from navarch.ports.clock import Clock

log = structlog.get_logger(__name__)

REFRESH = timedelta(minutes=15)
"""How old a provider's own list may be before it is asked again. Prices change by the day; what
is sold out is known from refusals, and not from here."""

PATIENCE_S = 20.0
"""How long somebody who asks what is for sale waits for a cloud that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A provider as far as its wares go."""

    name: ProviderName
    type: str
    region: str = ""
    """Where it buys unless it is told otherwise."""
    ask: Callable[[], Awaitable[Sequence[Offering]]] | None = None
    """How it says what it sells, if it can."""
    ask_sold_out: Callable[[], Awaitable[Sequence[Offering]]] | None = None
    """How it says what of that nobody can have at present, if it can."""


class OfferCatalog:
    """The wares of every account, and of the clouds where there is none."""

    def __init__(self, clock: Clock, accounts: Iterable[Account]) -> None:
        self._clock = clock
        self._accounts = tuple(accounts)
        self._told: dict[ProviderName, tuple[datetime, Sequence[Offering], set[Offering]]] = {}
        """When each said what it sells, and what of it is sold out."""

    async def offers(self) -> list[Offer]:
        """Return everything, accounts first."""
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

        A machine that the catalogue knows without a price is not sold on demand.
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

    async def _at(self, account: Account) -> list[Offer]:
        await self._ask(account)
        at, told, gone = self._told.get(account.name, (self._clock.now(), (), set()))
        if told:
            return [
                evolve(
                    _as_offer(offering, account.type, at),
                    sold_out=f"{account.name} has none anywhere" if offering in gone else None,
                )
                for offering in told
            ]
        return [
            offer
            for machine in all_machines()
            if machine.provider == account.type
            for offer in _catalogue_offers(machine, account.name, account.region)
        ]

    async def _ask(self, account: Account) -> None:
        """Learn what an account sells, if it can say so and has not said so lately."""
        now = self._clock.now()
        at = self._told[account.name][0] if account.name in self._told else None
        if account.ask is None or (at is not None and now < at + REFRESH):
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                said = await account.ask()
                gone = () if account.ask_sold_out is None else await account.ask_sold_out()
        except (ProviderError, TimeoutError) as error:
            # What it said before is better than nothing, and carries its date.
            log.warning("offers.not_refreshed", provider=account.name, error=str(error))
            return
        self._told[account.name] = (now, [*said, *gone], set(gone))


def _as_offer(offering: Offering, provider_type: str, at: datetime) -> Offer:
    """Return what a provider says it sells, with what only the catalogue knows."""
    known = find_machine(provider_type, offering.instance_type)
    offer = Offer(offering=offering, provider_type=provider_type, priced_at=at)
    if known is None:
        return offer
    # The catalogue's name of a GPU says more, where the cloud calls all of them H100.
    full = evolve(offering, gpu_type=known.gpu_model)
    if not offering.price_per_hour and not offering.spot:
        full = evolve(full, price_per_hour=known.usd_per_hour)
        offer = evolve(offer, priced_at=_catalogue_day())
    return evolve(_described(offer, known), offering=full)


def _catalogue_offers(
    machine: CataloguedMachine, name: ProviderName, region: str
) -> Iterator[Offer]:
    usual = Offering(
        provider=name,
        instance_type=machine.instance_type,
        region=region or machine.priced_in,
        gpus=machine.gpus,
        gpu_type=machine.gpu_model,
        price_per_hour=machine.usd_per_hour,
    )
    plain = Offer(offering=usual, provider_type=machine.provider, priced_at=_catalogue_day())
    yield _described(plain, machine)
    if machine.spot_usd_per_hour:
        spot = evolve(usual, spot=True, price_per_hour=machine.spot_usd_per_hour)
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
