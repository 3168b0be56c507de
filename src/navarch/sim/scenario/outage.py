"""Outages: many machines at once, for a while."""

from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum

from navarch.config.kinds import DURATION, DURATION_OR_ZERO, TEXT, Choice
from navarch.config.schema import Fault, block, key
from navarch.sim.scenario.words import ByChance, FailureType


class OutageScope(StrEnum):
    """What goes out."""

    ZONE = "zone"
    REGION = "region"
    PROVIDER = "provider"
    PERCENTAGE = "percentage"


def percentage(text: str) -> float | None:
    """Return the share of a fleet that a text names in percent, if it does."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        return None
    return value / 100 if 0 <= value <= 100 else None


def _a_share(scope: OutageScope, target: str) -> Iterator[Fault]:
    if scope is OutageScope.PERCENTAGE and percentage(target) is None:
        yield Fault(
            at=("target",),
            message=f'target must be a percentage, not "{target}"',
            remedy='write target: "10" for a tenth of the fleet',
        )


@block(rules=(_a_share,))
class Outage:
    """One of them. When it is over, its machines are sound again."""

    name: str = key(TEXT, doc="what to call it")
    start_time: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="when, counted from the end of the start-up"
    )
    duration: timedelta = key(DURATION, doc="for how long")
    scope: OutageScope = key(Choice(options=OutageScope), doc="what goes out")
    target: str = key(TEXT, doc="which zone, region or provider, or how many percent")
    failure_type: FailureType = key(
        ByChance(options=FailureType),
        default=FailureType.XID_ERROR,
        doc="how; `xid_error` is XID 79",
    )
