"""Money: exact, in the currency of the price."""

from datetime import datetime, timedelta
from decimal import Decimal

_MICROSECONDS_PER_HOUR = Decimal(3_600_000_000)


def cost(price_per_hour: Decimal, start: datetime, end: datetime) -> Decimal:
    """Return the price of a machine from `start` to `end`, charged by the microsecond."""
    if end <= start:
        return Decimal(0)
    microseconds = (end - start) // timedelta(microseconds=1)
    return price_per_hour * microseconds / _MICROSECONDS_PER_HOUR
