"""Cascades: failures that bring others with them."""

from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum

from navarch.config.kinds import BOOLEAN, DURATION_OR_ZERO, Choice, Integer
from navarch.config.schema import Fault, block, key
from navarch.sim.scenario.words import ANY_NUMBER, SHARE

DEPTH = 3


class CascadeScope(StrEnum):
    """How near a machine must be to be drawn in."""

    RACK = "rack"
    ZONE = "zone"
    REGION = "region"
    PROVIDER = "provider"
    RANDOM = "random"


def _a_probability(probability: float) -> Iterator[Fault]:
    if not 0 <= probability <= 1:
        yield Fault(
            at=("probability",),
            message="cascading.probability must be between 0 and 1",
            remedy="write 0.15 for 15 of 100",
        )


def _order(min_delay: timedelta, max_delay: timedelta) -> Iterator[Fault]:
    if min_delay > max_delay:
        yield Fault(
            at=("min_delay",), message="min_delay is above max_delay", remedy="swap the two"
        )


@block(rules=(_a_probability, _order))
class Cascading:
    """Whether, how far and how fast failures spread."""

    enabled: bool = key(BOOLEAN, default=False, doc="whether they do")
    probability: float = key(ANY_NUMBER, default=0.0, doc="how likely a failure spreads")
    max_depth: int = key(
        Integer(least=-1, most=1000), default=DEPTH, doc="over how many steps; 3 if not positive"
    )
    min_delay: timedelta = key(DURATION_OR_ZERO, default=timedelta(0), doc="the quickest step")
    max_delay: timedelta = key(DURATION_OR_ZERO, default=timedelta(0), doc="the slowest step")
    scope: CascadeScope = key(
        Choice(options=CascadeScope), default=CascadeScope.RANDOM, doc="among whom"
    )
    max_affected_percent: float = key(
        SHARE,
        default=1.0,
        doc="the share of the machines around that may be failed by cascades at once; 0.1 is 10 %",
    )

    @property
    def depth(self) -> int:
        """Over how many steps a failure spreads."""
        return self.max_depth if self.max_depth > 0 else DEPTH
