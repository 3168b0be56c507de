"""Translation of EC2's instances and offerings."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoAuthTokenError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    ProxyConnectionError,
    TokenRetrievalError,
)

from navarch.core.errors import (
    CapacityError,
    CredentialError,
    InstanceNotFoundError,
    KeyRefusedError,
    OutcomeUnknownError,
    ProviderError,
    RegionQuotaError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, ProviderName
from navarch.core.instance import Instance, InstanceCheck, InstanceHealth, InstanceStatus
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


def read_instance(
    raw: Mapping[str, Any], *, provider: ProviderName, region: str, number: int | None
) -> Instance:
    """Return the instance in a response of DescribeInstances or RunInstances.

    `number` is its number within its call; None if it is not known.
    """
    status = _STATUS[raw["State"]["Name"]]
    launched_at, ended_at = raw.get("LaunchTime"), None
    tags = {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}
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
        labels=labels_of(tags, number),
        launched_at=None if launched_at is None else launched_at.astimezone(UTC),
        ended_at=ended_at,
    )


MACHINE = "navarch-machine-"
"""The prefix of the tags with the labels of one machine of a call, before its number."""

NUMBERED = "navarch-numbered"
"""The tag of machines that have their numbers by their ids, not by their launch indexes."""


def labels_of(tags: Mapping[str, str], number: int | None) -> dict[str, str]:
    """Return the labels of the machine with these tags and that number within its call.

    Without a number, they are the labels of all machines of the call, which prove no owner.
    """
    own = tags.get(f"{MACHINE}{number}", "")
    pairs = [part.partition("=") for part in own.split()]
    common = {key: value for key, value in tags.items() if not key.startswith(MACHINE)}
    return {**common, **{key: value for key, _, value in pairs}}


_CHECKS = (
    ("SystemStatus", "system"),
    ("InstanceStatus", "instance"),
    ("AttachedEbsStatus", "attached EBS"),
)

_NOT_RUNNING: Mapping[str, InstanceHealth] = {
    "pending": InstanceHealth.INITIALIZING,
    "stopping": InstanceHealth.STOPPED,
    "stopped": InstanceHealth.STOPPED,
    "shutting-down": InstanceHealth.TERMINATED,
    "terminated": InstanceHealth.TERMINATED,
}


def read_check(raw: Mapping[str, Any]) -> InstanceCheck:
    """Return the state and the status checks in a response of DescribeInstanceStatus."""
    state = raw["InstanceState"]["Name"]
    if state != "running":
        reason = f"EC2 reports the instance as {state}"
        return InstanceCheck(health=_NOT_RUNNING[state], reason=reason)
    results = {word: raw.get(field) or {} for field, word in _CHECKS}
    failed = [word for word, result in results.items() if result.get("Status") == "impaired"]
    if not failed:
        first = [results[word].get("Status") for word in ("system", "instance")]
        if first == ["ok", "ok"]:
            reason = "EC2 reports the instance as running, and its status checks as passed"
            return InstanceCheck(health=InstanceHealth.OK, reason=reason)
        reason = "EC2 reports the instance as running, without a result of its status checks yet"
        return InstanceCheck(health=InstanceHealth.INITIALIZING, reason=reason)
    dates = [
        detail["ImpairedSince"].astimezone(UTC)
        for word in failed
        for detail in results[word].get("Details", ())
        if "ImpairedSince" in detail
    ]
    # The newest: a check that has failed for long did not keep the machine from working.
    since = max(dates, default=None)
    reason = f"EC2 reports the {' and '.join(failed)} status check failed"
    reason += f" since {since:%H:%M} UTC" if since else ""
    return InstanceCheck(health=InstanceHealth.IMPAIRED, reason=reason, since=since)


_UNKNOWN_ID = re.compile(r"\bi-[0-9a-z-]+")


def unknown_instances(error: ProviderError) -> frozenset[InstanceId]:
    """Return the machines that EC2 does not know, of a call about several."""
    return frozenset(InstanceId(found) for found in _UNKNOWN_ID.findall(str(error)))


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


_ELSEWHERE = (
    "InsufficientInstanceCapacity",
    "InsufficientHostCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientCapacityOnHost",
    "InsufficientCapacity",
    "UnfulfillableCapacity",
    "ReservationCapacityExceeded",
    "InsufficientFreeAddressesInSubnet",
    "SpotMaxPriceTooLow",
    "Unsupported",  # that type is not sold in that zone
    "UnsupportedHostConfiguration",
)

# AWS counts each quota per region.
_QUOTA = (
    "VcpuLimitExceeded",
    "InstanceLimitExceeded",
    "MaxSpotInstanceCountExceeded",
    "MaxSpotFleetRequestCountExceeded",
    "MaxFleetCountExceeded",
    "PlacementGroupLimitExceeded",
    "NetworkInterfaceLimitExceeded",
    "VolumeLimitExceeded",
    "MaxIOPSLimitExceeded",
    "ResourceLimitExceeded",
)

_UNKNOWN_KEY = (
    "AuthFailure",
    "InvalidClientTokenId",
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "MissingAuthenticationToken",
)

_FIX_CREDENTIALS = (
    "UnauthorizedOperation",
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "OptInRequired",
    "PendingVerification",
    "Blocked",
    "AccessDenied",
    "AccessDeniedException",
)

# EC2 refuses these before the request has any effect.
_WAIT = (
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "RequestThrottled",
    "TooManyRequestsException",
    "EC2ThrottledException",
    "BandwidthLimitExceeded",
    "ConcurrentCreateLimitExceeded",
    "IncorrectState",
    "IncorrectInstanceState",
    "InvalidPlacementGroup.Unknown",  # just created, and not visible everywhere yet
)

_GONE = ("InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed", "InvalidInstanceID")

_CLASSES: Mapping[str, type[ProviderError]] = {
    **dict.fromkeys(_ELSEWHERE, CapacityError),
    **dict.fromkeys(_QUOTA, RegionQuotaError),
    **dict.fromkeys(_UNKNOWN_KEY, KeyRefusedError),
    **dict.fromkeys(_FIX_CREDENTIALS, CredentialError),
    **dict.fromkeys(_WAIT, TransientError),
    **dict.fromkeys(_GONE, InstanceNotFoundError),
}

MISMATCH = "IdempotentParameterMismatch"
"""The code for a token that was used for a request with other parameters."""

_NOTHING_WAS_SENT = (EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError)
_NO_KEY = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    TokenRetrievalError,
    NoAuthTokenError,
    ProfileNotFound,
)
_OUR_FAULT = (ParamValidationError, NoRegionError)


def code_of(error: Exception) -> str:
    """Return EC2's code for an error; empty if the error does not come from EC2."""
    if not isinstance(error, ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Code", ""))


def error_class(code: str) -> type[ProviderError]:
    """Return the class of an error that EC2 returns for a machine that it did not start."""
    return _CLASSES.get(code, RejectedError)


def code_of_cause(error: ProviderError) -> str:
    """Return EC2's code for the cause of an error."""
    return code_of(error.__cause__) if isinstance(error.__cause__, Exception) else ""


def refusal(error: Exception, what: str, *, changes: bool) -> ProviderError:
    """Return the translation of `error`. `changes`: the call may have had side effects."""
    if isinstance(error, ClientError):
        return _answered(error, what, changes=changes)
    text = f"{what}: {error}"
    if isinstance(error, _NO_KEY):
        return KeyRefusedError(text)
    if isinstance(error, _OUR_FAULT):
        return RejectedError(text)
    if not changes or isinstance(error, _NOTHING_WAS_SENT):
        return TransientError(text)
    assert isinstance(error, BotoCoreError | OSError), repr(error)
    return OutcomeUnknownError(text)


def _answered(error: ClientError, what: str, *, changes: bool) -> ProviderError:
    code = code_of(error)
    message = error.response.get("Error", {}).get("Message", "")
    text = f"{what}: {code}: {message}"
    known = _CLASSES.get(code)
    if known is not None:
        return known(text)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if status >= 500:
        # AWS failed internally: the request may have taken effect.
        return OutcomeUnknownError(text) if changes else TransientError(text)
    return RejectedError(text)
