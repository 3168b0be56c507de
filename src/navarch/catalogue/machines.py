"""The catalogue: GPUs and machine types of many clouds."""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import TypeVar

T = TypeVar("T")


def machines_for_gpus(machines: Iterable[T], wanted: int, gpus_of: Callable[[T], int]) -> list[T]:
    """Return the `machines` of the best size for `wanted` GPUs.

    These are machines with exactly that many, if there are any: eight GPUs with a fast
    interconnect are not eight machines. Otherwise the largest that are smaller, several of which
    are needed; otherwise the smallest.
    """
    known = list(machines)
    sizes = {gpus_of(machine) for machine in known}
    if not sizes:
        return []
    smaller = [size for size in sizes if size <= wanted]
    size = max(smaller) if smaller else min(sizes)
    return [machine for machine in known if gpus_of(machine) == size]


_PREAMBLE = "# prices as of "


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguedMachine:
    """One type of machine at one type of provider."""

    provider: str
    """The type of the provider, such as `lambda`, not its name."""
    instance_type: str
    gpu_model: str
    gpus: int
    gpu_memory_gib: float
    """Memory of each GPU."""
    usd_per_hour: Decimal = Decimal(0)
    """The price on demand; zero if unknown or not sold on demand."""
    priced_in: str = ""
    spot_usd_per_hour: Decimal = Decimal(0)
    interconnect: str = ""
    """The link between the GPUs of one machine."""
    fabric: str = ""
    """The network between machines."""


@cache
def _table() -> tuple[date, tuple[CataloguedMachine, ...]]:
    text = (resources.files("navarch.catalogue") / "machines.csv").read_text()
    first, *lines = text.splitlines()
    priced = date.fromisoformat(first.removeprefix(_PREAMBLE).strip())
    return priced, tuple(_read(row) for row in csv.DictReader(lines))


def all_machines() -> tuple[CataloguedMachine, ...]:
    """Return every machine, sorted by provider and name."""
    return _table()[1]


def priced_on() -> date:
    """Return the date of the prices."""
    return _table()[0]


@cache
def find_machine(provider: str, instance_type: str) -> CataloguedMachine | None:
    """Return a machine by provider type and instance type, or None."""
    wanted = provider, instance_type
    return next((x for x in all_machines() if (x.provider, x.instance_type) == wanted), None)


def _read(row: dict[str, str]) -> CataloguedMachine:
    return CataloguedMachine(
        provider=row["provider"],
        instance_type=row["instance_type"],
        gpu_model=row["gpu_model"],
        gpus=int(row["gpus"]),
        gpu_memory_gib=float(row["gpu_memory_gib"]),
        usd_per_hour=Decimal(row["usd_per_hour"] or 0),
        priced_in=row["priced_in"],
        spot_usd_per_hour=Decimal(row["spot_usd_per_hour"] or 0),
        interconnect=row["interconnect"].removeprefix("-"),
        fabric=row["fabric"].removeprefix("-"),
    )
