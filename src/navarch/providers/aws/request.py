"""The parameters of RunInstances, with network cards and user data; pure."""

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from navarch.core.errors import RejectedError
from navarch.core.machine_setup import is_public_key
from navarch.core.ownership import CLUSTER, POOL
from navarch.core.records import evolve
from navarch.core.user_data import multipart
from navarch.ports.provider import ProvisionRequest
from navarch.providers.aws.ec2 import AwsSettings
from navarch.providers.aws.translation import MACHINE, NUMBERED
from navarch.providers.shared_calls import call_token, common_labels

TOKEN_MAX = 64
TAGS_MAX = 50
TAG_LENGTH_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The placement of a machine, as looked up in the account."""

    region: str
    subnet: str = ""
    group: str = ""
    """The name of the placement group."""
    block: bool = False
    """True if the reservation is a capacity block."""


def run_instances(
    request: ProvisionRequest, settings: AwsSettings, site: Site
) -> Mapping[str, Any]:
    """Return the parameters of the call that starts one machine.

    They depend on the arguments alone: EC2 refuses a token that returns with other parameters.
    """
    assert len(request.token) <= TOKEN_MAX, request.token
    # EC2 key pairs by name, and public keys that are written out.
    names = [key for key in request.ssh_keys if not is_public_key(key.strip())]
    public_keys = [key.strip() for key in request.ssh_keys if key not in names]
    if len(names) > 1:
        raise RejectedError(
            f"ssh_keys: EC2 takes one key pair by name, not {len(names)}; write the others out"
        )
    params: dict[str, Any] = {
        "ClientToken": request.token,
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": request.instance_type,
        "ImageId": request.image or settings.image_in(site.region, request.instance_type),
        # A machine that shuts itself down is terminated; stopped, its disk would cost money.
        "InstanceInitiatedShutdownBehavior": "terminate",
        # Containers are one hop further from the metadata service than the machine.
        "MetadataOptions": {
            "HttpTokens": "required",
            "HttpEndpoint": "enabled",
            "HttpPutResponseHopLimit": 2,
            "InstanceMetadataTags": "enabled",
        },
        "TagSpecifications": _tags(request),
        **_network(request, settings, site),
        **_market(request, site),
    }
    boot = user_data(request.user_data, public_keys)
    if boot:
        params["UserData"] = boot
    if names:
        params["KeyName"] = names[0]
    placement = {"AvailabilityZone": request.zone, "GroupName": site.group}
    if any(placement.values()):
        params["Placement"] = {name: value for name, value in placement.items() if value}
    profile = settings.instance_profile
    if profile:
        kind = "Arn" if profile.startswith("arn:") else "Name"
        params["IamInstanceProfile"] = {kind: profile}
    if settings.root_gb:
        disk = {"VolumeSize": settings.root_gb, "VolumeType": "gp3", "DeleteOnTermination": True}
        params["BlockDeviceMappings"] = [{"DeviceName": "/dev/sda1", "Ebs": disk}]
    return params


def run_many(
    requests: Sequence[ProvisionRequest], settings: AwsSettings, site: Site
) -> Mapping[str, Any] | None:
    """Return the parameters of the call that starts these machines; None if they cannot share one.

    Each machine of the call has its launch index, by which `labels_of` restores its labels.
    """
    shared = shared_request(requests)
    if shared is None:
        return None
    return {
        **run_instances(shared, settings, site),
        "MinCount": len(requests) if is_whole_group(requests) else 1,
        "MaxCount": len(requests),
    }


def shared_request(requests: Sequence[ProvisionRequest]) -> ProvisionRequest | None:
    """Return the request that stands for all of these; None if they cannot share a call.

    EC2 gives all machines of a call the same user data and the same tags. Labels in which the
    machines differ are in a tag for each number. So the owner of every machine is known from the
    moment it exists.
    """
    first, common = requests[0], common_labels(requests)
    own = [sorted(x.labels.items() - common.items()) for x in requests]
    texts = [" ".join(f"{key}={value}" for key, value in pairs) for pairs in own]
    if (
        any(request.user_data != first.user_data for request in requests)
        or any(" " in key + value or "=" in key for pairs in own for key, value in pairs)
        or any(len(text) > TAG_LENGTH_MAX for text in texts)
        or len(common) + len(texts) + len(("Name", NUMBERED)) > TAGS_MAX
    ):
        return None
    return evolve(
        first,
        token=call_token(requests),
        name=first.group or first.labels.get(POOL, first.name),
        labels={**common, **{f"{MACHINE}{n}": text for n, text in enumerate(texts) if text}},
    )


def is_whole_group(requests: Sequence[ProvisionRequest]) -> bool:
    """Return whether the machines are a whole group, which starts as a whole or not at all."""
    return bool(requests[0].group) and requests[0].group_size == len(requests)


def group_name(request: ProvisionRequest) -> str:
    """Return the placement group's name. It includes the cluster: clusters may share accounts."""
    return "-".join(x for x in ("navarch", request.labels.get(CLUSTER, ""), request.group) if x)


