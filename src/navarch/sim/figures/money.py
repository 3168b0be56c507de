"""Money: what was billed, what the system knows of, and what bought nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from navarch.core.launch import Launch
from navarch.core.money import cost
from navarch.sim.figures.hours import GpuHours
from navarch.sim.figures.truth import Truth

_CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """In the currency of the prices."""

    billed: Decimal = Decimal(0)
    """What the clouds and owners of machines want."""
    recorded: Decimal = Decimal(0)
    """What the system's own ledger says; machines that nobody here bought are not in it."""
    wasted: Decimal = Decimal(0)
    """The part of the bill that bought nothing: by hours paid and not used."""


def count_money(
    truth: Truth, launches: Iterable[Launch], hours: GpuHours, *, ended: datetime
) -> Money:
    """Return the bill until `ended`, and what the ledger makes of it."""
    billed = sum(
        (
            cost(x.price_per_hour, x.began, min(x.ended or ended, ended))
            for x in truth.leases
            if x.began <= ended
        ),
        Decimal(0),
    )
    recorded = sum((_until(launch, ended) for launch in launches), Decimal(0))
    share = Decimal(str(hours.wasted / hours.paid)) if hours.paid else Decimal(0)
    return Money(
        billed=billed.quantize(_CENT),
        recorded=recorded.quantize(_CENT),
        wasted=(billed * share).quantize(_CENT),
    )


def _until(launch: Launch, ended: datetime) -> Decimal:
    if launch.launched_at is None or launch.launched_at > ended:
        return Decimal(0)
    return cost(launch.price_per_hour, launch.launched_at, min(launch.ended_at or ended, ended))
