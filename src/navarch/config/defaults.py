"""Defaults: what holds for pools that do not say otherwise."""

from collections.abc import Mapping

from navarch.config.health import HealthConfig
from navarch.config.kinds import PATH, TEXT, ListOf
from navarch.config.nesting import Nested
from navarch.config.schema import block, key


@block()
class DefaultsConfig:
    """What holds for pools that do not say otherwise."""

    ssh_keys: tuple[str, ...] = key(
        ListOf(each=TEXT), default=(), doc="names of keys that may log in to nodes"
    )
    health: HealthConfig | None = key(
        Nested(cls=HealthConfig), default=None, doc="when nodes are given up; as a whole block"
    )
    ssh_user: str | None = key(TEXT, default=None, doc="who logs in to set a node up")
    ssh_private_key_path: str | None = key(
        PATH, default=None, doc="the key to log in with to set a node up"
    )


def pool_defaults(context: Mapping[str, object]) -> Mapping[str, object]:
    """Return what stands in for keys a pool leaves out."""
    defaults = context.get("defaults")
    if not isinstance(defaults, DefaultsConfig):
        return {}
    held = {
        "ssh_keys": defaults.ssh_keys,
        "health": defaults.health,
        "ssh_user": defaults.ssh_user,
        "ssh_private_key_path": defaults.ssh_private_key_path,
    }
    return {name: value for name, value in held.items() if value is not None}
