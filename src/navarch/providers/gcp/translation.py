"""Translation between Navarch's types and Compute Engine's."""

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from google.cloud import compute_v1 as compute

from navarch.catalogue.images import GCP_IMAGE
from navarch.core.errors import RejectedError
from navarch.core.ids import InstanceId, ProviderName, Token
from navarch.core.instance import (
    Instance,
    InstanceCheck,
    InstanceHealth,
    InstanceStatus,
    Notice,
    NoticeKind,
    Topology,
)
from navarch.core.launch import Offering
from navarch.core.ownership import CLUSTER, TOKEN
from navarch.core.records import evolve
from navarch.ports.provider import ProvisionRequest
from navarch.providers.gcp.prices import Rates, Shape

Message: TypeAlias = Any
"""A raw protocol buffer of the client. Reading it takes a third of the time that its typed wrapper
takes."""

PROVIDER = "navarch-provider"
"""The label with the provider that bought a machine: several may share one project."""

LABELS = "navarch-labels"
"""The metadata key for labels that Compute Engine does not accept as labels."""

MACHINES = "navarch-machines"
"""The metadata key for the labels in which the machines of one call differ, by name."""

GPU_MACHINES = 'name eq "(a|g)[0-9].*"'
"""Selects machine types with GPUs. All machine types fill a hundred pages."""

POLICY_PREFIX = "navarch-"
POLICY_AGE_MIN = timedelta(hours=1)
"""A younger policy may not have its first machine yet."""

NETWORK = "global/networks/default"

RESERVATION_KEY = "compute.googleapis.com/reservation-name"

NAMESPACE = uuid.UUID("6f0b7f2c-7a0e-5a31-9d1c-2f6f5c0f6a11")
"""Derives request ids from tokens. It must never change: a launch may be retried later."""

LOCAL_SSD_GIB = 375
"""The size of each local disk of a machine."""

HYPERDISK_ONLY = ("a3-ultragpu-", "a4-", "a4x-", "g4-")
"""Machine types that boot from Hyperdisk only."""

STATUSES: Mapping[str, InstanceStatus] = {
    "PENDING": InstanceStatus.PENDING,
    "PROVISIONING": InstanceStatus.PENDING,
    "STAGING": InstanceStatus.PENDING,
    "RUNNING": InstanceStatus.RUNNING,
    "REPAIRING": InstanceStatus.RUNNING,
    "PENDING_STOP": InstanceStatus.TERMINATING,
    "STOPPING": InstanceStatus.TERMINATING,
    "SUSPENDING": InstanceStatus.TERMINATING,
    "DEPROVISIONING": InstanceStatus.TERMINATING,
    # Compute Engine's TERMINATED means stopped: the disk remains and costs money. A listed machine
    # still has to be deleted; a deleted machine is not listed.
    "STOPPED": InstanceStatus.TERMINATING,
    "SUSPENDED": InstanceStatus.TERMINATING,
    "TERMINATED": InstanceStatus.TERMINATING,
}

_HEALTH: Mapping[str, InstanceHealth] = {
    "PENDING": InstanceHealth.INITIALIZING,
    "PROVISIONING": InstanceHealth.INITIALIZING,
    "STAGING": InstanceHealth.INITIALIZING,
    "RUNNING": InstanceHealth.OK,
    # The host has failed; Compute Engine repairs it or moves the machine.
    "REPAIRING": InstanceHealth.IMPAIRED,
    "PENDING_STOP": InstanceHealth.OK,
    "STOPPING": InstanceHealth.STOPPED,
    "STOPPED": InstanceHealth.STOPPED,
    "SUSPENDING": InstanceHealth.STOPPED,
    "SUSPENDED": InstanceHealth.STOPPED,
    "TERMINATED": InstanceHealth.STOPPED,
    "DEPROVISIONING": InstanceHealth.TERMINATED,
}

_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GcpSettings:
    """The settings of every machine of one provider."""

    name: str
    project: str
    zone: str = ""
    """The zone of requests that name only a region."""
    image: str = GCP_IMAGE
    network: str = NETWORK
    subnetwork: str = ""
    service_account: str = ""
    """The service account of machines; none if empty."""
    public_address: bool = True
    disk_gb: int = 200
    ssh_user: str = "ubuntu"
    flex_start: bool = False
    """Queue requests instead of failing them; the machines end after `max_run`."""
    max_run: timedelta | None = None
    machines_per_call: int = 1
    """The most machines of one call."""
    patience: timedelta = timedelta(minutes=10)
    """How long a queued request stays valid."""


def request_id(token: Token, attempt: int = 0) -> str:
    """Return the request id of a launch. It depends on token and attempt alone."""
    return str(uuid.uuid5(NAMESPACE, f"{token}/{attempt}" if attempt else token))


