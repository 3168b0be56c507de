"""Conversion of dataclasses to protobuf messages and back, by the names of their fields.

A field that a message leaves out takes the default of the dataclass. A test compares every such
dataclass with its message, so that neither has a field that the other lacks.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from navarch.core.errors import InvalidError
from navarch.core.records import is_record, record_fields

M = TypeVar("M", bound=Message)

_UNSPECIFIED = "UNSPECIFIED"


def write_message(value: object, message: M) -> M:
    """Return `message` filled with the fields of the record `value`."""
    for name, field in _fields_of(message.DESCRIPTOR).items():
        _write(message, field, getattr(value, name))
    return message


def write_fields(values: Mapping[str, object], message: M) -> M:
    """Return `message` filled with `values`."""
    known = _fields_of(message.DESCRIPTOR)
    for name, value in values.items():
        _write(message, known[name], value)
    return message


def read_message(kind: Any, message: Message, path: str = "$") -> Any:  # noqa: ANN401
    """Return `message` as a value of the dataclass `kind`.

    Raises InvalidError with the path of the mistake if it is not valid.
    """
    origin = get_origin(kind) or kind
    values = read_fields(hints_of(kind), message, path, absent_ok=_defaults(origin))
    return origin(**values)


def read_fields(
    hints: Mapping[str, Any],
    message: Message,
    path: str = "$",
    *,
    absent_ok: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Return the fields of `message` as the types in `hints`.

    Absent fields are left out if they are in `absent_ok`.
    """
    known = _fields_of(message.DESCRIPTOR)
    values = {}
    for name, hint in hints.items():
        value = _read(message, known[name], hint, f"{path}.{name}")
        if value is not None:
            values[name] = value
        elif name not in absent_ok:
            values[name] = _absent(hint, f"{path}.{name}")
    return values


def _absent(hint: Any, path: str) -> Any:  # noqa: ANN401
    if _optional(hint):
        return None
    # If every field has a default, an absent message means an empty one.
    if is_record(hint) and len(_defaults(hint)) == len(record_fields(hint)):
        return hint()
    raise InvalidError(f"required - at `{path}`")


@cache
def hints_of(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a record, or Page[NodeView]
    """Return the types of a record's fields."""
    origin = get_origin(kind) or kind
    hints = get_type_hints(origin)
    arguments = get_args(kind)
    return {
        part.name: hints[part.name][arguments]
        if arguments and getattr(hints[part.name], "__parameters__", ())
        else hints[part.name]
        for part in record_fields(origin)
    }


@cache
def _defaults(kind: type) -> frozenset[str]:
    return frozenset(part.name for part in record_fields(kind) if not part.required)


@cache
def _fields_of(kind: Descriptor) -> dict[str, Any]:
    return {field.name: field for field in kind.fields}


@cache
def _optional(hint: Any) -> bool:  # noqa: ANN401
    return get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)


@cache
def _present(hint: Any) -> Any:  # noqa: ANN401
    """Return the type of a present value: `X` for `X | None`, `str` for a NewType of it."""
    if _optional(hint):
        hint = next(option for option in get_args(hint) if option is not NoneType)
    return getattr(hint, "__supertype__", hint)


@cache
def _item(hint: Any) -> Any:  # noqa: ANN401
    """Return the type of the items of a sequence, or of the values of a mapping."""
    arguments = get_args(hint)
    return arguments[1] if issubclass(get_origin(hint), Mapping) else arguments[0]


@cache
def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


@cache
def _enum_prefix(enum: EnumDescriptor) -> str:
    return enum.values[0].name.removesuffix(_UNSPECIFIED)


def _write(message: Message, field: FieldDescriptor, value: Any) -> None:  # noqa: ANN401
    if value is None:
        return
    place = getattr(message, field.name)
    if _is_map(field):
        place.update(value)
    elif field.is_repeated and field.message_type is not None:
        for item in value:
            write_message(item, place.add())
    elif field.is_repeated and field.enum_type is not None:
        place.extend(_enum_number(field.enum_type, item) for item in value)
    elif field.is_repeated:
        place.extend(value)
    elif field.message_type is not None:
        place.SetInParent()
        if isinstance(place, Timestamp):
            place.FromDatetime(value)
        elif isinstance(place, Duration):
            place.FromTimedelta(value)
        else:
            write_message(value, place)
    elif field.enum_type is not None:
        setattr(message, field.name, _enum_number(field.enum_type, value))
    else:
        plain = str(value) if isinstance(value, Decimal | StrEnum) else value
        setattr(message, field.name, plain)


def _enum_number(enum: EnumDescriptor, value: Any) -> int:  # noqa: ANN401
    number: int = enum.values_by_name[_enum_prefix(enum) + value.name].number
    return number


def _read(message: Message, field: FieldDescriptor, hint: Any, path: str) -> Any:  # noqa: ANN401
    """Return the value, or None if it is absent."""
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    kind = _present(hint)
    if _is_map(field):
        return dict(value)
    if field.is_repeated:
        if field.enum_type is None and field.message_type is None:
            return tuple(value)
        item = _item(kind)
        return tuple(_read_item(field, item, x, f"{path}[{i}]") for i, x in enumerate(value))
    if kind is datetime:
        return _converted(lambda: value.ToDatetime(tzinfo=UTC), path)
    if kind is timedelta:
        return _converted(value.ToTimedelta, path)
    if field.message_type is not None:
        return read_message(kind, value, path)
    if field.enum_type is not None:
        return _read_enum(field.enum_type, kind, value, path)
    if kind is Decimal:
        return _converted(lambda: Decimal(value), path)
    return value


def _read_item(field: FieldDescriptor, kind: Any, value: Any, path: str) -> Any:  # noqa: ANN401
    """Return an item of a repeated field; unlike a field, it cannot be absent."""
    if field.message_type is not None:
        return read_message(kind, value, path)
    assert field.enum_type is not None, field.name
    found = _read_enum(field.enum_type, kind, value, path)
    if found is None:
        raise InvalidError(f"required - at `{path}`")
    return found


def _read_enum(enum: EnumDescriptor, kind: Any, number: int, path: str) -> Any:  # noqa: ANN401
    if number not in enum.values_by_number:
        raise InvalidError(f"{number} is no {enum.name} - at `{path}`")
    word = enum.values_by_number[number].name.removeprefix(_enum_prefix(enum))
    return None if word == _UNSPECIFIED else kind[word]


def _converted(convert: Callable[[], Any], path: str) -> Any:  # noqa: ANN401
    try:
        return convert()
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise InvalidError(f"cannot be read - at `{path}`") from error
