"""JSON documents converted to typed entries, with errors that name the place and the remedy."""

import json
import math
import re
import reprlib
from dataclasses import fields
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NoReturn, Self, TypeVar, Union, get_args, get_origin
from typing import get_type_hints as hints_of

import msgspec
from msgspec import UNSET, Meta, UnsetType

from navarch.core.errors import InvalidError

T = TypeVar("T")

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Amount = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=-5e10, le=5e10)]
Minutes = Annotated[float, Meta(ge=-1e9, le=1e9)]
Period = Annotated[float, Meta(ge=0, le=5e10)]
"""Times beyond these bounds, more than 1,500 years, cannot be added to a date."""

MAPS: Final = frozenset({"labels", "pod_labels", "node_selector", "mig", "instances", "usage"})
OPEN: Final = frozenset({"parameters", "arguments"})
"""Null is a value in these objects; in all others it means the same as a missing field."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the objects in a file."""

    @classmethod
    def like(cls, source: object, **others: Any) -> Self:  # noqa: ANN401
        """Return an entry with the attributes of `source` that it has fields for, and `others`.

        Nothing is validated: an invalid cluster can be rendered.
        """
        names = [name for name in cls.__struct_fields__ if hasattr(source, name)]
        return cls(**{name: getattr(source, name) for name in names} | others)


def copy_as(source: object, kind: type[T], **others: object) -> T:
    """Return a `kind` with the attributes of `source` that it has fields for, and `others`."""
    names = [field.name for field in fields(kind) if hasattr(source, field.name)]  # type: ignore[arg-type]
    values = {name: getattr(source, name) for name in names} | others
    return msgspec.convert(values, kind, from_attributes=True)


def read_document(text: str | bytes) -> object:
    """Return the JSON document in `text` as plain values.

    Whole numbers may be written with a decimal point. Numbers that are not finite become text, so
    that the conversion rejects them with their path.

    Raises:
        InvalidError: The text is not JSON.
    """
    try:
        document: object = json.loads(text, parse_float=_parse_float, parse_constant=str)
    except ValueError as error:
        raise InvalidError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidError("not a snapshot: nested too deeply") from error
    return document


def convert(value: object, kind: type[T], path: str = "") -> T:
    """Return `value` as `kind`; errors begin with the path of the field, below `path`.

    Raises:
        InvalidError: A field is missing, unknown, or of the wrong type or size.
    """
    try:
        value = _without_nulls(value)
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidError(_explain(str(error), value, kind, path)) from error
    except UnicodeEncodeError as error:
        raise InvalidError(f"{path or 'document'}: {error.object!r} is not Unicode text") from error
    except RecursionError as error:
        raise InvalidError(f"{path or 'document'}: nested too deeply") from error


def given(value: T | UnsetType) -> T | None:
    """Return a field's value, None if the field is missing."""
    return None if value is UNSET else value


def reject(path: str, why: str) -> NoReturn:
    """Raise an error about the field at `path`."""
    raise InvalidError(f"{path or 'document'}: {why}")


def join(path: str, field: str) -> str:
    """Return the path of a field of the object at `path`."""
    return f"{path}.{field}" if path else field


def _without_nulls(value: object) -> object:
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item if key in MAPS or key in OPEN else _without_nulls(item)
        for key, item in value.items()
        if item is not None
    }


def _parse_float(text: str) -> float | str:
    number = float(text)
    if not math.isfinite(number):
        return text
    return int(number) if number.is_integer() else number


_LOCATED: Final = re.compile(r"(.*?)(?: - at (?:`key` in )?`\$(.*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_FIELD: Final = re.compile(r"Object (missing required|contains unknown) field `(.*)`", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `([a-z |]+)`(.*?)(?:, got `.*`)?", re.DOTALL)
_TYPES: Final = {
    "array": "a list",
    "bool": "true or false",
    "datetime": "a time",
    "float": "a number",
    "int": "a whole number",
    "object": "an object",
    "str": "text",
}


def _explain(message: str, value: Any, kind: Any, path: str) -> str:  # noqa: ANN401
    """Return msgspec's message as `path: problem`, with the value or the names that are allowed."""
    located = _LOCATED.fullmatch(message)
    assert located is not None, message
    problem, place = located.groups()
    for field, index in _STEP.findall(place or ""):
        kind = _without_null(kind)
        if field:
            attribute = kind.__struct_fields__[kind.__struct_encode_fields__.index(field)]
            kind = hints_of(kind, include_extras=True)[attribute]
            value, path = value[field], join(path, field)
        elif index == "...":
            kind = get_args(kind)[1]
            key = next(key for key in value if not _converts(value[key], kind))
            value, path = value[key], join(path, key)
        else:
            kind, value, path = get_args(kind)[0], value[int(index)], f"{path}[{index}]"
    return _describe(problem, value, _without_null(kind), path)


def _describe(problem: str, value: object, kind: Any, path: str) -> str:  # noqa: ANN401
    if named := _FIELD.fullmatch(problem):
        fault, field = named.groups()
        if fault == "missing required":
            return f"{path or 'document'}: {field} is missing"
        known = ", ".join(sorted(kind.__struct_encode_fields__))
        return f"{join(path, field)}: unknown field; known fields: {known}"
    if expected := _EXPECTED.fullmatch(problem):
        names, bound = expected.groups()
        types = " or ".join(_TYPES[name] for name in names.split(" | ") if name != "null")
        problem = f"must be {types}{bound}, not {reprlib.repr(value)}"
    elif isinstance(kind, type) and issubclass(kind, StrEnum):
        problem = f"{value!r} is not one of {', '.join(kind)}"
    elif "datetime" in problem:
        problem = f"must be a time such as 2026-01-01T00:00:00+00:00, not {value!r}"
    return f"{path or 'document'}: {problem}"


def _without_null(kind: Any) -> Any:  # noqa: ANN401
    """Return the type of the values of an optional or constrained field."""
    if get_origin(kind) in {Union, UnionType}:
        choices = [choice for choice in get_args(kind) if choice not in {NoneType, UnsetType}]
        return _without_null(choices[0])
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _converts(value: object, kind: Any) -> bool:  # noqa: ANN401
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