def machine_name(request: ProvisionRequest) -> str:
    """Return a machine's name: its node's, with a suffix that is unique to the launch.

    The name is a second idempotency key: names are unique within a zone.
    """
    return resource_name(request.name, request.token)


def resource_name(readable: str, unique: str) -> str:
    """Return a name that Compute Engine accepts, readable and as unique as `unique`."""
    plain = re.sub(r"[^a-z0-9]+", "-", readable.lower()).strip("-")
    if not plain[:1].isalpha():
        plain = f"n-{plain}"
    return f"{plain[:50].rstrip('-')}-{hashlib.sha256(unique.encode()).hexdigest()[:10]}"


def instance_id(zone: str, name: str) -> InstanceId:
    """Return a machine's instance id. It includes the zone, which every call needs."""
    return InstanceId(f"{zone}/{name}")


def zone_of(request: ProvisionRequest, settings: GcpSettings) -> str:
    """Return the zone of a request, or raise RejectedError: machines are bought in a zone."""
    if request.zone:
        return request.zone
    if settings.zone and region_of(settings.zone) == (request.region or region_of(settings.zone)):
        return settings.zone
    raise RejectedError(
        f"Compute Engine sells by zone: list zones of {request.region or 'a region'} in the pool"
    )


def region_of(zone: str) -> str:
    """Return the region of a zone."""
    return zone.rpartition("-")[0]


def machine(
    request: ProvisionRequest,
    settings: GcpSettings,
    *,
    zone: str,
    reservation_bound: bool = False,
    policy: str = "",
) -> compute.Instance:
    """Return the machine to create."""
    kind, gpus = _kind(request.instance_type, zone)
    labels, rest = split_labels({**request.labels, PROVIDER: settings.name})
    made = compute.Instance(
        name=machine_name(request),
        machine_type=f"zones/{zone}/machineTypes/{kind}",
        labels=labels,
        disks=[_boot_disk(kind, request.image or settings.image, settings.disk_gb, zone)],
        network_interfaces=[_interface(settings, zone)],
        scheduling=_scheduling(request, settings, reservation_bound=reservation_bound),
        metadata=compute.Metadata(
            items=[
                compute.Items(key=key, value=value)
                for key, value in _metadata(request, settings, rest).items()
            ]
        ),
    )
    if gpus:
        made.guest_accelerators = gpus
    if settings.service_account:
        scope = "https://www.googleapis.com/auth/cloud-platform"
        made.service_accounts = [
            compute.ServiceAccount(email=settings.service_account, scopes=[scope])
        ]
    affinity = _reservation(request, settings)
    if affinity is not None:
        made.reservation_affinity = affinity
    if policy:
        made.resource_policies = [policy]
    if _queued(request, settings):
        valid = compute.Duration(seconds=int(settings.patience.total_seconds()))
        made.params = compute.InstanceParams(request_valid_for_duration=valid)
    return made


def policy_name(group: str, zone: str) -> str:
    """Return the name of a group's policy.

    A policy applies to one zone: after a failure the group may try another zone.
    """
    return resource_name(f"{POLICY_PREFIX}{group}", f"{group}/{zone}")


def placement_policy(name: str, cluster: str) -> compute.ResourcePolicy:
    """Return the policy that places the machines of a group close together."""
    return compute.ResourcePolicy(
        name=name,
        description=policy_mark(cluster),
        group_placement_policy=compute.ResourcePolicyGroupPlacementPolicy(collocation="COLLOCATED"),
    )


def policy_mark(cluster: str) -> str:
    """Return the description that marks a policy as this cluster's."""
    return f"Made by Navarch for machines of {cluster}"


def left_over(policy: Message, cluster: str, now: datetime) -> bool:
    """Return True if a policy is this cluster's and older than POLICY_AGE_MIN."""
    made = _moment(policy.creation_timestamp)
    ours = policy.description == policy_mark(cluster)
    return ours and made is not None and now - made > POLICY_AGE_MIN


