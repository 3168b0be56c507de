"""What AWS asks for machines on demand: its price list, which is a service of its own."""

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

import msgspec

SERVICE = "AmazonEC2"
AT_ONCE = 100
"""The most products on a page."""

FAMILY = "GPU instance"
"""Under what the price list files machines with GPUs, by all that is known of it."""

_SOUGHT = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
"""The one price of several that a plain machine costs: others are for Windows, for hosts of one's
own, or for what is reserved and not used."""


class _Attributes(msgspec.Struct):
    instance_type: str = msgspec.field(default="", name="instanceType")


class _Product(msgspec.Struct):
    attributes: _Attributes


class _Dimension(msgspec.Struct):
    unit: str = ""
    price: dict[str, str] = msgspec.field(default_factory=dict, name="pricePerUnit")


class _Term(msgspec.Struct):
    dimensions: dict[str, _Dimension] = msgspec.field(default_factory=dict, name="priceDimensions")


class _Terms(msgspec.Struct):
    on_demand: dict[str, _Term] = msgspec.field(default_factory=dict, name="OnDemand")


class _Entry(msgspec.Struct):
    product: _Product
    terms: _Terms


_ENTRIES = msgspec.json.Decoder(_Entry)


def price_filters(region: str, instance_type: str = "") -> list[dict[str, str]]:
    """Return how a region's machines with GPUs are found in the price list, or one type of them."""
    which = {"instanceType": instance_type} if instance_type else {"instanceFamily": FAMILY}
    wanted = {**_SOUGHT, **which, "regionCode": region}
    return [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in wanted.items()]


def read_prices(entries: Iterable[str]) -> dict[str, Decimal]:
    """Return dollars per hour by type of machine. What cannot be read is left to the catalogue."""
    prices: dict[str, Decimal] = {}
    for entry in entries:
        try:
            found = _ENTRIES.decode(entry)
        except msgspec.DecodeError:
            continue
        asked = [
            price
            for term in found.terms.on_demand.values()
            for dimension in term.dimensions.values()
            if dimension.unit == "Hrs"
            and (price := _dollars(dimension.price.get("USD", ""))) is not None
        ]
        if asked and found.product.attributes.instance_type:
            prices[found.product.attributes.instance_type] = max(asked)
    return prices


def _dollars(text: str) -> Decimal | None:
    try:
        price = Decimal(text)
    except InvalidOperation:
        return None
    return price if price.is_finite() and price > 0 else None
