"""Pool specs: configured pools as the control plane is asked for them."""

from dataclasses import fields

from navarch.config.autoscaling import to_autoscaling
from navarch.config.catalogue import Catalogue
from navarch.config.config import Config
from navarch.config.disruption import to_disruption
from navarch.config.offerings import offerings
from navarch.config.pool import PoolConfig
from navarch.config.remediation import to_remediation
from navarch.core.ids import PoolName
from navarch.core.pool import Pool
from navarch.ports.api import PoolSpec


def to_pool_specs(config: Config, catalogue: Catalogue) -> tuple[PoolSpec, ...]:
    """Return every configured pool as a request to the control plane, in the file's order."""
    return tuple(to_pool_spec(config, pool, catalogue) for pool in config.pools.values())


def to_pool_spec(config: Config, pool: PoolConfig, catalogue: Catalogue) -> PoolSpec:
    """Return one pool as a request to the control plane. Its size is left as it is."""
    return PoolSpec(
        name=PoolName(pool.name),
        offerings=offerings(config, pool, catalogue),
        nodes_min=pool.min_nodes,
        nodes_max=pool.max_nodes,
        labels={**pool.labels, "pool": pool.name},
        ssh_keys=pool.ssh_keys,
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
    """Return the pool that a request describes, before its first node."""
    return Pool(**{field.name: getattr(spec, field.name) for field in fields(spec)})
