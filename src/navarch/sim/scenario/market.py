"""Changes of a simulated market over time: prices, quotas, spot reclaims, outages of the API."""

from datetime import timedelta
from decimal import Decimal

from navarch.config.kinds import (
    BOOLEAN,
    DURATION,
    DURATION_OR_ZERO,
    MONEY,
    TEXT,
    Choice,
    Integer,
    Real,
)
from navarch.config.schema import block, key
from navarch.providers.simulated import ApiFailure


@block()
class PriceChange:
    """Another price from a moment on. A machine keeps the price at which it was bought."""

    at: timedelta = key(DURATION_OR_ZERO, "when it changes")
    instance_type: str = key(TEXT, "the instance type")
    price_per_hour: Decimal = key(MONEY, "the new price")
    spot: bool = key(BOOLEAN, "whether it is the price of spot machines", default=False)


@block()
class QuotaStep:
    """The number of machines of one type that the account may have from a moment on."""

    at: timedelta = key(DURATION_OR_ZERO, "the moment it begins", default=timedelta(0))
    instance_type: str = key(TEXT, "the instance type; `TYPE spot` for its spot machines")
    machines: int = key(
        Integer(least=0, most=1_000_000), "how many; further launches are refused for the quota"
    )


@block()
class SpotReclaim:
    """A period in which the cloud takes spot machines back, each at a random moment."""

    at: timedelta = key(DURATION_OR_ZERO, "when it begins", default=timedelta(0))
    duration: timedelta | None = key(
        DURATION, "how long it lasts; until the end if left out", default=None
    )
    rate: float = key(
        Real(most=3600.0, example="0.05"), "reclaims per spot machine and hour; 0.05 is 5 %"
    )
    zone: str = key(TEXT, "the zone of the machines; every zone if left out", default="")
    instance_type: str = key(TEXT, "their type; every type if left out", default="")
    notice: timedelta = key(
        DURATION_OR_ZERO, "how long before the reclaim it is announced", default=timedelta(0)
    )


@block()
class ApiOutage:
    """A period in which calls to the cloud fail."""

    at: timedelta = key(DURATION_OR_ZERO, "when it begins")
    duration: timedelta = key(DURATION, "how long it lasts")
    failure: ApiFailure = key(
        Choice(options=ApiFailure),
        "an error at once; no effect and no answer; or an answer ten minutes late",
        default=ApiFailure.FAIL,
    )
    zone: str = key(
        TEXT,
        "the zone in which no machine can be launched, restarted or terminated; every call, also "
        "listings, if left out",
        default="",
    )
