"""Plugin arguments: declared with a type, converted before a plugin is built."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from navarch.core.duration import parse_duration
from navarch.core.errors import InvalidError

T = TypeVar("T")

_EXPECTED: Final[dict[Any, str]] = {
    bool: "true or false",
    float: "a finite number",
    int: "a whole number",
    str: "text",
    timedelta: "a duration such as 90s, 1h30m or 2w",
}


def argument(name: str, *, at_least: float | None = None) -> dict[str, object]:
    """Return the metadata that makes a field of a plugin its argument `name`.

    Values below `at_least` are raised to it.
    """
    return {"argument": name, "at_least": at_least}


class PluginArguments(Mapping[str, object]):
    """The arguments in a configuration, for builders that read them one by one.

    Each read names the argument, its type and its default. Arguments that were never read are
    `unread`: they are misspelled.
    """

    def __init__(self, plugin: str, given: Mapping[str, object]) -> None:
        self._plugin = plugin
        self._given = dict(given)
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> object:
        self._read.add(name)
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def get_float(self, name: str, default: float) -> float:
        """Return a number."""
        return self._get(name, float, default)

    def get_int(self, name: str, default: int) -> int:
        """Return a whole number."""
        return self._get(name, int, default)

    def get_bool(self, name: str, default: bool) -> bool:
        """Return true or false."""
        return self._get(name, bool, default)

    def get_str(self, name: str, default: str) -> str:
        """Return text."""
        return self._get(name, str, default)

    def get_duration(self, name: str, default: timedelta) -> timedelta:
        """Return a duration."""
        return self._get(name, timedelta, default)

    def unread(self) -> list[str]:
        """Return the names of arguments that were given but never read."""
        return sorted(set(self._given) - self._read)

    def _get(self, name: str, kind: type[T], default: T) -> T:
        self._read.add(name)
        if name not in self._given:
            return default
        found: T = _convert(self._plugin, name, self._given[name], kind)
        return found


def parse_arguments(plugin: str, schema: Any, given: Mapping[str, object]) -> dict[str, Any]:  # noqa: ANN401
    """Return `given` as keyword arguments for `schema`, a class with `argument` fields.

    Raises:
        InvalidError: An argument is not declared, or its value is not of the declared type.
    """
    declared = {item.metadata["argument"]: item for item in arguments_of(schema)}
    hints = get_type_hints(schema) if given else {}
    parsed: dict[str, Any] = {}
    for name, value in given.items():
        item = declared.get(name)
        if item is None:
            known = ", ".join(sorted(declared)) or "none"
            raise InvalidError(f"plugin {plugin!r} has no argument {name!r}; it has: {known}")
        assert item.default is not MISSING, f"argument {item.name} has no default"
        found = _convert(plugin, name, value, hints[item.name])
        least = item.metadata["at_least"]
        parsed[item.name] = found if least is None else max(least, found)
    return parsed


def arguments_of(schema: Any) -> list[Field[Any]]:  # noqa: ANN401
    """Return the fields of `schema` that are arguments."""
    if not hasattr(schema, "__dataclass_fields__"):
        return []
    return [item for item in fields(schema) if "argument" in item.metadata]


def _convert(plugin: str, name: str, value: object, kind: Any) -> Any:  # noqa: ANN401
    """Return the value as `kind`; numbers and booleans may be written as text."""
    try:
        return _duration(value) if kind is timedelta else _finite(_lenient(value, kind))
    except ValueError as error:
        choices = ", ".join(map(repr, get_args(kind)))
        expected = f"one of {choices}" if get_origin(kind) is Literal else _EXPECTED[kind]
        raise InvalidError(
            f"plugin {plugin!r}, argument {name!r}: {value!r} is not {expected}"
        ) from error


def _lenient(value: object, kind: Any) -> object:  # noqa: ANN401
    found: object = msgspec.convert(value, kind, strict=False)
    return found


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(value)
    return value


def _duration(value: object) -> timedelta:
    duration = parse_duration(value) if isinstance(value, str) else value
    if not isinstance(duration, timedelta) or duration < timedelta(0):
        raise ValueError(value)
    return duration