def split_labels(labels: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels that Compute Engine accepts, and those that it does not.

    Listings select by the cluster's label, so the first part always has one, if necessary with an
    adapted value.
    """
    fits = {
        key: value
        for key, value in labels.items()
        if _LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value)
    }
    rest = {key: value for key, value in labels.items() if key not in fits}
    if CLUSTER in rest:
        fits[CLUSTER] = re.sub(r"[^a-z0-9_-]", "-", rest[CLUSTER].lower())[:63]
    return fits, rest


def parse_instance(listed: Message, provider: ProviderName) -> Instance:
    """Return the instance for one listed machine."""
    zone = listed.zone.rpartition("/")[2]
    kind = listed.machine_type.rpartition("/")[2]
    if kind.startswith("n1-") and listed.guest_accelerators:
        attached = listed.guest_accelerators[0]
        count = attached.accelerator_count
        kind += f"+{attached.accelerator_type.rpartition('/')[2]}"
        kind += f" x{count}" if count > 1 else ""
    public = private = ""
    for interface in listed.network_interfaces[:1]:
        nat = [config.nat_i_p for config in interface.access_configs if config.nat_i_p]
        public, private = (nat[0] if nat else ""), interface.network_i_p
    return Instance(
        id=instance_id(zone, listed.name),
        provider=provider,
        status=STATUSES.get(listed.status, InstanceStatus.RUNNING),
        instance_type=kind,
        region=region_of(zone),
        zone=zone,
        public_address=public,
        private_address=private,
        labels={**listed.labels, **_labels_in_metadata(listed)},
        launched_at=_moment(listed.creation_timestamp),
    )


def parse_notice(listed: Message) -> Notice | None:
    """Return the maintenance that is announced for a machine, if any."""
    if not listed.HasField("resource_status"):
        return None
    status = listed.resource_status
    if not status.HasField("upcoming_maintenance"):
        return None
    coming = status.upcoming_maintenance
    begins = coming.window_start_time or coming.latest_window_start_time
    kind = (coming.type_ or "unscheduled").lower()
    ongoing = coming.maintenance_status == "ONGOING"
    when = "is going on" if ongoing else f"from {begins}" if begins else "is announced"
    return Notice(kind=NoticeKind.MAINTENANCE, reason=f"{kind} maintenance {when}")


def parse_check(listed: Message) -> InstanceCheck | None:
    """Return the state of a machine; None for a status that is not known here."""
    health = _HEALTH.get(listed.status)
    if health is None:
        return None
    stopped = {
        "TERMINATED": listed.last_stop_timestamp,
        "STOPPED": listed.last_stop_timestamp,
        "SUSPENDED": listed.last_suspended_timestamp,
    }
    return InstanceCheck(
        health=health,
        reason=f"Compute Engine reports the instance as {listed.status}",
        since=_moment(stopped.get(listed.status, "")),
    )


def parse_topology(listed: Message) -> Topology | None:
    """Return the physical position of a machine; None until Compute Engine reports it."""
    if not listed.HasField("resource_status"):
        return None
    status = listed.resource_status
    if status.HasField("physical_host_topology") and status.physical_host_topology.block:
        where = status.physical_host_topology
        block = f"{where.cluster}/{where.block}" if where.cluster else where.block
        return Topology(
            block=block,
            rack=f"{block}/{where.subblock}" if where.subblock else "",
            host=where.host,
        )
    # Older machine types report only this: /cluster/rack/host.
    parts = status.physical_host.strip("/").split("/")
    if len(parts) < 3:
        return None
    return Topology(block=parts[0], rack="/".join(parts[:2]), host="/".join(parts[:3]))


def parse_offerings(kind: Message, rates: Rates, provider: ProviderName) -> Iterator[Offering]:
    """Yield the offerings of a machine type in a zone: on demand, and spot if it has a price.

    An on-demand price missing from the list is zero; the catalogue fills it in. Types without
    GPUs yield nothing.
    """
    if not kind.accelerators:
        return
    shape = _shape(kind)
    zone = kind.zone.rpartition("/")[2]
    usual = Offering(
        provider=provider,
        instance_type=kind.name,
        region=region_of(zone),
        zone=zone,
        gpus=shape.gpus,
        gpu_type=shape.gpu_type,
        price_per_hour=rates.price(shape, region_of(zone), spot=False),
    )
    yield usual
    as_spot = rates.price(shape, usual.region, spot=True)
    if as_spot:
        yield evolve(usual, spot=True, price_per_hour=as_spot)


def _shape(kind: Message) -> Shape:
    gpus = kind.accelerators[0]
    disks = kind.bundled_local_ssds.partition_count if kind.HasField("bundled_local_ssds") else 0
    return Shape(
        instance_type=kind.name,
        vcpus=kind.guest_cpus,
        memory_gib=Decimal(kind.memory_mb) / 1024,
        gpu_type=gpus.guest_accelerator_type,
        gpus=gpus.guest_accelerator_count,
        local_ssd_gib=disks * LOCAL_SSD_GIB,
    )


def token_of(listed: Message) -> str:
    """Return the token that bought a machine."""
    return str(listed.labels.get(TOKEN) or _labels_in_metadata(listed).get(TOKEN) or "")


def _kind(instance_type: str, zone: str) -> tuple[str, list[compute.AcceleratorConfig]]:
    """Return the machine type, and the GPUs to attach: `n1-standard-8+nvidia-tesla-t4 x4`."""
    kind, _, attached = instance_type.partition("+")
    if not attached:
        return kind, []
    gpu, _, count = attached.partition(" x")
    if count and not count.isdecimal():
        raise RejectedError(f"{instance_type}: write TYPE+GPU or TYPE+GPU xCOUNT")
    url = f"zones/{zone}/acceleratorTypes/{gpu.strip()}"
    return kind, [
        compute.AcceleratorConfig(accelerator_type=url, accelerator_count=int(count or 1))
    ]


def _boot_disk(kind: str, image: str, size_gb: int, zone: str) -> compute.AttachedDisk:
    disk = "hyperdisk-balanced" if kind.startswith(HYPERDISK_ONLY) else "pd-ssd"
    return compute.AttachedDisk(
        boot=True,
        # Otherwise the disk outlives the machine and costs money.
        auto_delete=True,
        initialize_params=compute.AttachedDiskInitializeParams(
            source_image=_image(image),
            disk_size_gb=size_gb,
            disk_type=f"zones/{zone}/diskTypes/{disk}",
        ),
    )


def _image(image: str) -> str:
    """Return the path of an image; a bare word is an image family of this project."""
    if "/" not in image:
        return f"global/images/family/{image}"
    return f"global/images/{image}" if image.startswith("family/") else image


def _interface(settings: GcpSettings, zone: str) -> compute.NetworkInterface:
    network = settings.network if "/" in settings.network else f"global/networks/{settings.network}"
    interface = compute.NetworkInterface(network=network)
    if settings.subnetwork:
        path = f"regions/{region_of(zone)}/subnetworks/{settings.subnetwork}"
        interface.subnetwork = settings.subnetwork if "/" in settings.subnetwork else path
    if settings.public_address:
        nat = compute.AccessConfig(name="External NAT", type_="ONE_TO_ONE_NAT")
        interface.access_configs = [nat]
    return interface


def _scheduling(
    request: ProvisionRequest, settings: GcpSettings, *, reservation_bound: bool
) -> compute.Scheduling:
    # Machines with GPUs cannot migrate live. A terminated one is replaced; it must not restart
    # under a node that is gone.
    scheduling = compute.Scheduling(on_host_maintenance="TERMINATE", automatic_restart=False)
    ends = True
    if request.spot:
        scheduling.provisioning_model = "SPOT"
    elif reservation_bound:
        scheduling.provisioning_model = "RESERVATION_BOUND"
    elif _queued(request, settings):
        scheduling.provisioning_model = "FLEX_START"
    else:
        scheduling.provisioning_model = "STANDARD"
        ends = settings.max_run is not None
    if ends:
        # Stopped machines would keep their disks and names.
        scheduling.instance_termination_action = "DELETE"
    if settings.max_run is not None and not reservation_bound:
        seconds = int(settings.max_run.total_seconds())
        scheduling.max_run_duration = compute.Duration(seconds=seconds)
    return scheduling


def _queued(request: ProvisionRequest, settings: GcpSettings) -> bool:
    return settings.flex_start and not request.spot and not request.reservation


def _reservation(
    request: ProvisionRequest, settings: GcpSettings
) -> compute.ReservationAffinity | None:
    if request.reservation:
        return compute.ReservationAffinity(
            consume_reservation_type="SPECIFIC_RESERVATION",
            key=RESERVATION_KEY,
            values=[request.reservation],
        )
    if _queued(request, settings):
        return compute.ReservationAffinity(consume_reservation_type="NO_RESERVATION")
    return None


def _metadata(
    request: ProvisionRequest, settings: GcpSettings, labels: Mapping[str, str]
) -> dict[str, str]:
    items = {}
    if labels:
        items[LABELS] = json.dumps(labels, sort_keys=True)
    if request.user_data:
        # cloud-init reads one key, Google's guest agent the other.
        script = request.user_data.startswith("#!")
        items["startup-script" if script else "user-data"] = request.user_data
    if request.ssh_keys:
        items["ssh-keys"] = "\n".join(_ssh_key(key, settings.ssh_user) for key in request.ssh_keys)
        # With OS Login enabled, keys in the metadata are ignored.
        items["enable-oslogin"] = "FALSE"
    return items


def _ssh_key(key: str, user: str) -> str:
    login, colon, rest = key.partition(":")
    if colon and " " not in login and " " in rest:
        return key
    if " " not in key:
        raise RejectedError(
            f"ssh_keys: {key!r} is a name, and Compute Engine keeps no keys by name; write the "
            "public key itself"
        )
    return f"{user}:{key}"


def _labels_in_metadata(listed: Message) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in listed.metadata.items:
        if item.key == LABELS:
            found |= _read_labels(item.value)
        elif item.key == MACHINES:
            found |= _read_labels(item.value, listed.name)
    return found


def _read_labels(text: str, name: str = "") -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    if name and isinstance(found, dict):
        found = found.get(name)
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
