"""Start-up: how a generated fleet comes up."""

from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum

from navarch.config.kinds import DURATION_OR_ZERO, Choice, Integer, Real
from navarch.config.schema import Fault, block, key


class Pattern(StrEnum):
    """The order in which machines are started."""

    INSTANT = "instant"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    WAVE = "wave"


_USUAL = {
    Pattern.INSTANT: timedelta(0),
    Pattern.LINEAR: timedelta(seconds=30),
    Pattern.EXPONENTIAL: timedelta(minutes=2),
    Pattern.WAVE: timedelta(minutes=5),
}


def _order(cold_start_min: timedelta | None, cold_start_max: timedelta | None) -> Iterator[Fault]:
    if cold_start_min and cold_start_max and cold_start_min > cold_start_max:
        yield Fault(
            at=("cold_start_min",),
            message="cold_start_min is above cold_start_max",
            remedy="swap the two",
        )


def _spread_of_something(
    cold_start_mean: timedelta | None, cold_start_stddev: timedelta | None
) -> Iterator[Fault]:
    if cold_start_stddev is not None and cold_start_mean is None:
        yield Fault(
            at=("cold_start_stddev",),
            message="cold_start_stddev needs cold_start_mean",
            remedy="add cold_start_mean, or leave cold_start_stddev out",
        )


@block(rules=(_order, _spread_of_something))
class Startup:
    """When each machine is started, and how long it then takes until its agent is up."""

    pattern: Pattern = key(
        Choice(options=Pattern, unknown="unknown startup pattern"),
        default=Pattern.LINEAR,
        doc="all at once, evenly, in doubling batches, or in batches of `batch_size`",
    )
    duration: timedelta | None = key(
        DURATION_OR_ZERO, default=None, doc="how long it takes; 30s, 2m or 5m if left out"
    )
    batch_size: int = key(Integer(least=1, most=100_000), default=100, doc="for `wave`")
    jitter_percent: float = key(
        Real(most=100.0),
        default=0.0,
        doc="how far each start strays from its moment, as a share of the time between starts",
    )
    cold_start_min: timedelta | None = key(DURATION_OR_ZERO, default=None, doc="the shortest boot")
    cold_start_max: timedelta | None = key(DURATION_OR_ZERO, default=None, doc="the longest boot")
    cold_start_mean: timedelta | None = key(
        DURATION_OR_ZERO, default=None, doc="the usual boot, if boots are spread normally"
    )
    cold_start_stddev: timedelta | None = key(
        DURATION_OR_ZERO, default=None, doc="how widely they are spread"
    )

    @property
    def takes(self) -> timedelta:
        """How long it takes to start them all."""
        if self.pattern is Pattern.INSTANT:
            return timedelta(0)
        return _USUAL[self.pattern] if self.duration is None else self.duration


USUAL = Startup(jitter_percent=10.0)
"""What holds where a scenario says nothing about it."""
