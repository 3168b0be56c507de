"""Machine prices, computed from Google's price list.

The list prices parts, not machines: cores and memory by family, GPUs, and local disks. A machine's
price is their sum. It is known only if every part is on the list: a sum without a part would make
the machine look cheap.
"""

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property

import msgspec
from google.auth.credentials import Credentials
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from requests.exceptions import RequestException

from navarch.ports.clock import Clock, Offload

HOURS_A_MONTH = 730
"""Google's divisor from monthly to hourly prices."""

ENDPOINT = "https://cloudbilling.googleapis.com"

COMPUTE_ENGINE = "services/6F81-5844-456A"
PAGE = 5000

REFRESH_INTERVAL = timedelta(hours=6)
"""The list is read again after this time. Google updates it every twelve hours."""
RETRY_INTERVAL = timedelta(hours=1)
"""A failed read is retried after this time."""

WAIT_S = 10.0
"""The longest that `rates` waits for a read. The list has tens of thousands of entries; a read that
takes longer completes in the background, and the next call returns its rates."""
ANSWER_S = 15.0

NEVER = datetime.min.replace(tzinfo=UTC)

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
"""The list's family name for cores and memory, by machine series."""

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
"""Accelerator types by the list's names of GPUs."""

SLICES = frozenset({"nvidia-b200"})
"""GPUs with a price that includes their share of the whole machine."""

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
# Each must match a whole description. Other ways to buy (committed, reserved, by calendar, for a
# defined duration, on sole tenants) have longer descriptions and other prices.


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
    """The fields of a price list entry that are read."""

    description: str = ""
    category: _Category = msgspec.field(default_factory=_Category)
    service_regions: list[str] = []
    pricing_info: list[_Pricing] = []

    def per(self, unit: str) -> Decimal:
        """Return dollars per `unit`; zero if it is sold by another unit or for free."""
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
    """The parts of a machine."""

    instance_type: str
    vcpus: int
    memory_gib: Decimal
    gpu_type: str
    gpus: int
    local_ssd_gib: int = 0


Place = tuple[str, bool]
"""A region, and True for spot."""


@dataclass(slots=True)
class Rates:
    """Hourly prices of the parts of machines."""

    cores: dict[tuple[str, Place], Decimal] = field(default_factory=dict)
    memory_gib: dict[tuple[str, Place], Decimal] = field(default_factory=dict)
    gpus: dict[tuple[str, Place], Decimal] = field(default_factory=dict)
    local_ssd_gib: dict[tuple[str, Place], Decimal] = field(default_factory=dict)

    def price(self, shape: Shape, region: str, *, spot: bool) -> Decimal:
        """Return the hourly price of a machine; zero if a part is not on the list."""
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
    """Return the rates for on-demand and spot machines with GPUs."""
    rates = Rates()
    for sku in skus:
        if sku.category.usage_type in ("OnDemand", "Preemptible"):
            _read(sku, rates)
    return rates


def _read(sku: Sku, rates: Rates) -> None:
    text = sku.description
    spot = sku.category.usage_type == "Preemptible"
    if found := _CORE_OR_MEMORY.fullmatch(text):
        is_core = found["part"] == "Core"
        into = rates.cores if is_core else rates.memory_gib
        price = sku.per("h" if is_core else "GiBy.h")
        _keep(into, found["family"], sku, price, spot=spot or bool(found["spot"]))
    elif (found := _GPU.fullmatch(text)) and found["gpu"] in GPUS:
        # Some entries described as spot are filed as on demand.
        as_spot = spot or bool(found["spot"]) or bool(found["attached"])
        _keep(rates.gpus, GPUS[found["gpu"]], sku, sku.per("h"), spot=as_spot)
    elif found := _LOCAL_SSD.fullmatch(text):
        hourly = sku.per("GiBy.mo") / HOURS_A_MONTH
        _keep(rates.local_ssd_gib, "", sku, hourly, spot=spot or bool(found["spot"]))


def _keep(
    into: dict[tuple[str, Place], Decimal], what: str, sku: Sku, price: Decimal, *, spot: bool
) -> None:
    for region in sku.service_regions if price else ():
        # Keep the higher of two prices: an estimate must not be too low.
        key = (what, (region, spot))
        into[key] = max(price, into.get(key, Decimal(0)))


_PAGES = msgspec.json.Decoder(SkuPage)


class PriceList:
    """The rates of Google's price list, read again when they are old.

    Few accounts grant a fleet this permission. Without it there are no rates, the catalogue's
    prices apply, and no error is raised.
    """

    def __init__(
        self,
        clock: Clock,
        offload: Offload,
        credentials: Callable[[], Credentials],
        *,
        endpoint: str = ENDPOINT,
    ) -> None:
        self._clock = clock
        self._offload = offload
        self._find_credentials = credentials
        self._endpoint = endpoint.rstrip("/")
        self._rates = Rates()
        self._due = NEVER
        self._closing = threading.Event()

    async def rates(self) -> Rates:
        """Return the current rates, after reading the list if it is due."""
        now = self._clock.now()
        if now >= self._due:
            # Concurrent calls must not start another read.
            self._due = now + RETRY_INTERVAL
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_S):
                    await self._offload.run(lambda: self._read(now))
        return self._rates

    def close(self) -> None:
        """Stop reading after the current page."""
        self._closing.set()

    def _read(self, now: datetime) -> None:
        """Read the whole list; on failure keep the current rates."""
        try:
            rates = read_rates(self._skus())
        except (GoogleAuthError, RequestException, msgspec.DecodeError, OSError, ValueError):
            return
        if rates.gpus and not self._closing.is_set():
            self._rates = rates
            self._due = now + REFRESH_INTERVAL

    def _skus(self) -> Iterator[Sku]:
        token = ""
        while not self._closing.is_set():
            params = {"currencyCode": "USD", "pageSize": str(PAGE)}
            if token:
                params["pageToken"] = token
            answer = self._session.get(
                f"{self._endpoint}/v1/{COMPUTE_ENGINE}/skus", params=params, timeout=ANSWER_S
            )
            answer.raise_for_status()
            page = _PAGES.decode(answer.content)
            yield from page.skus
            token = page.next_page_token
            if not token:
                return

    @cached_property
    def _session(self) -> AuthorizedSession:
        return AuthorizedSession(self._find_credentials())


def _rounded(price: Decimal) -> Decimal:
    return price.quantize(Decimal("0.0001"))
