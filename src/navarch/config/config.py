"""The configuration as a whole."""

from collections.abc import Iterator, Mapping
from dataclasses import field

from navarch.config.nesting import Named, Nested
from navarch.config.pool import DefaultsConfig, PoolConfig, pool_defaults
from navarch.config.problem import Problem
from navarch.config.provider import PROVIDER, ProviderConfig
from navarch.config.schema import Fault, block, key
from navarch.config.server import ServerConfig


def _some_pool(pools: Mapping[str, PoolConfig]) -> Iterator[Fault]:
    if not pools:
        yield Fault(
            at=("pools",),
            message="at least one pool is required",
            remedy="add pools: with a name, a provider, an instance_type and max_nodes",
        )


# Declared in the order in which they are read: a pool is checked against what goes before.
@block(rules=(_some_pool,))
class Config:
    """All that an operator has written down, with defaults filled in."""

    server: ServerConfig = key(
        Nested(cls=ServerConfig), default=ServerConfig(), doc="how the control plane runs"
    )
    defaults: DefaultsConfig = key(
        Nested(cls=DefaultsConfig),
        default=DefaultsConfig(),
        doc="what holds for pools that do not say otherwise",
    )
    providers: Mapping[str, ProviderConfig] = key(
        Named(subject="provider", each=PROVIDER),
        default_factory=dict,
        doc="accounts to buy machines from, by name",
    )
    pools: Mapping[str, PoolConfig] = key(
        Named(subject="pool", each=Nested(cls=PoolConfig), absent=pool_defaults),
        default_factory=dict,
        doc="groups of like nodes, by name",
    )
    warnings: tuple[Problem, ...] = field(default=(), compare=False)
    """What works, but probably not as intended."""
