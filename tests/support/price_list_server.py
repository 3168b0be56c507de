"""A local price list of Google's: the Cloud Billing Catalog API on loopback.

Requests and responses are validated against Google's discovery document. Descriptions are copied
from Google's list, with examples of every wording, including those that are not on-demand prices.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.support.compute_server import refusal
from tests.support.google_discovery import Discovery

from navarch.testing.loopback_server import HttpRequest, HttpResponse, Wire, serve

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
    """Return one entry in Google's format."""
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
    """The price list and its settings."""

    skus: list[dict[str, Any]] = field(default_factory=list)
    page: int = 3
    """The entries on a page, however many are requested."""
    refuse: HttpResponse | None = None
    wire: Wire = field(default_factory=Wire)
    url: str = ""

    def answer(self, request: HttpRequest) -> HttpResponse:
        try:
            call = DISCOVERY.call(request.method, request.path, request.query)
        except ValueError as error:
            return refusal(400, "invalid", str(error))
        if self.refuse is not None:
            return self.refuse
        if call.path["parent"] != COMPUTE_ENGINE:
            return refusal(404, "notFound", f"no {call.path['parent']}")
        first = int(call.query.get("pageToken") or 0)
        size = min(self.page, int(call.query.get("pageSize", 5000)))
        # The last page has an empty token.
        more = first + size < len(self.skus)
        answer = {
            "skus": self.skus[first : first + size],
            "nextPageToken": str(first + size) if more else "",
        }
        DISCOVERY.check(call.response, answer)
        return HttpResponse(200, json.dumps(answer).encode())


@contextlib.contextmanager
def local_price_list(skus: Sequence[dict[str, Any]]) -> Iterator[LocalPriceList]:
    """Serve a price list on loopback and yield it."""
    prices = LocalPriceList(list(skus))
    with serve(prices.answer, prices.wire) as url:
        prices.url = url
        yield prices
