"""What Google asks for machines.

Google's list has no machines on it, only what they are made of: cores and memory by family, GPUs,
and the disks inside. A machine's price is the sum, and there is one only if all its parts are on
the list: a sum that lacks a part would make the machine look cheap.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import msgspec

HOURS_A_MONTH = 730
"""By which Google itself turns a price by the month into one by the hour."""

FAMILIES: Mapping[str, str] = {
    "a2-highgpu": "A2",
    "a2-megagpu": "A2",
    "a2-ultragpu": "A2",
    "a3-edgegpu": "A3",
    "a3-highgpu": "A3",
    "a3-megagpu": "A3Plus",
    "a3-ultragpu": "A3Ultra",
    "g2-standard": "G2",
    "g4-standard": "G4",
}
"""What cores and memory of a kind of machine are called on the list."""

GPUS: Mapping[str, str] = {
    "Nvidia Tesla A100 GPU": "nvidia-tesla-a100",
    "Nvidia Tesla A100 80GB GPU": "nvidia-a100-80gb",
    "Nvidia H100 80GB GPU": "nvidia-h100-80gb",
    "Nvidia H100 80GB Mega GPU": "nvidia-h100-mega-80gb",
    "Nvidia H100 Mega 80GB GPU": "nvidia-h100-mega-80gb",
    "Nvidia H100 80GB Plus GPU": "nvidia-h100-mega-80gb",
    "H200 141GB GPU": "nvidia-h200-141gb",
    "Nvidia H200 141GB GPU": "nvidia-h200-141gb",
    "A4 Nvidia B200 (1 gpu slice)": "nvidia-b200",
    "Nvidia L4 GPU": "nvidia-l4",
    "RTX 6000 96GB": "nvidia-rtx-pro-6000",
}
"""The list's names of GPUs, and those that machines have for them."""

SLICES = frozenset({"nvidia-b200"})
"""GPUs whose price is that of their share of the whole machine."""

_CORE_OR_MEMORY = re.compile(
    r"(?P<spot>Spot Preemptible )?(?P<family>\w+) Instance (?P<part>Core|Ram) running in .+"
)
_GPU = re.compile(
    r"(?P<spot>Spot Preemptible )?(?P<gpu>.+?)"
    r"(?P<attached> attached to Spot Preemptible VMs)? running in .+"
)
_LOCAL_SSD = re.compile(
    r"SSD backed Local Storage(?P<spot> attached to Spot Preemptible VMs)?( in .+)?"
)
# Each must match a whole description. What is bought in other ways (committed, reserved, by the
# calendar, for a defined duration, on hosts of one's own) has more words, and another price.


class _Money(msgspec.Struct):
    units: str = "0"
    nanos: int = 0

    @property
    def dollars(self) -> Decimal:
        return int(self.units or 0) + Decimal(self.nanos) / 10**9


class _Tier(msgspec.Struct, rename="camel"):
    unit_price: _Money = msgspec.field(default_factory=_Money)


class _Expression(msgspec.Struct, rename="camel"):
    usage_unit: str = ""
    tiered_rates: list[_Tier] = []


class _Pricing(msgspec.Struct, rename="camel"):
    pricing_expression: _Expression = msgspec.field(default_factory=_Expression)


class _Category(msgspec.Struct, rename="camel"):
    usage_type: str = ""


class Sku(msgspec.Struct, rename="camel"):
    """What we read of an entry; there is more."""

    description: str = ""
    category: _Category = msgspec.field(default_factory=_Category)
    service_regions: list[str] = []
    pricing_info: list[_Pricing] = []

    def per(self, unit: str) -> Decimal:
        """Return dollars per `unit`, nothing if it is sold by another or for nothing."""
        for info in self.pricing_info[-1:]:
            if info.pricing_expression.usage_unit == unit:
                tiers = info.pricing_expression.tiered_rates
                return max((tier.unit_price.dollars for tier in tiers), default=Decimal(0))
        return Decimal(0)


class SkuPage(msgspec.Struct, rename="camel"):
    """One page of the list."""

    skus: list[Sku] = []
    next_page_token: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a machine is made of."""

    instance_type: str
    vcpus: int
    memory_gib: Decimal
    gpu_type: str
    gpus: int
    local_ssd_gib: int = 0


Place = tuple[str, bool]
"""A region, and whether as spot."""


@dataclass(slots=True)
class Rates:
    """What the parts of machines cost by the hour."""

    cores: dict[tuple[str, Place], Decimal] = field(default_factory=dict)
    memory_gib: dict[tuple[str, Place], Decimal] = field(default_factory=dict)
    gpus: dict[tuple[str, Place], Decimal] = field(default_factory=dict)
    local_ssd_gib: dict[tuple[str, Place], Decimal] = field(default_factory=dict)

    def price(self, shape: Shape, region: str, *, spot: bool) -> Decimal:
        """Return what a machine costs an hour; zero if the list does not say it of every part."""
        place = (region, spot)
        gpu = self.gpus.get((shape.gpu_type, place), Decimal(0))
        if not gpu or not shape.gpus:
            return Decimal(0)
        if shape.gpu_type in SLICES:
            return _rounded(shape.gpus * gpu)
        family = FAMILIES.get("-".join(shape.instance_type.split("-")[:2]), "")
        parts = [
            (Decimal(shape.gpus), gpu),
            (Decimal(shape.vcpus), self.cores.get((family, place), Decimal(0))),
            (shape.memory_gib, self.memory_gib.get((family, place), Decimal(0))),
        ]
        if shape.local_ssd_gib:
            disk = self.local_ssd_gib.get(("", place), Decimal(0))
            parts.append((Decimal(shape.local_ssd_gib), disk))
        if not all(each for _, each in parts):
            return Decimal(0)
        return _rounded(sum((count * each for count, each in parts), Decimal(0)))


def read_rates(skus: Iterable[Sku]) -> Rates:
    """Return the rates that matter to us."""
    rates = Rates()
    for sku in skus:
        if sku.category.usage_type in ("OnDemand", "Preemptible"):
            _read(sku, rates)
    return rates


def _read(sku: Sku, rates: Rates) -> None:
    said = sku.description
    spot = sku.category.usage_type == "Preemptible"
    if found := _CORE_OR_MEMORY.fullmatch(said):
        is_core = found["part"] == "Core"
        into = rates.cores if is_core else rates.memory_gib
        price = sku.per("h" if is_core else "GiBy.h")
        _keep(into, found["family"], sku, price, spot=spot or bool(found["spot"]))
    elif (found := _GPU.fullmatch(said)) and found["gpu"] in GPUS:
        # Some that are for spot machines by their words are filed as on demand.
        as_spot = spot or bool(found["spot"]) or bool(found["attached"])
        _keep(rates.gpus, GPUS[found["gpu"]], sku, sku.per("h"), spot=as_spot)
    elif found := _LOCAL_SSD.fullmatch(said):
        hourly = sku.per("GiBy.mo") / HOURS_A_MONTH
        _keep(rates.local_ssd_gib, "", sku, hourly, spot=spot or bool(found["spot"]))


def _keep(
    into: dict[tuple[str, Place], Decimal], what: str, sku: Sku, price: Decimal, *, spot: bool
) -> None:
    for region in sku.service_regions if price else ():
        # Of two prices for one thing the higher: nobody should be told too little.
        key = (what, (region, spot))
        into[key] = max(price, into.get(key, Decimal(0)))


def _rounded(price: Decimal) -> Decimal:
    return price.quantize(Decimal("0.0001"))
