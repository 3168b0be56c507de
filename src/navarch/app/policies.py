"""The policies that a configuration names, ready to judge."""

from functools import cache

from navarch.config import Config
from navarch.config.policy import default_policy, load_policy
from navarch.core.ids import PoolName
from navarch.health.policy.engine import PolicySet, compile_policies


def load_policies(config: Config) -> PolicySet:
    """Return every policy that `config` names, or raise ConfigError: half of them will not do."""
    load = cache(load_policy)
    named = config.server.health_policy
    return compile_policies(
        default_policy() if named is None else load(named),
        {
            PoolName(pool.name): load(pool.health.policy)
            for pool in config.pools.values()
            if pool.health.policy is not None
        },
    )
