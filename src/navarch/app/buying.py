"""From what the file says about a pool's buying to the part that does it."""

from collections.abc import Mapping
from typing import cast

from navarch.config.autoscaling import CustomConfig
from navarch.config.config import Config
from navarch.config.pool import PoolConfig
from navarch.config.pool_providers import Strategy
from navarch.core.errors import ExtensionError
from navarch.core.ids import PoolName
from navarch.ports.autoscaler import Autoscaler
from navarch.ports.provision import ProvisionScheduler
from navarch.provision.strategies import (
    Availability,
    CarbonAware,
    Cost,
    FirstAvailable,
    RegionPreference,
    RoundRobin,
)
from navarch.registry import build_part


def provision_schedulers(
    config: Config, otherwise: ProvisionScheduler
) -> dict[PoolName, ProvisionScheduler]:
    """Return who chooses for each configured pool; `otherwise` where the file does not say."""
    return {
        PoolName(name): _provision_scheduler(pool, otherwise) for name, pool in config.pools.items()
    }


def _provision_scheduler(pool: PoolConfig, otherwise: ProvisionScheduler) -> ProvisionScheduler:
    if pool.provision_scheduler is not None:
        factory, settings = pool.provision_scheduler, pool.provision_settings
        made = _build(pool, "provision_schedulers", factory, settings, "score")
        return cast("ProvisionScheduler", made)
    match pool.strategy:
        case Strategy.PRIORITY:
            return otherwise
        case Strategy.FIRST_AVAILABLE:
            return FirstAvailable()
        case Strategy.COST:
            return Cost()
        case Strategy.AVAILABILITY:
            return Availability()
        case Strategy.ROUND_ROBIN:
            return RoundRobin({source.name: source.weight for source in pool.sources})
        case Strategy.REGION_PREFERENCE:
            return RegionPreference(pool.region_order)
        case Strategy.CARBON_AWARE:
            return CarbonAware(pool.carbon_g_per_kwh)


def custom_autoscalers(config: Config) -> dict[PoolName, Autoscaler]:
    """Return the autoscalers of others that the file names, by pool."""
    return {
        PoolName(name): cast(
            "Autoscaler",
            _build(pool, "autoscalers", asked.factory, asked.settings, "recommend"),
        )
        for name, pool in config.pools.items()
        if isinstance(asked := pool.autoscaling, CustomConfig)
    }


def _build(
    pool: PoolConfig, kind: str, factory: str, settings: Mapping[str, object], method: str
) -> object:
    try:
        return build_part(kind, factory, settings, method=method)
    except ExtensionError as error:
        raise ExtensionError(f'pool "{pool.name}": {error}') from error
