"""Pool specs: configured pools as requests to the control plane."""

from dataclasses import fields

from navarch.config.autoscaling import to_autoscaling
from navarch.config.config import Config
from navarch.config.disruption import to_disruption, to_remediation
from navarch.config.pool import PoolConfig
from navarch.config.pool_offerings import offerings
from navarch.core.ids import PoolName
from navarch.core.pool import Pool
from navarch.ports.api import PoolSpec


def to_pool_specs(config: Config) -> tuple[PoolSpec, ...]:
    """Return every configured pool as a request to the control plane, in the order of the file."""
    return tuple(to_pool_spec(config, pool) for pool in config.pools.values())


def to_pool_spec(config: Config, pool: PoolConfig) -> PoolSpec:
    """Return one pool as a request to the control plane, which leaves its size unchanged."""
    return PoolSpec(
        name=PoolName(pool.name),
        offerings=offerings(config.providers, pool),
        nodes_min=pool.min_nodes,
        nodes_max=pool.max_nodes,
        labels={**pool.labels, "pool": pool.name},
        ssh_keys=pool.ssh_keys,
        setup=pool.setup,
        auto_replace=pool.health.auto_replace,
        unhealthy_after=pool.health.unhealthy_after,
        silent_after=pool.health.silent_after,
        boot_deadline=pool.boot_deadline,
        drain_timeout=pool.drain_timeout,
        autoscaling=None if pool.autoscaling is None else to_autoscaling(pool.autoscaling),
        cooldown=pool.cooldown,
        shrink_after=pool.scale_down_after,
        gang=pool.gang,
        gang_hold=pool.gang_hold,
        spares=pool.spares,
        disruption=to_disruption(pool.disruption),
        remediation=to_remediation(pool.remediation),
    )


def to_pool(spec: PoolSpec) -> Pool:
    """Return the pool that a request describes, without nodes."""
    return Pool(**{field.name: getattr(spec, field.name) for field in fields(spec)})
