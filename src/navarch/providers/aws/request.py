"""The parameters of RunInstances for one machine. Pure functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from navarch.core.errors import RejectedError
from navarch.core.ownership import CLUSTER
from navarch.ports.provider import ProvisionRequest
from navarch.providers.aws.network import interfaces
from navarch.providers.aws.settings import AwsSettings
from navarch.providers.aws.userdata import split_keys, user_data

TOKEN_MAX = 64


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
    names, public_keys = split_keys(request.ssh_keys)
    if len(names) > 1:
        raise RejectedError(
            f"ssh_keys: EC2 takes one key pair by name, not {len(names)}; write the others out"
        )
    boot = user_data(request.user_data, public_keys)
    return {
        "ClientToken": request.token,
        "MinCount": 1,
        "MaxCount": 1,
        "InstanceType": request.instance_type,
        "ImageId": settings.image_in(site.region, request.instance_type),
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
        **({"UserData": boot} if boot else {}),
        **({"KeyName": names[0]} if names else {}),
        **_network(request, settings, site),
        **_placement(request, site),
        **_market(request, site),
        **_profile(settings),
        **_disk(settings),
    }


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
    wants_efa = bool(request.group) if settings.efa is None else settings.efa
    groups = settings.security_groups
    cards = interfaces(request.instance_type, subnet=site.subnet, groups=groups)
    if wants_efa and cards is not None:
        return {"NetworkInterfaces": cards}
    return {
        **({"SubnetId": site.subnet} if site.subnet else {}),
        **({"SecurityGroupIds": list(groups)} if groups else {}),
    }


def _placement(request: ProvisionRequest, site: Site) -> dict[str, Any]:
    placement = {
        **({"AvailabilityZone": request.zone} if request.zone else {}),
        **({"GroupName": site.group} if site.group else {}),
    }
    return {"Placement": placement} if placement else {}


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


def _profile(settings: AwsSettings) -> dict[str, Any]:
    profile = settings.instance_profile
    if not profile:
        return {}
    return {"IamInstanceProfile": {"Arn" if profile.startswith("arn:") else "Name": profile}}


def _disk(settings: AwsSettings) -> dict[str, Any]:
    if not settings.root_gb:
        return {}
    disk = {"VolumeSize": settings.root_gb, "VolumeType": "gp3", "DeleteOnTermination": True}
    return {"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": disk}]}
