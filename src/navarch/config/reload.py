"""Reloading: which changes of a file apply at once, and which need a restart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from navarch.config.block import Nested
from navarch.config.config import Config
from navarch.config.pool import PoolConfig
from navarch.config.provider import ProviderConfig
from navarch.config.schema import Key, keys_of
from navarch.config.secret import Secret

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

B = TypeVar("B", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """The outcome of comparing a changed file with the running configuration."""

    config: Config
    """The configuration to run with: the new file without the changes that need a restart."""
    applied: tuple[str, ...] = ()
    """A sentence about each change that applies at once."""
    waiting: tuple[str, ...] = ()
    """A sentence about each change that needs a restart."""
    pools_changed: tuple[str, ...] = ()
    """Pools to create or update."""

    def __str__(self) -> str:
        if not self.applied and not self.waiting:
            return "nothing has changed"
        return "\n".join((*self.applied, *self.waiting))


def compare(old: Config, new: Config) -> Reload:
    """Return which changes of `new` a server that runs with `old` can apply."""
    applied: list[str] = []
    waiting: list[str] = []

    server = _merge("server", old.server, new.server, applied, waiting)
    providers = dict(_providers(old.providers, new.providers, applied, waiting))
    pools = dict(_pools(old.pools, new.pools, providers, applied, waiting))
    if old.budgets != new.budgets:
        count = f"now {len(new.budgets)}" if new.budgets else "now none"
        applied.append(f"budgets have changed: {count}")
    if old.alerts != new.alerts:
        applied.append(f"alerts have changed: {len(new.alerts.channels)} channels")
    return Reload(
        config=replace(new, server=server, providers=providers, pools=pools),
        applied=tuple(applied),
        waiting=tuple(waiting),
        pools_changed=tuple(name for name in pools if old.pools.get(name) != pools[name]),
    )


def _providers(
    old: Mapping[str, ProviderConfig],
    new: Mapping[str, ProviderConfig],
    applied: list[str],
    waiting: list[str],
) -> Iterator[tuple[str, ProviderConfig]]:
    for name, before in old.items():
        path, after = f"providers.{name}", new.get(name)
        if after is None:
            waiting.append(f"{path} is no longer in the file; it stays connected until a restart")
            yield name, before
        elif type(after) is not type(before):
            waiting.append(
                f"{path} is now of type {after.type}; it stays {before.type} until a restart"
            )
            yield name, before
        else:
            yield name, _merge(path, before, after, applied, waiting)
    waiting += [
        f"providers.{name} is new; it is connected at the next restart"
        for name in new
        if name not in old
    ]


def _pools(
    old: Mapping[str, PoolConfig],
    new: Mapping[str, PoolConfig],
    providers: Mapping[str, ProviderConfig],
    applied: list[str],
    waiting: list[str],
) -> Iterator[tuple[str, PoolConfig]]:
    for name, after in new.items():
        path, before = f"pools.{name}", old.get(name)
        missing = [each.name for each in after.sources if each.name not in providers]
        if missing:
            waiting.append(f"{path} needs a restart, because its provider {missing[0]} does")
            if before is not None:
                yield name, before
        elif before is None:
            applied.append(f"{path} is new")
            yield name, after
        else:
            yield name, _merge(path, before, after, applied, waiting)
    # A pool is kept: a line that is deleted by accident must not terminate machines.
    applied += [
        f"pools.{name} is no longer in the file; it is kept, "
        f"and `navarch pool delete {name}` terminates its nodes"
        for name in old
        if name not in new
    ]


def _merge(path: str, old: B, new: B, applied: list[str], waiting: list[str]) -> B:
    """Return a block with the changes that apply at once, and record each changed key."""
    kept: dict[str, Any] = {}
    if old == new:
        return new
    for name, declared in keys_of(type(new)).items():
        before, after = getattr(old, name), getattr(new, name)
        if before == after:
            continue
        if isinstance(declared.kind, Nested) and before is not None and after is not None:
            kept[name] = _merge(f"{path}.{name}", before, after, applied, waiting)
            continue
        sentence = f"{path}.{name} {_change(declared, before, after)}"
        if declared.restart:
            kept[name] = before
            waiting.append(f"{sentence}, which needs a restart: {declared.restart}")
        else:
            applied.append(sentence)
    return replace(new, **kept)


def _change(declared: Key, before: object, after: object) -> str:
    if before is None:
        return f"is now {_shown(declared, after)}"
    if after is None:
        return "is no longer set"
    shown = _shown(declared, before), _shown(declared, after)
    # Different values that look the same contain a secret.
    return "has changed" if shown[0] == shown[1] else f"changes from {shown[0]} to {shown[1]}"


def _shown(declared: Key, value: object) -> str:
    if isinstance(value, Secret):
        return "set"
    plain = declared.kind.plain(value)
    return f'"{plain}"' if isinstance(plain, str) else str(plain)
