"""Bounds on values in requests, so that extreme ones do not break later code."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache

from google.protobuf.message import Message

from navarch.core.errors import InvalidError
from navarch.core.limits import VALUES_PER_REQUEST, Limit
from navarch.core.records import is_record, record_fields

INT_MAX = 2**53
"""Many JSON libraries change larger numbers."""
DURATION_MAX = timedelta(days=3660)
"""Ten years. Adding much more to a date overflows."""
DECIMAL_MAX = Decimal(10) ** 12
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)


def check_limits(value: object, path: str = "$") -> None:
    """Raise InvalidError with the path if anything in `value` is out of bounds."""
    _Check().value(value, path)


def check_json(body: bytes, limit: Limit = VALUES_PER_REQUEST) -> None:
    """Raise InvalidError for JSON with too many values, before time is spent on reading it."""
    # Each value but the first of its object or array follows a comma. Commas in texts count too.
    limit.check(body.count(b","), "$")


def check_message(message: Message) -> None:
    """Raise InvalidError for a message with too many values, before it is converted."""
    _count(message, 0)


def _count(message: Message, values: int) -> int:
    """Return `values` and those in `message`. A long list ends the walk before it begins."""
    for field, value in message.ListFields():
        if isinstance(value, str | bytes | int | float):
            values += 1
            continue
        if field.message_type is None:
            values += len(value)
        elif isinstance(value, Message):
            values = _count(value, values + 1)
        else:
            values += len(value)
            VALUES_PER_REQUEST.check(values, "$")
            is_map = field.message_type.GetOptions().map_entry
            for item in value.values() if is_map else value:
                values = _count(item, values) if isinstance(item, Message) else values + 1
        VALUES_PER_REQUEST.check(values, "$")
    return values


class _Check:
    """One walk through a request, which ends after a limited number of values."""

    def __init__(self) -> None:
        self._values = 0

    def value(self, value: object, path: str) -> None:
        self._values += 1
        if self._values > VALUES_PER_REQUEST.most:
            VALUES_PER_REQUEST.check(self._values, path)
        if value is None or isinstance(value, bool | Enum):
            return
        if isinstance(value, str):
            _check(value.isprintable() or "\0" not in value, path, "must not contain a NUL")
        elif isinstance(value, float):
            _check(abs(value) <= INT_MAX, path, "is not a usable number")
        elif isinstance(value, int):
            _check(-INT_MAX <= value <= INT_MAX, path, "is too large a number")
        elif isinstance(value, Decimal):
            _check(value.is_finite() and 0 <= value <= DECIMAL_MAX, path, "is not a usable amount")
            exponent = value.as_tuple().exponent
            _check(isinstance(exponent, int) and exponent >= -12, path, "has too many decimals")
        elif isinstance(value, timedelta):
            is_within = timedelta(0) <= value <= DURATION_MAX
            _check(is_within, path, f"must be 0 to {DURATION_MAX.days} d")
        elif isinstance(value, datetime):
            _check(value.tzinfo is not None, path, "needs a time zone")
            _check(_EARLIEST <= value <= _LATEST, path, "is out of range")
        else:
            self._parts(value, path)

    def _parts(self, value: object, path: str) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                self.value(key, path)
                self.value(item, f"{path}[{key!r}]")
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                self.value(item, f"{path}[{index}]")
        else:
            kind: type = type(value)
            for name in _names(kind):
                self.value(getattr(value, name), f"{path}.{name}")


@cache
def _names(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a record; none for any other value."""
    return tuple(part.name for part in record_fields(kind)) if is_record(kind) else ()


def _check(holds: bool, path: str, complaint: str) -> None:
    if not holds:
        raise InvalidError(f"{complaint} - at `{path}`")
