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
        yield Fault("boot_min is above boot_max", "swap the two", at=("boot_min",))


@block(rules=(_check_boot_times,))
class CloudConfig:
    """A simulated cloud. Shares are of all calls, from 0 to 1."""

    name: str
    boot_min: timedelta = key(DURATION_OR_ZERO, "the shortest boot", default=timedelta(seconds=60))
    boot_max: timedelta = key(DURATION_OR_ZERO, "the longest boot", default=timedelta(seconds=180))
    listing_lag: timedelta = key(
        DURATION_OR_ZERO, "how stale its listings can be", default=timedelta(0)
    )
    gpu_count: int = key(Integer(least=1, most=1024), "GPUs of an unknown instance type", default=8)
    gpu_type: str = key(TEXT, "the model of those GPUs", default="")
    price_per_hour: Decimal = key(
        MONEY, "the price of instance types that `prices` lacks", default=Decimal("23.92")
    )
    prices: Mapping[str, Decimal] = key(
        MapOf(each=MONEY), "the price per hour of each instance type", default_factory=dict
    )
    sold_out: float = key(SHARE, "launches refused for lack of capacity", default=0.0)
    transient: float = key(SHARE, "calls that fail because the cloud is busy", default=0.0)
    mute: float = key(SHARE, "calls that have no effect and get no answer", default=0.0)
    lie: float = key(SHARE, "calls that take effect but get no answer", default=0.0)
    both: float = key(SHARE, "launches that are refused and start a machine", default=0.0)
    hang: float = key(SHARE, "calls answered only after many minutes", default=0.0)
    dead_on_arrival: float = key(SHARE, "launches whose machine never comes up", default=0.0)
    remembers_tokens: bool = key(
        BOOLEAN, "whether a repeated launch with the same token is idempotent", default=True
    )
    capacity: tuple[CapacityStep, ...] = key(
        ListOf(each=Nested(cls=CapacityStep)), "capacity over time", default=()
    )
    capacity_trace: tuple[CapacityStep, ...] = key(
        CapacityPath(), "capacity over time, from a CSV file", default=()
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
