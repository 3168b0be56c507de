"""Plugin arguments: declared with a type, checked before a plugin is built."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from navarch.core.duration import parse_duration
from navarch.core.errors import InvalidError

T = TypeVar("T")


def argument(name: str, *, at_least: float | None = None) -> dict[str, object]:
    """Return the metadata that makes a field of a plugin its argument `name`.

    Values below `at_least` are raised to it.
    """
    return {"argument": name, "at_least": at_least}


class PluginArguments(Mapping[str, object]):
    """What a configuration gives a plugin, for builders that ask for arguments one by one.

    Asking names the argument, its type and its default. What was given and never asked for is
    `unasked`: a misspelling.
    """

    def __init__(self, plugin: str, given: Mapping[str, object]) -> None:
        self._plugin = plugin
        self._given = dict(given)
        self._asked: set[str] = set()

    def __getitem__(self, name: str) -> object:
        self._asked.add(name)
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def get_float(self, name: str, default: float) -> float:
        """Return a number."""
        return self._read(name, default, _parse_float)

    def get_int(self, name: str, default: int) -> int:
        """Return a whole number."""
        return self._read(name, default, _parse_int)

    def get_bool(self, name: str, default: bool) -> bool:
        """Return true or false."""
        return self._read(name, default, _parse_bool)

    def get_str(self, name: str, default: str) -> str:
        """Return a text."""
        return self._read(name, default, _parse_str)

    def get_duration(self, name: str, default: timedelta) -> timedelta:
        """Return a duration."""
        return self._read(name, default, _parse_duration)

    def unasked(self) -> list[str]:
        """Return the names that were given but never asked for."""
        return sorted(set(self._given) - self._asked)

    def _read(self, name: str, default: T, parse: Callable[[object], T]) -> T:
        self._asked.add(name)
        if name not in self._given:
            return default
        try:
            return parse(self._given[name])
        except ValueError as error:
            raise InvalidError(f"plugin {self._plugin!r}, argument {name!r}: {error}") from error


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
        try:
            parsed[item.name] = _bounded(item, _parse(value, hints[item.name]))
        except ValueError as error:
            raise InvalidError(f"plugin {plugin!r}, argument {name!r}: {error}") from error
    return parsed


def arguments_of(schema: Any) -> list[Field[Any]]:  # noqa: ANN401
    """Return the fields of `schema` that are arguments."""
    if not hasattr(schema, "__dataclass_fields__"):
        return []
    return [item for item in fields(schema) if "argument" in item.metadata]


def _bounded(item: Field[Any], value: Any) -> Any:  # noqa: ANN401
    assert item.default is not MISSING, f"argument {item.name} has no default"
    at_least = item.metadata["at_least"]
    return value if at_least is None else max(at_least, value)


def _parse(value: object, kind: Any) -> object:  # noqa: ANN401
    if get_origin(kind) is Literal:
        if value in get_args(kind):
            return value
        raise ValueError(f"{value!r} is not one of {', '.join(map(repr, get_args(kind)))}")
    parser: Callable[[object], object] | None = _PARSERS.get(kind)
    assert parser is not None, f"no argument can be of type {kind}"
    return parser(value)


def _parse_float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is not a number")  # noqa: TRY004
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):  # noqa: PLR0124
        raise ValueError(f"{value!r} is not a finite number")
    return number


def _parse_int(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f"{value!r} is not a whole number")  # noqa: TRY004
    return int(value)


def _parse_bool(value: object) -> bool:
    spellings = {True: True, False: False, "true": True, "false": False}
    if not isinstance(value, bool | str) or value not in spellings:
        raise ValueError(f"{value!r} is neither true nor false")
    return spellings[value]


def _parse_str(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")  # noqa: TRY004
    return value


def _parse_duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    duration = parse_duration(value) if isinstance(value, str) else None
    if duration is None or duration < timedelta(0):
        raise ValueError(f"{value!r} is not a duration such as 90s, 1h30m or 2w")
    return duration


_PARSERS: Final[dict[Any, Callable[[object], object]]] = {
    float: _parse_float,
    int: _parse_int,
    bool: _parse_bool,
    str: _parse_str,
    timedelta: _parse_duration,
}
