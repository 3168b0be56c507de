"""Offerings: where a pool's machines may be bought, best first."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from navarch.config.catalogue import Catalogue, MachineKind
from navarch.config.config import Config
from navarch.config.pool import CapacityType, PoolConfig, PoolProviderConfig, Strategy
from navarch.config.provider import (
    AwsConfig,
    BareMetalConfig,
    DockerConfig,
    FakeConfig,
    GcpConfig,
    ProviderConfig,
)
from navarch.core.ids import ProviderName
from navarch.core.offering import Offering


def offerings(config: Config, pool: PoolConfig, catalogue: Catalogue) -> tuple[Offering, ...]:
    """Return what a pool may buy, in the order of its strategy.

    Within one provider the order is the file's: regions as listed, zones within each.
    """
    choices = [
        offering
        for source in sorted(pool.sources, key=lambda source: source.priority)
        for offering in _at_provider(config.providers[source.name], source, pool, catalogue)
    ]
    if pool.strategy is Strategy.COST:
        choices.sort(key=_price_order)
    return tuple(choices)


def _price_order(offering: Offering) -> tuple[bool, Decimal]:
    # A price nobody knows is not a low one.
    return (offering.price_per_hour == 0, offering.price_per_hour / max(offering.gpus, 1))


def _at_provider(
    provider: ProviderConfig, source: PoolProviderConfig, pool: PoolConfig, catalogue: Catalogue
) -> Iterator[Offering]:
    kind = machine_kind(provider, source.instance_type or pool.instance_type, catalogue)
    usual = [
        Offering(
            provider=ProviderName(provider.name),
            instance_type=kind.instance_type,
            region=region,
            zone=zone,
            gpus=kind.gpus,
            gpu_type=kind.gpu_type,
            price_per_hour=kind.price_per_hour,
        )
        for region, zone in _places(provider, source, pool)
    ]
    if source.reservation:
        # It is paid for whether it is used or not.
        reserved = [replace(x, reservation=source.reservation) for x in usual]
        yield from [replace(x, reserved_nodes=source.reserved_nodes) for x in reserved]
    for capacity in pool.capacity:
        spot = capacity is CapacityType.SPOT
        yield from [_as_spot(provider, x) for x in usual] if spot else usual


def _as_spot(provider: ProviderConfig, offering: Offering) -> Offering:
    """Return `offering` as a spot machine, whose price is not in the catalogue."""
    prices = provider.prices if isinstance(provider, FakeConfig) else {}
    price = prices.get(f"{offering.instance_type} spot", Decimal(0))
    return replace(offering, spot=True, price_per_hour=price)


def machine_kind(provider: ProviderConfig, instance_type: str, catalogue: Catalogue) -> MachineKind:
    """Return what a provider sells under a name, as far as anybody knows."""
    known = catalogue.find(provider.type, instance_type)
    match provider:
        case FakeConfig():
            return MachineKind(
                instance_type=instance_type,
                gpus=known.gpus if known else provider.gpu_count,
                gpu_type=known.gpu_type if known else provider.gpu_type,
                price_per_hour=provider.prices.get(instance_type, Decimal(0)),
            )
        case DockerConfig():
            return MachineKind(instance_type=instance_type, gpus=provider.gpu_count)
        case BareMetalConfig():
            hosts = [host for host in provider.hosts if host.instance_type == instance_type]
            if hosts:
                return MachineKind(
                    instance_type=instance_type, gpus=hosts[0].gpus, gpu_type=hosts[0].gpu_type
                )
    name = catalogue.resolve(provider.type, instance_type)
    return known or MachineKind(instance_type=name, gpus=UNKNOWN_GPUS)


UNKNOWN_GPUS = 8
"""What a machine nobody has described is taken to hold until its agent has counted."""


def _places(
    provider: ProviderConfig, source: PoolProviderConfig, pool: PoolConfig
) -> Iterator[tuple[str, str]]:
    regions = source.regions or ((pool.region,) if pool.region else ())
    if not regions and not pool.zones:
        yield _home(provider)
        return
    left = list(pool.zones)
    for region in regions:
        within = [zone for zone in left if zone.startswith(region)]
        yield from [(region, zone) for zone in within] or [(region, "")]
        left = [zone for zone in left if zone not in within]
    if not source.regions:
        # Zones that do not carry their region's name, as at some providers.
        yield from ((pool.region or "", zone) for zone in left)


def _home(provider: ProviderConfig) -> tuple[str, str]:
    """Return the region and zone that a provider's own settings name."""
    match provider:
        case GcpConfig(region=str(region)) if not provider.zone.startswith(region):
            return region, ""
        case GcpConfig():
            return provider.zone.rpartition("-")[0], provider.zone
        case AwsConfig(region=str(region)):
            return region, ""
    return "", ""
