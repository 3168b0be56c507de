"""Simulated clouds: boot times, prices, failures of their API and capacity over time."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from decimal import Decimal

from navarch.config.block import Nested
from navarch.config.kinds import (
    BOOLEAN,
    DURATION_OR_ZERO,
    MONEY,
    TEXT,
    Integer,
    ListOf,
    MapOf,
)
from navarch.config.schema import Fault, block, key
from navarch.providers.simulated import Habits
from navarch.sim.scenario.files import CapacityPath, CapacityStep
from navarch.sim.scenario.kinds import SHARE


def _check_boot_times(boot_min: timedelta, boot_max: timedelta) -> Iterator[Fault]:
    if boot_min > boot_max:
        yield Fault(at=("boot_min",), message="boot_min is above boot_max", remedy="swap the two")


@block(rules=(_check_boot_times,))
class CloudConfig:
    """A simulated cloud. Shares are of all calls, from 0 to 1."""

    name: str
    boot_min: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(seconds=60), doc="the shortest boot"
    )
    boot_max: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(seconds=180), doc="the longest boot"
    )
    listing_lag: timedelta = key(
        DURATION_OR_ZERO, default=timedelta(0), doc="how stale its listings can be"
    )
    gpu_count: int = key(
        Integer(least=1, most=1024), default=8, doc="GPUs of an unknown instance type"
    )
    gpu_type: str = key(TEXT, default="", doc="the model of those GPUs")
    price_per_hour: Decimal = key(
        MONEY, default=Decimal("23.92"), doc="the price of instance types that `prices` lacks"
    )
    prices: Mapping[str, Decimal] = key(
        MapOf(each=MONEY), default_factory=dict, doc="the price per hour of each instance type"
    )
    sold_out: float = key(SHARE, default=0.0, doc="launches refused for lack of capacity")
    transient: float = key(SHARE, default=0.0, doc="calls that fail because the cloud is busy")
    mute: float = key(SHARE, default=0.0, doc="calls that have no effect and get no answer")
    lie: float = key(SHARE, default=0.0, doc="calls that take effect but get no answer")
    both: float = key(SHARE, default=0.0, doc="launches that are refused and start a machine")
    hang: float = key(SHARE, default=0.0, doc="calls answered only after many minutes")
    dead_on_arrival: float = key(SHARE, default=0.0, doc="launches whose machine never comes up")
    remembers_tokens: bool = key(
        BOOLEAN, default=True, doc="whether a repeated launch with the same token is idempotent"
    )
    capacity: tuple[CapacityStep, ...] = key(
        ListOf(each=Nested(cls=CapacityStep)), default=(), doc="capacity over time"
    )
    capacity_trace: tuple[CapacityStep, ...] = key(
        CapacityPath(), default=(), doc="capacity over time, from a CSV file"
    )

    @property
    def steps(self) -> tuple[CapacityStep, ...]:
        """Every change of capacity, in order of time."""
        return tuple(sorted((*self.capacity, *self.capacity_trace), key=lambda step: step.at))

    @property
    def habits(self) -> Habits:
        """The behaviour of the simulated provider."""
        return Habits(
            boot_s=(self.boot_min.total_seconds(), self.boot_max.total_seconds()),
            listing_lag_s=self.listing_lag.total_seconds(),
            sold_out=self.sold_out,
            transient=self.transient,
            mute=self.mute,
            lie=self.lie,
            both=self.both,
            hang=self.hang,
            dead_on_arrival=self.dead_on_arrival,
            remembers_tokens=self.remembers_tokens,
        )
