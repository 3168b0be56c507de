"""Translation of EC2's offerings: machine types by zone, and prices."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from navarch.core.ids import ProviderName
from navarch.core.offering import Offering

GPU_TYPES = ("p*", "g*")
"""The families with GPUs, and a few without that share their prefix."""


def gpus_by_type(types: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, str]]:
    """Return the number and model of NVIDIA GPUs by machine type."""
    found = {}
    for each in types:
        gpus = each.get("GpuInfo", {}).get("Gpus", ())
        if gpus and gpus[0].get("Manufacturer", "") == "NVIDIA":
            found[each["InstanceType"]] = (sum(g.get("Count", 1) for g in gpus), gpus[0]["Name"])
    return found


def newest_prices(history: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Decimal]:
    """Return current spot prices by type and zone. EC2 lists the history newest first."""
    prices: dict[tuple[str, str], Decimal] = {}
    for entry in history:
        key = (entry["InstanceType"], entry["AvailabilityZone"])
        prices.setdefault(key, Decimal(entry["SpotPrice"]))
    return prices


def read_offerings(
    sold: Iterable[Mapping[str, Any]],
    gpus: Mapping[str, tuple[int, str]],
    spot: Mapping[tuple[str, str], Decimal],
    on_demand: Mapping[str, Decimal],
    *,
    provider: ProviderName,
    region: str,
) -> Iterator[Offering]:
    """Yield every GPU machine in every zone, on demand, and as spot if it has a spot price.

    An on-demand price missing from the price list is zero; the catalogue fills it in.
    """
    for each in sorted(sold, key=lambda x: (x["InstanceType"], x["Location"])):
        name, zone = each["InstanceType"], each["Location"]
        if name not in gpus:
            continue
        count, model = gpus[name]
        usual = Offering(
            provider=provider,
            instance_type=name,
            region=region,
            zone=zone,
            gpus=count,
            gpu_type=model,
            price_per_hour=on_demand.get(name, Decimal(0)),
        )
        yield usual
        if (name, zone) in spot:
            yield Offering(
                provider=provider,
                instance_type=name,
                region=region,
                zone=zone,
                gpus=count,
                gpu_type=model,
                spot=True,
                price_per_hour=spot[name, zone],
            )
