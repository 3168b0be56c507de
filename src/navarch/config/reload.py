"""Reloading: which changes of a file apply at once, and which need a restart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
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
class Difference:
    """One setting that has changed."""

    path: str
    """Its path in the file, such as `server.address`."""
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """The outcome of comparing a changed file with the running configuration."""

    config: Config
    """The configuration to run with: the new file without the changes that need a restart."""
    applied: tuple[Difference, ...] = ()
    waiting: tuple[Difference, ...] = ()
    """Changes that need a restart."""
    pools_changed: tuple[str, ...] = ()
    """Pools to create or update."""
    pools_removed: tuple[str, ...] = field(default=())
    """Pools that are no longer in the file. They are kept: a line that is deleted by accident must
    not terminate machines."""

    def __str__(self) -> str:
        if not self.applied and not self.waiting:
            return "nothing has changed"
        return "\n".join(each.sentence for each in (*self.applied, *self.waiting))


def compare(old: Config, new: Config) -> Reload:
    """Return which changes of `new` a server that runs with `old` can apply."""
    applied: list[Difference] = []
    waiting: list[Difference] = []

    server = _merge("server", old.server, new.server, applied, waiting)
    providers = dict(_providers(old.providers, new.providers, applied, waiting))
    pools = dict(_pools(old.pools, new.pools, providers, applied, waiting))
    if old.budgets != new.budgets:
        count = f"now {len(new.budgets)}" if new.budgets else "now none"
        applied.append(Difference(path="budgets", sentence=f"budgets have changed: {count}"))
    return Reload(
        config=replace(new, server=server, providers=providers, pools=pools),
        applied=tuple(applied),
        waiting=tuple(waiting),
        pools_changed=tuple(name for name in pools if old.pools.get(name) != pools[name]),
        pools_removed=tuple(name for name in old.pools if name not in new.pools),
    )


def _providers(
    old: Mapping[str, ProviderConfig],
    new: Mapping[str, ProviderConfig],
    applied: list[Difference],
    waiting: list[Difference],
) -> Iterator[tuple[str, ProviderConfig]]:
    for name, before in old.items():
        path, after = f"providers.{name}", new.get(name)
        if after is None:
            text = f"{path} is no longer in the file; it stays connected until a restart"
            waiting.append(Difference(path=path, sentence=text))
            yield name, before
        elif type(after) is not type(before):
            text = f"{path} is now of type {after.type}; it stays {before.type} until a restart"
            waiting.append(Difference(path=path, sentence=text))
            yield name, before
        else:
            yield name, _merge(path, before, after, applied, waiting)
    for name in new:
        if name not in old:
            text = f"providers.{name} is new; it is connected at the next restart"
            waiting.append(Difference(path=f"providers.{name}", sentence=text))


def _pools(
    old: Mapping[str, PoolConfig],
    new: Mapping[str, PoolConfig],
    providers: Mapping[str, ProviderConfig],
    applied: list[Difference],
    waiting: list[Difference],
) -> Iterator[tuple[str, PoolConfig]]:
    for name, after in new.items():
        path, before = f"pools.{name}", old.get(name)
        missing = [each.name for each in after.sources if each.name not in providers]
        if missing:
            text = f"{path} needs a restart, because its provider {missing[0]} does"
            waiting.append(Difference(path=path, sentence=text))
            if before is not None:
                yield name, before
        elif before is None:
            applied.append(Difference(path=path, sentence=f"{path} is new"))
            yield name, after
        else:
            yield name, _merge(path, before, after, applied, waiting)
    for name in old:
        if name not in new:
            path = f"pools.{name}"
            text = (
                f"{path} is no longer in the file; it is kept, "
                f"and `navarch pool delete {name}` terminates its nodes"
            )
            applied.append(Difference(path=path, sentence=text))


def _merge(path: str, old: B, new: B, applied: list[Difference], waiting: list[Difference]) -> B:
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
            sentence += f", which needs a restart: {declared.restart}"
            waiting.append(Difference(path=f"{path}.{name}", sentence=sentence))
        else:
            applied.append(Difference(path=f"{path}.{name}", sentence=sentence))
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
