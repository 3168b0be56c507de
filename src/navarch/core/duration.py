"""Durations as text, and the delay before a retry."""

import re
from datetime import timedelta
from decimal import Decimal

_UNITS_US = {
    "ns": Decimal("0.001"),
    "us": Decimal(1),
    "µs": Decimal(1),
    "μs": Decimal(1),
    "ms": Decimal(1000),
    "s": Decimal(1_000_000),
    "m": Decimal(60_000_000),
    "h": Decimal(3_600_000_000),
    "d": Decimal(24 * 3_600_000_000),
    "w": Decimal(7 * 24 * 3_600_000_000),
}
_PART = re.compile(r"(\d{1,19}(?:\.\d{0,19})?|\.\d{1,19})(ns|us|µs|μs|ms|s|m|h|d|w)", re.ASCII)
_WHOLE = re.compile(rf"([-+]?)((?:{_PART.pattern})+|0)", re.ASCII)

_LONGEST_US = Decimal((1 << 63) - 1) / 1000
"""About 292 years: Go counts nanoseconds in 64 bits."""

_TEXT_MAX = 64


def parse_duration(text: str) -> timedelta | None:
    """Return the duration that `text` names, or None if it names none.

    A number without a unit is no duration, except `0`.
    """
    whole = _WHOLE.fullmatch(text) if len(text) <= _TEXT_MAX else None
    if whole is None:
        return None
    parts = _PART.findall(whole[2])
    total = sum((Decimal(number) * _UNITS_US[unit] for number, unit in parts), Decimal(0))
    if total > _LONGEST_US:
        return None
    sign = -1 if whole[1] == "-" else 1
    return timedelta(microseconds=sign * int(total))


def render_duration(duration: timedelta) -> str:
    """Return the text that `parse_duration` reads back as `duration`, without zero parts."""
    microseconds = duration // timedelta(microseconds=1)
    if microseconds == 0:
        return "0s"
    sign, rest = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    text = ""
    for unit, size in (
        ("h", 3_600_000_000),
        ("m", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1000),
        ("us", 1),
    ):
        count, rest = divmod(rest, size)
        if count:
            text += f"{count}{unit}"
    return sign + text


DOUBLINGS_MAX = 60
"""Beyond this, doubling would overflow a float in the end; every limit is reached earlier."""


def backoff_s(failures: int, *, first_s: float, longest_s: float) -> float:
    """Return the seconds to wait after that many failures in a row.

    The delay starts at `first_s` and doubles up to `longest_s`. It has no jitter: callers that
    may retry at the same time add it.
    """
    doublings = min(max(failures, 1) - 1, DOUBLINGS_MAX)
    return min(first_s * 2.0**doublings, longest_s)
