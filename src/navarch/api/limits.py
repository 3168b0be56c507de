"""Bounds on values in requests, so that extreme ones do not break later code."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum

from navarch.core.errors import InvalidError
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
    if value is None or isinstance(value, bool | Enum):
        return
    if isinstance(value, str):
        _check(value.isprintable() or "\0" not in value, path, "must not contain a NUL")
    elif isinstance(value, int):
        _check(-INT_MAX <= value <= INT_MAX, path, "is too large a number")
    elif isinstance(value, float):
        _check(abs(value) <= INT_MAX, path, "is not a usable number")
    elif isinstance(value, Decimal):
        _check(value.is_finite() and 0 <= value <= DECIMAL_MAX, path, "is not a usable amount")
        exponent = value.as_tuple().exponent
        _check(isinstance(exponent, int) and exponent >= -12, path, "has too many decimals")
    elif isinstance(value, timedelta):
        _check(timedelta(0) <= value <= DURATION_MAX, path, f"must be 0 to {DURATION_MAX.days} d")
    elif isinstance(value, datetime):
        _check(value.tzinfo is not None, path, "needs a time zone")
        _check(_EARLIEST <= value <= _LATEST, path, "is out of range")
    else:
        _check_parts(value, path)


def _check_parts(value: object, path: str) -> None:
    if is_record(value):
        for part in record_fields(value):
            check_limits(getattr(value, part.name), f"{path}.{part.name}")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            check_limits(key, path)
            check_limits(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            check_limits(item, f"{path}[{index}]")


def _check(holds: bool, path: str, complaint: str) -> None:
    if not holds:
        raise InvalidError(f"{complaint} - at `{path}`")
