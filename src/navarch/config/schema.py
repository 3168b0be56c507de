"""The schema: dataclasses with fields that declare the keys of the file.

A field declared with `key(...)` is a key of the file. The declaration holds its kind, its default,
its documentation and whether it can change while the server runs. Loading, rendering, reloading and
the reference all use the same declarations, so none of them can miss a key.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias, TypeVar, cast, dataclass_transform, overload

from navarch.config.kinds import Kind
from navarch.core.records import record_fields

T = TypeVar("T")
B = TypeVar("B")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The declaration of one key."""

    name: str = ""
    kind: Kind[Any]
    doc: str
    default: object = dataclasses.MISSING
    restart: str = ""
    """Why a change needs a restart; empty if it does not."""
    file: bool = False
    """Whether `<name>_file` can name a file that holds the value instead."""
    environment: str = ""
    """The environment variable that provides the value if the file does not."""
    environment_key: str = ""
    """The key that overrides the name of that variable."""

    @property
    def required(self) -> bool:
        """Whether the key has no default."""
        return self.default is dataclasses.MISSING


@dataclass(frozen=True, slots=True)
class Fault:
    """A violation that a rule has found."""

    message: str
    remedy: str = ""
    _: KW_ONLY
    at: tuple[str | int, ...] = ()
    """The path, within the block, of the value to report."""
    warning: bool = False


Rule: TypeAlias = Callable[..., Iterable[Fault]]
"""A condition between keys. Its parameters are named after the keys it needs. It is skipped if one
of them could not be read, so that one mistake is not reported twice. `present` holds the names of
the keys with a value in the file, `name` the name of the pool or provider."""


@overload
def key(kind: Kind[T], doc: str, *, restart: str = "") -> T: ...
@overload
def key(
    kind: Kind[T],
    doc: str,
    *,
    default: None,
    restart: str = "",
    file: bool = False,
    environment: str = "",
    environment_key: str = "",
) -> T | None: ...
@overload
def key(kind: Kind[T], doc: str, *, default: T, restart: str = "", environment: str = "") -> T: ...
@overload
def key(kind: Kind[T], doc: str, *, default_factory: Callable[[], T], restart: str = "") -> T: ...
def key(
    kind: Kind[Any],
    doc: str,
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    **declared: Any,
) -> Any:
    """Return a dataclass field that is a key of the file, required unless it has a default."""
    if default_factory is not dataclasses.MISSING:
        declaration = Key(kind=kind, doc=doc, default=default_factory(), **declared)
        return dataclasses.field(default_factory=default_factory, metadata={_KEY: declaration})
    declaration = Key(kind=kind, doc=doc, default=default, **declared)
    return dataclasses.field(default=default, metadata={_KEY: declaration})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(key,))
def block(*, rules: tuple[Rule, ...] = (), restart: str = "") -> Callable[[type[B]], type[B]]:
    """Return a decorator that makes a class a frozen dataclass with keys and `rules`.

    `restart` is the reason for which a change of any of its keys needs a restart.
    """

    def make(cls: type[B]) -> type[B]:
        made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        declared = {
            field.name: field.metadata[_KEY]
            for field in dataclasses.fields(cast("Any", made))
            if _KEY in field.metadata
        }
        _KEYS[made] = {
            name: dataclasses.replace(key, name=name, restart=restart or key.restart)
            for name, key in declared.items()
        }
        _RULES[made] = rules
        return made

    return make


_KEY = "navarch.config.key"
_KEYS: dict[type, Mapping[str, Key]] = {}
_RULES: dict[type, tuple[Rule, ...]] = {}


def keys_of(cls: type) -> Mapping[str, Key]:
    """Return the keys of a block, in the order they are declared."""
    return _KEYS[cls]


def key_names(cls: type) -> list[str]:
    """Return every key that a block accepts."""
    return [
        name
        for key in keys_of(cls).values()
        for name in (key.name, f"{key.name}_file")[: 1 + key.file]
    ]


def rules_of(cls: type) -> tuple[Rule, ...]:
    """Return the rules between the keys of a block."""
    return _RULES.get(cls, ())


def plain_block(value: object) -> dict[str, object]:
    """Return a block as a mapping of YAML values, without keys that are None."""
    return {
        name: declared.kind.plain(held)
        for name, declared in keys_of(type(value)).items()
        if (held := getattr(value, name)) is not None
    }


def copied(kind: type[T], block: object, **others: object) -> T:
    """Return a `kind` with the fields of the same names of `block`, except for `others`."""
    same = [part.name for part in record_fields(kind) if part.name not in others]
    return kind(**{name: getattr(block, name) for name in same}, **others)


def repeated(values: Sequence[object]) -> Iterator[int]:
    """Yield the place of every value that occurs before as well."""
    return (place for place, value in enumerate(values) if value in values[:place])
