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
from navarch.providers.simulated import ApiFailure, Habits
from navarch.sim.scenario.files import CapacityPath, CapacityStep
from navarch.sim.scenario.kinds import SHARE
from navarch.sim.scenario.market import ApiOutage, PriceChange, QuotaStep, SpotReclaim

PER = Integer(least=1, most=100_000, example="8")


def _check_rack_is_known(
    switch: int | None, power_feed: int | None, rack: int | None
) -> Iterator[Fault]:
    for name, racks in (("switch", switch), ("power_feed", power_feed)):
        if racks is not None and rack is None:
            yield Fault(
                f"{name} is a number of racks, and rack is not given",
                "add rack: 18, for example: the machines in a rack",
                at=(name,),
            )


@block(rules=(_check_rack_is_known,))
class LayoutConfig:
    """The position of machines, which their agents report as labels of the same names.

    Machines fill racks in the order in which they are bought. A place is not let again, so the
    successor of a machine is in another rack.
    """

    rack: int | None = key(PER, "machines per rack; no label if left out", default=None)
    switch: int | None = key(PER, "racks per network switch; no label if left out", default=None)
    power_feed: int | None = key(PER, "racks per power feed; no label if left out", default=None)
    nvlink_domain: int | None = key(
        PER, "machines per NVLink domain; no label if left out", default=None
    )

    def labels(self, where: str, number: int) -> Mapping[str, str]:
        """Return the labels of the machine of that number at a place, counted from zero."""
        found = {}
        if self.rack is not None:
            rack = number // self.rack
            found["rack"] = f"{where}-rack-{rack}"
            for name, racks in (("switch", self.switch), ("power_feed", self.power_feed)):
                if racks is not None:
                    found[name] = f"{where}-{name.replace('_', '-')}-{rack // racks}"
        if self.nvlink_domain is not None:
            found["nvlink_domain"] = f"{where}-nvlink-{number // self.nvlink_domain}"
        return found


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
    spot_prices: Mapping[str, Decimal] = key(
        MapOf(each=MONEY),
        "the price per hour of spot machines of each type; the price on demand if left out",
        default_factory=dict,
    )
    price_changes: tuple[PriceChange, ...] = key(
        ListOf(each=Nested(cls=PriceChange)), "prices over time", default=()
    )
    layout: LayoutConfig = key(
        Nested(cls=LayoutConfig),
        "the racks, switches and power feeds of its zones",
        default=LayoutConfig(),
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
    quotas: tuple[QuotaStep, ...] = key(
        ListOf(each=Nested(cls=QuotaStep)), "the quotas of the account over time", default=()
    )
    spot_reclaims: tuple[SpotReclaim, ...] = key(
        ListOf(each=Nested(cls=SpotReclaim)), "reclaims of spot machines", default=()
    )
    api_outages: tuple[ApiOutage, ...] = key(
        ListOf(each=Nested(cls=ApiOutage)), "periods in which its API fails", default=()
    )

    @property
    def steps(self) -> tuple[CapacityStep, ...]:
        """Every change of capacity, in order of time."""
        return tuple(sorted((*self.capacity, *self.capacity_trace), key=lambda step: step.at))

    @property
    def moments(self) -> tuple[timedelta, ...]:
        """Every moment at which something about it changes, in order."""
        found = {step.at for step in self.steps}
        found |= {change.at for change in self.price_changes} | {step.at for step in self.quotas}
        for outage in self.api_outages:
            found |= {outage.at, outage.at + outage.duration}
        return tuple(sorted(found))

    def prices_at(self, moment: timedelta) -> tuple[Mapping[str, Decimal], Mapping[str, Decimal]]:
        """Return the prices on demand and of spot machines at a moment."""
        past = sorted((x for x in self.price_changes if x.at <= moment), key=lambda x: x.at)
        return (
            {**self.prices, **{x.instance_type: x.price_per_hour for x in past if not x.spot}},
            {**self.spot_prices, **{x.instance_type: x.price_per_hour for x in past if x.spot}},
        )

    def quotas_at(self, moment: timedelta) -> Mapping[str, int]:
        """Return the quotas at a moment, by type."""
        past = sorted((x for x in self.quotas if x.at <= moment), key=lambda x: x.at)
        return {step.instance_type: step.machines for step in past}

    def outages_at(self, moment: timedelta) -> Mapping[str, ApiFailure]:
        """Return how calls fail at a moment, by zone."""
        return {
            outage.zone: outage.failure
            for outage in self.api_outages
            if outage.at <= moment < outage.at + outage.duration
        }

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
            announces=any(each.notice for each in self.spot_reclaims),
        )
