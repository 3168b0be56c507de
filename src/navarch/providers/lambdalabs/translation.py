"""Translation between Navarch's types and Lambda's."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

import msgspec

from navarch.core.errors import CapacityError, RejectedError
from navarch.core.ids import InstanceId, ProviderName
from navarch.core.instance import Instance, InstanceCheck, InstanceHealth, InstanceStatus
from navarch.core.launch import Offering
from navarch.ports.provider import ProvisionRequest
from navarch.providers.lambdalabs.account import Json

ASKED_AT = "navarch-asked-at"
"""The tag with the launch time, which Lambda does not report."""

NAME_CHARS_MAX = 64
TAG_KEY_CHARS_MAX = 55
TAG_VALUE_CHARS_MAX = 128
USER_DATA_BYTES_MAX = 1024 * 1024

STATUSES: Mapping[str, InstanceStatus] = {
    "booting": InstanceStatus.PENDING,
    "active": InstanceStatus.RUNNING,
    "unhealthy": InstanceStatus.RUNNING,
    "terminating": InstanceStatus.TERMINATING,
    "terminated": InstanceStatus.TERMINATED,
    "preempted": InstanceStatus.TERMINATED,
}
"""An unknown status counts as running: such a machine may cost money."""


_IMAGE_ID = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}")
"""The id of an image; other names are families, such as `lambda-stack-22-04`."""


def launch_body(request: ProvisionRequest, *, ssh_key: str, now: datetime) -> dict[str, Json]:
    """Return the body of a launch request."""
    body: dict[str, Json] = {
        "region_name": request.region,
        "instance_type_name": request.instance_type,
        "ssh_key_names": [ssh_key],
        "name": request.name[:NAME_CHARS_MAX],
        "tags": [
            {"key": key, "value": value} for key, value in _tags(request.labels, now=now).items()
        ],
    }
    if request.user_data:
        body["user_data"] = request.user_data
    if request.image:
        kind = "id" if _IMAGE_ID.fullmatch(request.image) else "family"
        body["image"] = {kind: request.image}
    return body


def check_request(request: ProvisionRequest, ssh_keys: Sequence[str]) -> None:
    """Raise an error for requests that Lambda does not support. Zones are ignored."""
    if not request.region:
        raise RejectedError("Lambda sells by region: give the pool a region, such as us-east-1")
    if request.spot:
        raise RejectedError("Lambda sells no spot machines: ask for on-demand capacity")
    if request.reservation:
        raise RejectedError("Lambda's API has no reservations: remove it from the pool")
    if request.group:
        raise CapacityError("Lambda does not report which machines are close together")
    if len(ssh_keys) != 1:
        raise RejectedError(
            f"Lambda needs exactly one SSH key per machine, not {len(ssh_keys)}: pass one to "
            "`navarch up --ssh-key`, or set ssh_keys of the pool or ssh_key of the provider"
        )
    if len(request.user_data.encode()) > USER_DATA_BYTES_MAX:
        raise RejectedError("Lambda takes at most 1 MB of user data")


def key_material(public_key: str) -> str:
    """Return a public key's type and data, without its comment."""
    return " ".join(public_key.split()[:2])


def key_name(public_key: str) -> str:
    """Return the name under which a public key is registered at Lambda."""
    return f"navarch-{hashlib.sha256(key_material(public_key).encode()).hexdigest()[:16]}"


_HEALTH: Mapping[str, InstanceHealth] = {
    "booting": InstanceHealth.INITIALIZING,
    "active": InstanceHealth.OK,
    "unhealthy": InstanceHealth.IMPAIRED,
    "terminating": InstanceHealth.TERMINATED,
    "terminated": InstanceHealth.TERMINATED,
    "preempted": InstanceHealth.TERMINATED,
}


class _Tag(msgspec.Struct):
    key: str
    value: str


class _Region(msgspec.Struct):
    name: str


class _Kind(msgspec.Struct):
    name: str
    price_cents_per_hour: Json = None


class _Machine(msgspec.Struct):
    """The fields of a listed machine that are read."""

    id: str
    status: str
    instance_type: _Kind
    region: _Region
    ip: str | None = None
    private_ip: str | None = None
    tags: list[_Tag] | None = None


_MACHINES = msgspec.json.Decoder(_Machine)


def parse_instance(listed: bytes, provider: ProviderName) -> Instance:
    """Return the instance for one listed machine; raise ValueError if it cannot be read."""
    machine = _MACHINES.decode(listed)
    tags = {tag.key: tag.value for tag in machine.tags or ()}
    kind = machine.instance_type
    return Instance(
        id=InstanceId(machine.id),
        provider=provider,
        status=STATUSES.get(machine.status, InstanceStatus.RUNNING),
        instance_type=kind.name,
        region=machine.region.name,
        public_address=machine.ip or "",
        private_address=machine.private_ip or "",
        launched_at=_moment(tags.pop(ASKED_AT, "")),
        labels=tags,
        price_per_hour=dollars(kind.price_cents_per_hour),
    )


def parse_check(listed: bytes) -> tuple[InstanceId, InstanceCheck] | None:
    """Return the state of one listed machine; None for a status that is not known here."""
    machine = _MACHINES.decode(listed)
    health = _HEALTH.get(machine.status)
    if health is None:
        return None
    reason = f"Lambda reports the instance as {machine.status}"
    return InstanceId(machine.id), InstanceCheck(health=health, reason=reason)


def parse_offerings(types: Mapping[str, Json], provider: ProviderName) -> Iterator[Offering]:
    """Yield every machine type in every region that has stock now.

    A type that is sold out everywhere is yielded once, without a region. Raises KeyError or
    TypeError if a type cannot be read.
    """
    for name, sold in types.items():
        kind = sold["instance_type"]
        for region in sold["regions_with_capacity_available"] or [{"name": ""}]:
            yield Offering(
                provider=provider,
                instance_type=name,
                region=region["name"],
                gpus=kind["specs"]["gpus"],
                gpu_type=kind["gpu_description"],
                price_per_hour=dollars(kind["price_cents_per_hour"]) or Decimal(0),
            )


def dollars(cents: object) -> Decimal | None:
    """Return a price per hour; None if there is none."""
    if isinstance(cents, bool) or not isinstance(cents, int | float | str):
        return None
    try:
        return Decimal(str(cents)) / 100
    except InvalidOperation:
        return None


def _tags(labels: Mapping[str, str], *, now: datetime) -> dict[str, str]:
    """Return `labels` and the launch time as tags.

    Lambda accepts keys of lower-case letters, digits, dashes and colons. Ownership labels have
    that form already; a pool's other labels are adapted to it.
    """
    tags = {_key(key): value[:TAG_VALUE_CHARS_MAX] for key, value in labels.items()}
    return {**tags, ASKED_AT: f"{now.timestamp():.0f}"}


def _key(key: str) -> str:
    plain = re.sub(r"[^a-z0-9:-]", "-", key.lower())
    return (plain if plain[:1].isalpha() else f"x-{plain}")[:TAG_KEY_CHARS_MAX]


def _moment(text: str) -> datetime | None:
    return datetime.fromtimestamp(int(text), UTC) if text.isdecimal() and len(text) < 12 else None
