"""The schema: dataclasses that say themselves how they are written in a file.

A field declared with `key(...)` is a key of the file: its kind, default, documentation and
whether it can change while the server runs stand in one place. Reading, rendering, comparing
and documenting all walk the same declarations, so none of them can forget a key.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, dataclass_transform, overload

from navarch.config.kinds import Kind

T = TypeVar("T")
B = TypeVar("B")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What the file may say under one name."""

    name: str = ""
    kind: Kind[Any]
    doc: str
    default: object = dataclasses.MISSING
    restart: str = ""
    """Why a change has to wait for a restart; empty if it does not."""
    file: bool = False
    """`<name>_file` may stand in its place and name a file that holds the value."""
    environment: str = ""
    """The variable that is used when the file says nothing."""
    environment_key: str = ""
    """The key whose value names that variable."""

    @property
    def required(self) -> bool:
        """Whether it has to be there."""
        return self.default is dataclasses.MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What a rule has found."""

    message: str
    remedy: str = ""
    at: tuple[str | int, ...] = ()
    """The path, within the block, of what to point at."""
    warning: bool = False


Rule: TypeAlias = Callable[..., Iterable[Fault]]
"""A condition between keys. Its parameters are named after the keys it needs; it is left out
when one of them could not be read, so that one mistake is not reported twice. `present` are
the names of the keys that hold something in the file, `name` is that of the pool or provider."""


@overload
def key(kind: Kind[T], *, doc: str, restart: str = "") -> T: ...
@overload
def key(
    kind: Kind[T],
    *,
    doc: str,
    default: None,
    restart: str = "",
    file: bool = False,
    environment: str = "",
    environment_key: str = "",
) -> T | None: ...
@overload
def key(kind: Kind[T], *, doc: str, default: T, restart: str = "") -> T: ...
@overload
def key(kind: Kind[T], *, doc: str, default_factory: Callable[[], T], restart: str = "") -> T: ...
def key(
    kind: Kind[Any],
    *,
    doc: str,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    restart: str = "",
    file: bool = False,
    environment: str = "",
    environment_key: str = "",
) -> Any:
    """Return a dataclass field that is a key of the file; without a default it is required."""
    made = default_factory() if default_factory is not dataclasses.MISSING else default
    declared = Key(
        kind=kind,
        doc=doc,
        default=made,
        restart=restart,
        file=file,
        environment=environment,
        environment_key=environment_key,
    )
    if default_factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=default_factory, metadata={_KEY: declared})
    return dataclasses.field(default=default, metadata={_KEY: declared})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(key,))
def block(*, rules: tuple[Rule, ...] = ()) -> Callable[[type[B]], type[B]]:
    """Return a decorator that makes a frozen dataclass whose keys obey `rules`."""

    def make(cls: type[B]) -> type[B]:
        made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        _KEYS[made] = _declared(made)
        _RULES[made] = rules
        return made

    return make


_KEY = "navarch.config.key"
_KEYS: dict[type, Mapping[str, Key]] = {}
_RULES: dict[type, tuple[Rule, ...]] = {}


def keys_of(cls: type) -> Mapping[str, Key]:
    """Return the keys of a block, in the order they are declared."""
    return _KEYS[cls]


def _declared(cls: type[Any]) -> Mapping[str, Key]:
    return {
        field.name: dataclasses.replace(field.metadata[_KEY], name=field.name)
        for field in dataclasses.fields(cls)
        if _KEY in field.metadata
    }


def key_names(cls: type) -> list[str]:
    """Return every name that may stand in a block."""
    return [
        name
        for key in keys_of(cls).values()
        for name in (key.name, f"{key.name}_file")[: 1 + key.file]
    ]


def rules_of(cls: type) -> tuple[Rule, ...]:
    """Return the rules between the keys of a block."""
    return _RULES.get(cls, ())


def plain_block(value: object) -> dict[str, object]:
    """Return a block as a mapping of plain values, keys that hold nothing left out."""
    return {
        name: declared.kind.plain(held)
        for name, declared in keys_of(type(value)).items()
        if (held := getattr(value, name)) is not None
    }
