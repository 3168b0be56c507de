"""What is for sale: the assortment, sifted for somebody who wants GPUs."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from navarch.catalogue.gpus import machines_for_gpus, parse_gpu_type
from navarch.core.errors import InvalidError
from navarch.core.evolve import evolve
from navarch.core.offering import Offering
from navarch.core.pool import Pool
from navarch.ports.api import Offer

Closed = Callable[[Offering], tuple[str, datetime] | None]
"""Says why an offering cannot be had now, and until when; None if it can."""

GPUS_MAX = 1_000_000


def sift_offers(
    assortment: Sequence[Offer],
    pools: Iterable[Pool],
    closed: Closed,
    *,
    gpu_type: str = "",
    gpus: int = 0,
    provider: str | None = None,
    region: str | None = None,
) -> list[Offer]:
    """Return what fits, cheapest first for all the GPUs together; unknown prices come last."""
    if not 0 <= gpus <= GPUS_MAX:
        raise InvalidError(f"gpus: must be 0 to {GPUS_MAX}, not {gpus}")
    known = [
        offer
        for offer in _with_pools(assortment, pools)
        if provider in (None, offer.offering.provider, offer.provider_type)
        and region in (None, offer.offering.region)
    ]
    fitting = [offer for offer in known if fits(offer.offering, gpu_type)]
    if gpus:
        fitting = machines_for_gpus(fitting, gpus, lambda offer: offer.offering.gpus)
    found = [_priced_for(_stocked(offer, closed), gpus) for offer in fitting]
    return sorted(found, key=_order)


def fits(offering: Offering, gpu_type: str) -> bool:
    """Return whether an offering is of the type that somebody wrote."""
    if offering.gpus <= 0:
        return False
    wanted = parse_gpu_type(gpu_type)
    return not gpu_type or wanted.covers(offering.gpu_type, offering.gpus, offering.instance_type)


def _with_pools(assortment: Sequence[Offer], pools: Iterable[Pool]) -> list[Offer]:
    """Return the assortment with what pools buy: they know zones and reservations.

    An offer that names no place gives way to those that do.
    """
    by_type = {_kind(offer.offering): offer for offer in assortment}
    known = {offer.offering for offer in assortment}
    more = []
    for pool in pools:
        for offering in () if pool.deleted else pool.offerings:
            if offering not in known:
                known.add(offering)
                alike = by_type.get(_kind(offering), Offer(offering=offering))
                more.append(evolve(alike, offering=offering, configured=True))
    everything = (*assortment, *more)
    placed = {_kind(offer.offering) for offer in everything if offer.offering.region}
    return [
        offer
        for offer in everything
        if offer.offering.region
        or offer.offering.reservation
        or _kind(offer.offering) not in placed
    ]


def _kind(offering: Offering) -> tuple[str, str, bool]:
    return offering.provider, offering.instance_type, offering.spot


def _stocked(offer: Offer, closed: Closed) -> Offer:
    found = closed(offer.offering) if offer.configured else None
    if found is None:
        return offer
    reason, until = found
    return evolve(offer, sold_out=reason, sold_out_until=until)


def _priced_for(offer: Offer, gpus: int) -> Offer:
    each = offer.offering.gpus
    return evolve(offer, machines=max(1, -(-gpus // each))) if gpus else offer


def _order(offer: Offer) -> tuple[bool, Decimal, str, str]:
    offering = offer.offering
    total = offering.price_per_hour * offer.machines
    # A price nobody knows is not a low one.
    unknown = offering.price_per_hour == 0 and not offering.reservation
    return unknown, total, str(offering), offering.capacity_type
