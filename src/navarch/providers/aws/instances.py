"""Translation of EC2's instances."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from navarch.core.ids import InstanceId, ProviderName
from navarch.core.instance import Instance, InstanceStatus

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
    ended = status is InstanceStatus.TERMINATED
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
        launched_at=_utc(raw.get("LaunchTime")),
        ended_at=_ended_at(raw.get("StateTransitionReason", "")) if ended else None,
    )


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)


def _ended_at(reason: str) -> datetime | None:
    """Return the time in a reason such as `User initiated (2026-11-15 10:00:00 GMT)`."""
    found = _ENDED.search(reason)
    return datetime.fromisoformat(found[1]).replace(tzinfo=UTC) if found else None
