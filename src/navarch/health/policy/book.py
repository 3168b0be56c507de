"""The policies in force: one for the fleet, and others for pools that have their own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from navarch.core.ids import PoolName
from navarch.health.policy.engine import Engine
from navarch.health.policy.policy import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBook:
    """Which policy judges what happens where."""

    fleet: Engine
    pools: Mapping[PoolName, Engine] = field(default_factory=dict)

    def of(self, pool: PoolName | None) -> Engine:
        """Return what judges the nodes of `pool`, or nodes that are in none."""
        return self.fleet if pool is None else self.pools.get(pool, self.fleet)


def policy_book(fleet: Policy, pools: Mapping[PoolName, Policy] | None = None) -> PolicyBook:
    """Return the book of these policies, each compiled once."""
    return PolicyBook(
        fleet=Engine(fleet),
        pools={name: Engine(policy) for name, policy in (pools or {}).items()},
    )
