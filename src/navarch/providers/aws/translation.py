"""Translation of EC2's instances and offerings."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from navarch.core.ids import InstanceId, ProviderName
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.launch import Offering
from navarch.core.records import evolve

_STATUS: Mapping[str, InstanceStatus] = {
    "pending": InstanceStatus.PENDING,
    "running": InstanceStatus.RUNNING,
    "shutting-down": InstanceStatus.TERMINATING,
    "terminated": InstanceStatus.TERMINATED,
    # Navarch never stops machines. A stopped one is of no use and its disks still cost money:
    # it is replaced, and terminated until EC2 confirms.
    "stopping": InstanceStatus.TERMINATING,
    "stopped": InstanceStatus.TERMINATING,
}

_ENDED = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")


def read_instance(raw: Mapping[str, Any], *, provider: ProviderName, region: str) -> Instance:
    """Return the instance in a response of DescribeInstances or RunInstances."""
    status = _STATUS[raw["State"]["Name"]]
    launched_at, ended_at = raw.get("LaunchTime"), None
    if status is InstanceStatus.TERMINATED:
        # A reason such as `User initiated (2026-11-15 10:00:00 GMT)`.
        ended = _ENDED.search(raw.get("StateTransitionReason", ""))
        ended_at = datetime.fromisoformat(ended[1]).replace(tzinfo=UTC) if ended else None
    return Instance(
        id=InstanceId(raw["InstanceId"]),
        provider=provider,
        status=status,
        instance_type=raw["InstanceType"],
        region=region,
        zone=raw.get("Placement", {}).get("AvailabilityZone", ""),
        public_address=raw.get("PublicIpAddress", ""),
        private_address=raw.get("PrivateIpAddress", ""),
        labels={tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())},
        launched_at=None if launched_at is None else launched_at.astimezone(UTC),
        ended_at=ended_at,
    )


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
            yield evolve(usual, spot=True, price_per_hour=spot[name, zone])
