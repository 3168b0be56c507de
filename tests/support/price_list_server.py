"""Google's list of prices, of our own making: the Cloud Billing Catalog API on loopback.

Requests and answers are held against Google's discovery document. What is on the list are Google's
own words for a few of its wares: the kinds of wording that are there, those that must not be taken
for a price on demand among them.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.support.compute_server import refusal
from tests.support.google_discovery import Discovery

from navarch.testing.loopback_server import Asked, Told, Wire, served

COMPUTE_ENGINE = "services/6F81-5844-456A"
DISCOVERY = Discovery("cloudbilling.v1")


def sku(
    description: str,
    dollars: str,
    *,
    group: str = "GPU",
    unit: str = "h",
    regions: Sequence[str] = ("us-central1",),
    usage: str = "OnDemand",
    family: str = "Compute",
) -> dict[str, Any]:
    """Return one entry as Google writes it."""
    price = Decimal(dollars)
    money: dict[str, Any] = {"currencyCode": "USD", "units": str(int(price))}
    money["nanos"] = int((price - int(price)) * 10**9)
    rate = {"startUsageAmount": 0, "unitPrice": money}
    return {
        "description": description,
        "category": {
            "serviceDisplayName": "Compute Engine",
            "resourceFamily": family,
            "resourceGroup": group,
            "usageType": usage,
        },
        "serviceRegions": list(regions),
        "pricingInfo": [{"pricingExpression": {"usageUnit": unit, "tieredRates": [rate]}}],
    }


@dataclass
class LocalPriceList:
    """The list, and how it is today."""

    skus: list[dict[str, Any]] = field(default_factory=list)
    page: int = 3
    """However many somebody asks for, so many are on a page."""
    refuse: Told | None = None
    wire: Wire = field(default_factory=Wire)
    url: str = ""

    def answer(self, asked: Asked) -> Told:
        try:
            call = DISCOVERY.call(asked.method, asked.path, asked.query)
        except ValueError as error:
            return refusal(400, "invalid", str(error))
        if self.refuse is not None:
            return self.refuse
        if call.path["parent"] != COMPUTE_ENGINE:
            return refusal(404, "notFound", f"no {call.path['parent']}")
        first = int(call.query.get("pageToken") or 0)
        size = min(self.page, int(call.query.get("pageSize", 5000)))
        # On the last page the token is there, and empty.
        more = first + size < len(self.skus)
        answer = {
            "skus": self.skus[first : first + size],
            "nextPageToken": str(first + size) if more else "",
        }
        DISCOVERY.check(call.response, answer)
        return Told(200, json.dumps(answer).encode())


@contextlib.contextmanager
def local_price_list(skus: Sequence[dict[str, Any]]) -> Iterator[LocalPriceList]:
    """Yield a price list that is served on loopback."""
    prices = LocalPriceList(list(skus))
    with served(prices.answer, prices.wire) as url:
        prices.url = url
        yield prices