def tags_of(labels: Mapping[str, str]) -> list[dict[str, str]]:
    """Return labels as EC2 tags."""
    return [{"Key": key, "Value": labels[key]} for key in sorted(labels)]


def _tags(request: ProvisionRequest) -> list[dict[str, Any]]:
    tags = tags_of({"Name": request.name, **request.labels})
    kinds = ["instance", "volume", "network-interface"]
    if request.spot and not request.reservation:
        kinds.append("spot-instances-request")
    return [{"ResourceType": kind, "Tags": tags} for kind in kinds]


def _network(request: ProvisionRequest, settings: AwsSettings, site: Site) -> dict[str, Any]:
    uses_efa = bool(request.group) if settings.efa is None else settings.efa
    groups = settings.security_groups
    cards = interfaces(request.instance_type, subnet=site.subnet, groups=groups)
    if uses_efa and cards is not None:
        return {"NetworkInterfaces": cards}
    return {
        **({"SubnetId": site.subnet} if site.subnet else {}),
        **({"SecurityGroupIds": list(groups)} if groups else {}),
    }


def _market(request: ProvisionRequest, site: Site) -> dict[str, Any]:
    if request.reservation:
        arn = request.reservation.startswith("arn:")
        key = "CapacityReservationResourceGroupArn" if arn else "CapacityReservationId"
        target = {"CapacityReservationTarget": {key: request.reservation}}
        block = {"InstanceMarketOptions": {"MarketType": "capacity-block"}} if site.block else {}
        return {"CapacityReservationSpecification": target, **block}
    if not request.spot:
        return {}
    options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    return {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": options}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """The network cards of one machine type."""

    count: int
    first: str = "efa"
    """The first card carries the machine's address, so it is never EFA-only."""
    addressed: int = 0
    """Every n-th card has an address too; the others are EFA-only. Zero: no further addresses."""

    def kind(self, card: int) -> str:
        """Return the type of the interface on card number `card`."""
        if card == 0:
            return self.first
        return "efa" if self.addressed and card % self.addressed == 0 else "efa-only"


CARDS: Mapping[str, Cards] = {
    "p4d.24xlarge": Cards(count=4, addressed=1),
    "p4de.24xlarge": Cards(count=4, addressed=1),
    "p5.48xlarge": Cards(count=32, addressed=4),
    "p5e.48xlarge": Cards(count=32, addressed=4),
    "p5en.48xlarge": Cards(count=16, addressed=4),
    "p6-b200.48xlarge": Cards(count=8),
    # Its first card does not support EFA.
    "p6-b300.48xlarge": Cards(count=17, first="interface"),
    "p5.4xlarge": Cards(count=1),
    "g6e.48xlarge": Cards(count=4, addressed=1),
}
"""Types with EFA, from EC2's documentation. Other types have one plain interface."""


def interfaces(
    instance_type: str, *, subnet: str, groups: Sequence[str]
) -> list[dict[str, Any]] | None:
    """Return an interface for each card of the type; None for types without EFA."""
    cards = CARDS.get(instance_type)
    if cards is None:
        return None
    common: dict[str, Any] = {"DeleteOnTermination": True}
    if subnet:
        common["SubnetId"] = subnet
    if groups:
        common["Groups"] = list(groups)
    return [
        {
            **common,
            "NetworkCardIndex": card,
            "DeviceIndex": 0 if card == 0 else 1,
            "InterfaceType": cards.kind(card),
        }
        for card in range(cards.count)
    ]


SIZE_MAX = 16 * 1024
"""The largest user data that EC2 accepts, before base64."""


def user_data(text: str, public_keys: Sequence[str]) -> bytes:
    """Return the user data for cloud-init.

    EC2 accepts one named key pair per machine; keys that are written out are added here. The same
    input gives the same bytes: EC2 refuses a token that returns with other parameters.
    """
    plain = text.encode() if not public_keys else _with_keys(text, public_keys)
    if len(plain) <= SIZE_MAX:
        return plain
    packed = gzip.compress(plain, mtime=0)
    if len(packed) > SIZE_MAX:
        raise RejectedError(
            f"user_data: {len(packed)} bytes after compression, and EC2 takes {SIZE_MAX}; "
            "fetch the rest from the machine"
        )
    return packed


def _with_keys(text: str, public_keys: Sequence[str]) -> bytes:
    keys = msgspec.json.encode({"ssh_authorized_keys": list(public_keys)}).decode()
    # JSON is valid YAML. Cloud-init merges the keys of both parts.
    config = f"#cloud-config\n# keys of the pool\n{keys}\n"
    return multipart([config, text] if text else [config], boundary="navarch").encode()
