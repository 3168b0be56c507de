"""CreateFleet: many machines of one call, in any zone of a region; pure.

A fleet of type `instant` is one purchase: EC2 starts the machines in the zones that have them, and
never again. The settings of the machines are in a launch template, which later calls use too.

EC2 gives the machines of a fleet the same tags, and no number. Navarch numbers them by their
instance ids, in order. The labels of a machine are in the tag for its number.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from navarch.core.errors import CapacityError, ProviderError, RejectedError
from navarch.core.ids import InstanceId
from navarch.core.ownership import CLUSTER, POOL
from navarch.core.records import evolve
from navarch.ports.provider import ProvisionRequest
from navarch.providers.aws.ec2 import AwsSettings
from navarch.providers.aws.request import (
    Site,
    is_whole_group,
    run_instances,
    shared_request,
    tags_of,
)
from navarch.providers.aws.translation import NUMBERED, error_class
from navarch.providers.shared_calls import common_labels

FLEET = "aws:ec2:fleet-id"
"""The tag that EC2 adds to the machines of a fleet."""

_NOT_IN_TEMPLATES = (
    "ClientToken",
    "MinCount",
    "MaxCount",
    "SubnetId",
    "UserData",
    "InstanceMarketOptions",
    "Placement",
)
"""What CreateFleet sets for each call, or EC2 for each zone."""


def launch_template(
    requests: Sequence[ProvisionRequest], settings: AwsSettings, site: Site
) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the content of the launch template of these machines.

    The name has the hash of the content: equal machines find the template of an earlier call.
    """
    first = requests[0]
    labels = common_labels(requests)
    one = evolve(first, labels=labels, name=labels.get(POOL, first.name), user_data="")
    params = run_instances(one, settings, site)
    data = {key: value for key, value in params.items() if key not in _NOT_IN_TEMPLATES}
    if site.group:
        data["Placement"] = {"GroupName": site.group}
    if "NetworkInterfaces" in params:
        # The subnet depends on the zone, which EC2 chooses.
        data["NetworkInterfaces"] = [
            {key: value for key, value in card.items() if key != "SubnetId"}
            for card in params["NetworkInterfaces"]
        ]
    # CreateFleet itself tags the machines.
    data["TagSpecifications"] = [
        each for each in params["TagSpecifications"] if each["ResourceType"] != "instance"
    ]
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:24]
    return "-".join(x for x in ("navarch", labels.get(CLUSTER, ""), digest) if x), data


def create_fleet(
    requests: Sequence[ProvisionRequest],
    settings: AwsSettings,
    site: Site,
    *,
    template: str,
    subnets: Mapping[str, str],
) -> Mapping[str, Any] | None:
    """Return the parameters of the call that starts these machines; None if they cannot share one.

    `subnets` are the zones in which machines may start, in order of preference, with the subnet of
    each zone; without a name, EC2 takes the default subnet of the zone.
    """
    shared = shared_request(requests)
    if shared is None or shared.reservation:
        return None
    boot = run_instances(shared, settings, site).get("UserData", b"")
    specification = {"LaunchTemplateName": template, "Version": "1"}
    if boot:
        specification["LaunchTemplateSpecificationUserData"] = base64.b64encode(boot).decode()
    overrides = [
        {
            "InstanceType": shared.instance_type,
            **({"SubnetId": subnet} if subnet else {"AvailabilityZone": zone}),
            "Priority": float(place),
        }
        for place, (zone, subnet) in enumerate(subnets.items())
    ]
    market = "spot" if shared.spot else "on-demand"
    options: dict[str, Any] = {
        "AllocationStrategy": "price-capacity-optimized" if shared.spot else "prioritized"
    }
    if is_whole_group(requests):
        options |= {"MinTargetCapacity": len(requests), "SingleInstanceType": True}
    if shared.group:
        options["SingleAvailabilityZone"] = True
    return {
        "Type": "instant",
        "ClientToken": shared.token,
        "LaunchTemplateConfigs": [
            {"LaunchTemplateSpecification": specification, "Overrides": overrides}
        ],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": len(requests),
            "DefaultTargetCapacityType": market,
        },
        "SpotOptions" if shared.spot else "OnDemandOptions": options,
        "TagSpecifications": [
            {"ResourceType": "fleet", "Tags": tags_of(common_labels(requests))},
            {
                "ResourceType": "instance",
                "Tags": tags_of({"Name": shared.name, NUMBERED: "by-id", **shared.labels}),
            },
        ],
    }


def zones_of(fleet: Mapping[str, Any], zone_of_subnet: Mapping[str, str]) -> dict[InstanceId, str]:
    """Return the machines of a fleet, in the order of their numbers, with their zones."""
    found = {
        InstanceId(name): _zone(group, zone_of_subnet)
        for group in fleet.get("Instances", ())
        for name in group.get("InstanceIds", ())
    }
    return dict(sorted(found.items()))


def why_missing(
    fleet: Mapping[str, Any], zone_of_subnet: Mapping[str, str], *, first_zone: str, what: str
) -> ProviderError:
    """Return why a fleet has fewer machines than requested.

    A quota or a permission concerns the whole region. What EC2 refuses otherwise counts if it is
    about the first zone: in the others, EC2 has no machine for this request.
    """
    sold_out: ProviderError = CapacityError(f"{what}: EC2 had no more")
    for error in fleet.get("Errors", ()):
        code, message = error.get("ErrorCode", ""), error.get("ErrorMessage", "")
        kind = error_class(code)
        refusal = kind(f"{what}: {code}: {message}")
        if kind is CapacityError:
            sold_out = refusal
        elif kind is not RejectedError or _zone(error, zone_of_subnet) == first_zone:
            return refusal
    return sold_out


def _zone(part: Mapping[str, Any], zone_of_subnet: Mapping[str, str]) -> str:
    override = part.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    zone = part.get("AvailabilityZone") or override.get("AvailabilityZone", "")
    return str(zone or zone_of_subnet.get(override.get("SubnetId", ""), ""))


def is_complete(fleet: Mapping[str, Any]) -> bool:
    """Return whether a fleet lists all machines that it started.

    Without all of them, their numbers would be wrong.
    """
    listed = sum(len(group.get("InstanceIds", ())) for group in fleet.get("Instances", ()))
    return 0 < listed >= int(fleet.get("FulfilledCapacity", 0))
