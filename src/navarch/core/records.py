"""Records, `msgspec` structs and dataclasses alike: changed copies, and their fields."""

from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import msgspec

__all__ = ["RecordField", "evolve", "is_record", "record_fields"]

if TYPE_CHECKING:
    # mypy checks each new value against its field's type only through `dataclasses.replace`.
    from dataclasses import replace as evolve
else:
    from msgspec.structs import replace as evolve


class RecordField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a record."""

    name: str
    required: bool
    default: object = None
    """The default value; None if the field is required or has a default factory."""


def is_record(value: object) -> bool:
    """Return whether `value` is a struct, a dataclass or a class of either kind."""
    kind = value if isinstance(value, type) else type(value)
    return issubclass(kind, msgspec.Struct) or is_dataclass(kind)


def record_fields(record: Any) -> tuple[RecordField, ...]:  # noqa: ANN401 - any record
    """Return the fields of a record or of its class, in order."""
    kind = record if isinstance(record, type) else type(record)
    if issubclass(kind, msgspec.Struct):
        return tuple(
            RecordField(
                name=field.name,
                required=field.required,
                default=None if field.default is msgspec.NODEFAULT else field.default,
            )
            for field in msgspec.structs.fields(kind)
        )
    return tuple(
        RecordField(
            name=field.name,
            required=field.default is MISSING and field.default_factory is MISSING,
            default=None if field.default is MISSING else field.default,
        )
        for field in fields(kind)  # type: ignore[arg-type]
    )
