"""On-demand prices, from AWS's price list service."""

import contextlib
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation

import msgspec

SERVICE = "AmazonEC2"
PAGE = 100
"""The most products on one page."""

FAMILY = "GPU instance"
"""The price list's family for machines with GPUs. Some types are filed elsewhere."""

_SOUGHT = {
    "operatingSystem": "Linux",
    "preInstalledSw": "NA",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
"""Selects the price of a plain Linux machine. Other prices are for Windows, dedicated hosts and
unused reservations."""


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
    """Return the price list filters for a region's GPU machines, or for one type."""
    which = {"instanceType": instance_type} if instance_type else {"instanceFamily": FAMILY}
    wanted = {**_SOUGHT, **which, "regionCode": region}
    return [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in wanted.items()]


def read_prices(entries: Iterable[str]) -> dict[str, Decimal]:
    """Return dollars per hour by machine type. The catalogue covers entries that do not parse."""
    prices: dict[str, Decimal] = {}
    for entry in entries:
        try:
            found = _ENTRIES.decode(entry)
        except msgspec.DecodeError:
            continue
        hourly = []
        for term in found.terms.on_demand.values():
            for dimension in term.dimensions.values():
                with contextlib.suppress(InvalidOperation):
                    price = Decimal(dimension.price.get("USD", ""))
                    if dimension.unit == "Hrs" and price.is_finite() and price > 0:
                        hourly.append(price)
        if hourly and found.product.attributes.instance_type:
            prices[found.product.attributes.instance_type] = max(hourly)
    return prices
