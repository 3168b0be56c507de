"""Clouds to buy from, with their habits and what they have in stock when."""

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import timedelta
from decimal import Decimal

from navarch.config.block import Nested
from navarch.config.context import Scope
from navarch.config.document import Items, Tree
from navarch.config.kinds import (
    BOOLEAN,
    DURATION_OR_ZERO,
    MONEY,
    TEXT,
    FilePath,
    Integer,
    ListOf,
    MapOf,
)
from navarch.config.schema import Fault, block, key
from navarch.providers.simulated import Habits
from navarch.sim.scenario.words import SHARE


@block()
class CapacityStep:
    """How many machines of a type can be had from some moment on."""

    at: timedelta = key(DURATION_OR_ZERO, default=timedelta(0), doc="from when on")
    instance_type: str = key(TEXT, doc="of which type")
    machines: int = key(Integer(least=0, most=1_000_000), doc="how many at once, ours included")
    reclaim: bool = key(
        BOOLEAN, default=False, doc="whether machines above that are taken back, newest first"
    )


class CapacityFile:
    """A CSV file with a capacity trace: at_seconds, instance_type, machines[, reclaim]."""

    noun = "the path of a CSV file"

    def read(self, node: Tree, scope: Scope) -> tuple[CapacityStep, ...]:
        """Return the steps in the file; a list of them is taken as it is."""
        if isinstance(node, Items):
            return ListOf(each=Nested(cls=CapacityStep)).read(node, scope)
        path = FilePath().read(node, scope)
        try:
            text = scope.context.read_file(scope.context.resolve_path(path)).text
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise scope.refuse(node, f"{path}: {reason}", "write a path to a CSV file") from error
        try:
            return tuple(_steps(text))
        except (KeyError, ValueError, TypeError) as error:
            raise scope.refuse(
                node,
                f"{path}: not a capacity trace: {error}",
                "it begins with a line: at_seconds,instance_type,machines",
            ) from error

    def plain(self, value: tuple[CapacityStep, ...]) -> object:
        """Return the steps."""
        return ListOf(each=Nested(cls=CapacityStep)).plain(value)


def _steps(text: str) -> Iterator[CapacityStep]:
    for row in csv.DictReader(io.StringIO(text)):
        yield CapacityStep(
            at=timedelta(seconds=float(row["at_seconds"])),
            instance_type=row["instance_type"],
            machines=int(row["machines"]),
            reclaim=row.get("reclaim", "") in ("1", "true", "yes"),
        )


def _order(boot_min: timedelta, boot_max: timedelta) -> Iterator[Fault]:
    if boot_min > boot_max:
        yield Fault(at=("boot_min",), message="boot_min is above boot_max", remedy="swap the two")


@block(rules=(_order,))
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
        Integer(least=1, most=1024), default=8, doc="GPUs of a type that nobody knows"
    )
    gpu_type: str = key(TEXT, default="", doc="what they are")
    price_per_hour: Decimal = key(
        MONEY, default=Decimal("23.92"), doc="what a machine costs that `prices` does not name"
    )
    prices: Mapping[str, Decimal] = key(
        MapOf(each=MONEY), default_factory=dict, doc="what a machine costs, by type"
    )
    sold_out: float = key(SHARE, default=0.0, doc="refuses for want of machines")
    transient: float = key(SHARE, default=0.0, doc="is too busy")
    mute: float = key(SHARE, default=0.0, doc="does nothing and does not answer")
    lie: float = key(SHARE, default=0.0, doc="does it and does not answer")
    both: float = key(SHARE, default=0.0, doc="refuses a machine and starts it all the same")
    hang: float = key(SHARE, default=0.0, doc="answers after many minutes")
    dead_on_arrival: float = key(SHARE, default=0.0, doc="starts a machine that never comes up")
    remembers_tokens: bool = key(BOOLEAN, default=True, doc="whether asking twice is safe")
    capacity: tuple[CapacityStep, ...] = key(
        ListOf(each=Nested(cls=CapacityStep)), default=(), doc="what is in stock when"
    )
    capacity_trace: tuple[CapacityStep, ...] = key(
        CapacityFile(), default=(), doc="the same from a CSV file"
    )

    @property
    def steps(self) -> tuple[CapacityStep, ...]:
        """What is in stock when, in order."""
        return tuple(sorted((*self.capacity, *self.capacity_trace), key=lambda step: step.at))

    @property
    def habits(self) -> Habits:
        """How it behaves at the beginning."""
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
