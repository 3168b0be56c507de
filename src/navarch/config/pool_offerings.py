"""The offerings of configured pools: where each machine may be bought, in which order."""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from navarch.config.catalogue import MachineKind, find_type, resolve_type
from navarch.config.pool import PoolConfig
from navarch.config.pool_providers import CapacityType, PoolProviderConfig, Strategy
from navarch.config.provider import (
    AwsConfig,
    BareMetalConfig,
    DockerConfig,
    FakeConfig,
    GcpConfig,
    ProviderConfig,
)
from navarch.core.ids import ProviderName
from navarch.core.launch import Offering
from navarch.core.records import evolve


def offerings(providers: Mapping[str, ProviderConfig], pool: PoolConfig) -> tuple[Offering, ...]:
    """Return the offerings of a pool, in the order of its strategy.

    Reservations come first. Then the capacity types follow: if spot is listed before on-demand,
    spot is tried everywhere before anything is bought on demand. Within one provider the order is
    that of the file: regions as listed, zones within each.
    """
    sources = sorted(pool.sources, key=lambda source: source.priority)
    choices = [
        offering
        for source in sources
        for offering in _reserved(providers[source.name], source, pool)
    ]
    choices += [
        offering
        for terms in _terms(pool)
        for source in sources
        if terms in (source.capacity_types or pool.capacity_types)
        for offering in _at_provider(providers[source.name], source, pool, terms)
    ]
    if pool.strategy is Strategy.COST:
        choices.sort(key=_price_order)
    return tuple(choices)


def _terms(pool: PoolConfig) -> Iterator[CapacityType]:
    """Yield the capacity types of a pool, in the order of its own list or of its providers' lists.

    A list of one item defines no order, so longer lists take precedence.
    """
    lists = [pool.capacity_types, *(source.capacity_types or () for source in pool.sources)]
    lists.sort(key=lambda named: len(named) < 2)
    yield from dict.fromkeys(terms for named in lists for terms in named)


def _price_order(offering: Offering) -> tuple[bool, Decimal]:
    # Offerings with an unknown price come last.
    return (offering.price_per_hour == 0, offering.price_per_hour / max(offering.gpus, 1))


def _at_provider(
    provider: ProviderConfig,
    source: PoolProviderConfig,
    pool: PoolConfig,
    terms: CapacityType,
) -> Iterator[Offering]:
    kind = machine_kind(provider, source.instance_type or pool.instance_type)
    spot = terms is CapacityType.SPOT
    price = _spot_price(provider, kind) if spot else kind.price_per_hour
    for region, zone in _places(provider, source, pool):
        yield Offering(
            provider=ProviderName(provider.name),
            instance_type=kind.instance_type,
            region=region,
            zone=zone,
            gpus=kind.gpus,
            gpu_type=kind.gpu_type,
            price_per_hour=price,
            spot=spot,
        )


def _reserved(
    provider: ProviderConfig, source: PoolProviderConfig, pool: PoolConfig
) -> Iterator[Offering]:
    """Yield the offerings of a capacity reservation, which is paid for even if unused."""
    if source.reservation is None:
        return
    for offering in _at_provider(provider, source, pool, CapacityType.ON_DEMAND):
        yield evolve(offering, reservation=source.reservation, reserved_nodes=source.reserved_nodes)


def _spot_price(provider: ProviderConfig, kind: MachineKind) -> Decimal:
    # The price of the catalogue is weeks old; a price that the provider reports takes precedence.
    # Without an estimate, a spot machine would be booked as free.
    if isinstance(provider, FakeConfig):
        return provider.spot_prices.get(kind.instance_type, Decimal(0))
    return kind.spot_per_hour


def machine_kind(provider: ProviderConfig, instance_type: str) -> MachineKind:
    """Return the GPUs and prices of an instance type at a provider, as far as they are known."""
    known = find_type(provider.type, instance_type)
    match provider:
        case FakeConfig():
            return MachineKind(
                instance_type=instance_type,
                gpus=known.gpus if known else provider.gpu_count,
                gpu_type=known.gpu_type if known else provider.gpu_type,
                price_per_hour=provider.price(instance_type),
            )
        case DockerConfig():
            return MachineKind(instance_type=instance_type, gpus=provider.gpu_count)
        case BareMetalConfig():
            hosts = [host for host in provider.hosts if host.instance_type == instance_type]
            if hosts:
                return MachineKind(
                    instance_type=instance_type, gpus=hosts[0].gpus, gpu_type=hosts[0].gpu_type
                )
    name = resolve_type(provider.type, instance_type)
    return known or MachineKind(instance_type=name, gpus=UNKNOWN_GPUS)


UNKNOWN_GPUS = 8
"""The assumed number of GPUs of an unknown instance type, until its agent reports them."""


def _places(
    provider: ProviderConfig, source: PoolProviderConfig, pool: PoolConfig
) -> Iterator[tuple[str, str]]:
    regions = source.regions or ((pool.region,) if pool.region else ())
    zones = source.zones or pool.zones
    if not regions and not zones:
        yield _default_place(provider)
        return
    left = list(zones)
    for region in regions:
        within = [zone for zone in left if zone.startswith(region)]
        left = [zone for zone in left if zone not in within]
        if within:
            yield from ((region, zone) for zone in within)
        elif not left or len(regions) > 1:
            yield region, ""
    if source.zones or not source.regions:
        # At some providers the names of zones do not start with the region.
        first = regions[0] if regions else ""
        yield from ((first, zone) for zone in left)
    elif left and len(regions) == 1:
        yield regions[0], ""


def _default_place(provider: ProviderConfig) -> tuple[str, str]:
    """Return the region and zone in the provider's own settings."""
    match provider:
        case GcpConfig(region=str(region)) if not provider.zone.startswith(region):
            return region, ""
        case GcpConfig():
            return provider.zone.rpartition("-")[0], provider.zone
        case AwsConfig(region=str(region)):
            return region, ""
    return "", ""
