"""Requests to EC2, validated against the vendor's API model."""

import gzip
import hashlib
from email import message_from_bytes

import botocore.session
import pytest
from botocore.validate import validate_parameters

from navarch.core.errors import (
    CapacityError,
    CredentialError,
    ProviderError,
    RegionQuotaError,
    RejectedError,
)
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.ownership import Cluster, Owner
from navarch.core.records import evolve
from navarch.ports.provider import ProvisionRequest
from navarch.providers.aws.ec2 import AwsSettings
from navarch.providers.aws.fleets import create_fleet, is_complete, launch_template, why_missing
from navarch.providers.aws.request import (
    CARDS,
    SIZE_MAX,
    Site,
    group_name,
    interfaces,
    run_instances,
    run_many,
    user_data,
)
from navarch.providers.aws.translation import labels_of

MODEL = botocore.session.Session().get_service_model("ec2")

PLAIN = ProvisionRequest(
    token=Token("launch-0123456789abcdef"),
    name="training-0",
    instance_type="p5.48xlarge",
    region="us-east-1",
    zone="us-east-1a",
    labels={"team": "research", "navarch-cluster": "c-1"},
)
HOME = Site(region="us-east-1")
RICH = AwsSettings(
    image="ami-1",
    subnets=("subnet-1",),
    security_groups=("sg-1",),
    instance_profile="arn:aws:iam::1:instance-profile/gpu",
    root_gb=500,
)
KINDS = {
    "plain": (PLAIN, AwsSettings(), HOME),
    "rich": (evolve(PLAIN, ssh_keys=("me",)), RICH, Site(region="us-east-1", subnet="subnet-1")),
    "spot": (evolve(PLAIN, spot=True), RICH, HOME),
    "gang": (
        evolve(PLAIN, group="training-g0", group_size=4),
        RICH,
        Site(region="us-east-1", subnet="subnet-1", group="navarch-c-1-training-g0"),
    ),
    "reservation": (evolve(PLAIN, reservation="cr-1"), RICH, HOME),
    "block": (evolve(PLAIN, reservation="cr-2"), RICH, Site(region="us-east-1", block=True)),
    "group of reservations": (
        evolve(PLAIN, reservation="arn:aws:resource-groups:us-east-1:1:group/g"),
        RICH,
        HOME,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_request_is_valid_in_ec2s_model(kind: str) -> None:
    params = run_instances(*KINDS[kind])
    shape = MODEL.operation_model("RunInstances").input_shape
    validate_parameters(params, shape)
    options = params.get("InstanceMarketOptions", {})
    markets = shape.members["InstanceMarketOptions"].members["MarketType"].enum
    assert options.get("MarketType", "spot") in markets
    resources = shape.members["TagSpecifications"].member.members["ResourceType"].enum
    assert {each["ResourceType"] for each in params["TagSpecifications"]} <= set(resources)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_requests_give_equal_parameters(kind: str) -> None:
    request, settings, site = KINDS[kind]
    shuffled = evolve(request, labels=dict(reversed(list(request.labels.items()))))
    assert run_instances(request, settings, site) == run_instances(shuffled, settings, site)


def test_a_machine_requires_metadata_tokens_and_terminates_on_shutdown() -> None:
    params = run_instances(PLAIN, AwsSettings(), HOME)
    assert params["MetadataOptions"]["HttpTokens"] == "required"
    assert params["InstanceInitiatedShutdownBehavior"] == "terminate"
    assert (params["MinCount"], params["MaxCount"]) == (1, 1)


def test_tags_are_part_of_the_launch_request() -> None:
    params = run_instances(evolve(PLAIN, spot=True), AwsSettings(), HOME)
    kinds = [each["ResourceType"] for each in params["TagSpecifications"]]
    assert kinds == ["instance", "volume", "network-interface", "spot-instances-request"]
    assert {"Key": "navarch-cluster", "Value": "c-1"} in params["TagSpecifications"][0]["Tags"]


def test_a_capacity_block_sets_market_and_target() -> None:
    params = run_instances(*KINDS["block"])
    assert params["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    target = params["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": "cr-2"}


def test_a_gang_gets_every_network_card_and_a_single_machine_does_not() -> None:
    gang = run_instances(*KINDS["gang"])
    assert len(gang["NetworkInterfaces"]) == 32
    assert "SubnetId" not in gang, "EC2 refuses a subnet next to interfaces"
    assert "SecurityGroupIds" not in gang
    assert gang["Placement"]["GroupName"] == "navarch-c-1-training-g0"
    assert "NetworkInterfaces" not in run_instances(*KINDS["rich"])


@pytest.mark.parametrize("instance_type", CARDS)
def test_the_first_card_carries_the_address_and_no_card_is_used_twice(instance_type: str) -> None:
    cards = interfaces(instance_type, subnet="subnet-1", groups=["sg-1"])
    assert cards is not None
    assert cards[0]["InterfaceType"] in ("efa", "interface")
    assert cards[0]["DeviceIndex"] == 0
    assert all(card["DeviceIndex"] == 1 for card in cards[1:])
    assert len({card["NetworkCardIndex"] for card in cards}) == len(cards)


def test_two_clusters_in_one_account_do_not_share_a_placement_group() -> None:
    mine = evolve(PLAIN, group="training-g0")
    theirs = evolve(mine, labels={"navarch-cluster": "c-2"})
    assert group_name(mine) != group_name(theirs)


def test_public_keys_are_added_to_the_user_data() -> None:
    data = user_data("#!/bin/sh\necho hello\n", ["ssh-ed25519 AAAA me"])
    message = message_from_bytes(data)
    parts = message.get_payload()
    assert isinstance(parts, list)
    kinds = [part.get_content_type() for part in parts]  # type: ignore[union-attr]
    assert kinds == ["text/cloud-config", "text/x-shellscript"]
    assert b"ssh-ed25519 AAAA me" in data


def test_long_user_data_is_compressed_deterministically() -> None:
    text = "#cloud-config\n" + "# a comment\n" * 3000
    data = user_data(text, [])
    assert len(data) <= SIZE_MAX
    assert gzip.decompress(data).decode() == text
    assert data == user_data(text, [])


def test_user_data_that_is_too_long_after_compression_is_refused_with_a_remedy() -> None:
    noise = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(700))
    with pytest.raises(RejectedError, match=r"EC2 takes 16384; fetch the rest"):
        user_data(noise, [])


def test_two_key_pairs_by_name_are_refused_with_a_remedy() -> None:
    with pytest.raises(RejectedError, match="write the others out"):
        run_instances(evolve(PLAIN, ssh_keys=("a", "b")), AwsSettings(), HOME)


def test_the_regions_image_takes_precedence_over_the_general_one() -> None:
    settings = AwsSettings(image="ami-1", images={"us-west-2": "ami-2"})
    assert settings.image_in("us-west-2", "p5.48xlarge") == "ami-2"
    assert settings.image_in("us-east-1", "p5.48xlarge") == "ami-1"
    assert "/arm64/" in AwsSettings().image_in("us-east-1", "p6e-gb200.36xlarge")


def several(count: int, *, group: str = "", group_size: int = 0) -> list[ProvisionRequest]:
    cluster = Cluster(id="c-1", secret=bytes(32))
    owners = [
        Owner(node=NodeId(f"training-{n}"), pool=PoolName("training"), token=Token(f"launch-{n}"))
        for n in range(count)
    ]
    return [
        evolve(
            PLAIN,
            token=owner.token,
            name=owner.node,
            labels={"team": "research", **cluster.labels(owner)},
            group=group,
            group_size=group_size,
        )
        for owner in owners
    ]


def test_each_machine_of_a_call_keeps_its_own_labels() -> None:
    requests = several(16)
    params = run_many(requests, AwsSettings(), HOME)
    assert params is not None
    assert not validate_parameters(params, MODEL.operation_model("RunInstances").input_shape)
    assert (params["MinCount"], params["MaxCount"]) == (1, 16)
    tags = {tag["Key"]: tag["Value"] for tag in params["TagSpecifications"][0]["Tags"]}
    for index, request in enumerate(requests):
        labels = labels_of(tags, index)
        del labels["Name"]
        assert labels == request.labels
    assert "navarch-node" not in labels_of(tags, 16), "that machine belongs to no request"


def test_a_whole_group_is_requested_with_its_size_as_the_minimum() -> None:
    site = Site(region="us-east-1", group="navarch-c-1-g")
    whole = run_many(several(4, group="g", group_size=4), AwsSettings(), site)
    part = run_many(several(3, group="g", group_size=4), AwsSettings(), site)
    assert whole is not None
    assert part is not None
    assert (whole["MinCount"], part["MinCount"]) == (4, 1)


def test_the_token_of_a_shared_call_depends_on_the_tokens_of_its_machines() -> None:
    first, again, other = (run_many(several(n), AwsSettings(), HOME) for n in (3, 3, 4))
    assert first == again
    assert first is not None
    assert other is not None
    assert first["ClientToken"] != other["ClientToken"]
    assert len(first["ClientToken"]) <= 64


@pytest.mark.parametrize(
    "odd",
    [
        evolve(PLAIN, user_data="#!/bin/sh"),
        evolve(PLAIN, labels={"navarch-node": "a b"}),
        evolve(PLAIN, labels={"navarch-node": "x" * 300}),
        evolve(PLAIN, labels={"a=b": "c"}),
    ],
)
def test_machines_whose_differences_ec2_cannot_hold_share_no_call(odd: ProvisionRequest) -> None:
    assert run_many([PLAIN, odd], AwsSettings(), HOME) is None


def test_a_call_has_no_more_tags_than_ec2_allows() -> None:
    assert run_many(several(60), AwsSettings(), HOME) is None


SUBNETS = {"us-east-1a": "", "us-east-1b": "subnet-2"}


@pytest.mark.parametrize("kind", ["plain", "rich", "spot", "gang"])
def test_every_kind_of_fleet_is_valid_in_ec2s_model(kind: str) -> None:
    request, settings, site = KINDS[kind]
    requests = [evolve(request, token=Token(f"launch-{n}"), user_data="#!/bin/sh") for n in (0, 1)]
    name, data = launch_template(requests, settings, site)
    shape = MODEL.operation_model("CreateLaunchTemplate").input_shape
    validate_parameters({"LaunchTemplateName": name, "LaunchTemplateData": data}, shape)
    call = create_fleet(requests, settings, site, template=name, subnets=SUBNETS)
    assert call is not None
    shape = MODEL.operation_model("CreateFleet").input_shape
    validate_parameters(call, shape)
    for options, strategies in (
        ("OnDemandOptions", {"prioritized"}),
        ("SpotOptions", {"price-capacity-optimized"}),
    ):
        if options in call:
            members = shape.members[options].members["AllocationStrategy"]
            assert call[options]["AllocationStrategy"] in strategies & set(members.enum)


def test_calls_with_equal_settings_share_a_launch_template() -> None:
    def name_of(requests: list[ProvisionRequest], settings: AwsSettings = RICH) -> str:
        return launch_template(requests, settings, HOME)[0]

    later = [evolve(x, token=Token(f"{x.token}-later"), user_data="later") for x in several(2)]
    assert name_of(several(4)) == name_of(later)
    assert name_of(several(4)) != name_of(several(4), AwsSettings(image="ami-2"))


def test_a_machine_of_a_fleet_has_the_labels_of_its_request() -> None:
    requests = several(3)
    call = create_fleet(requests, AwsSettings(), HOME, template="t", subnets=SUBNETS)
    assert call is not None
    (tags,) = (x["Tags"] for x in call["TagSpecifications"] if x["ResourceType"] == "instance")
    by_name = {tag["Key"]: tag["Value"] for tag in tags}
    for number, request in enumerate(requests):
        assert labels_of(by_name, number).items() >= request.labels.items()
    assert "navarch-node" not in labels_of(by_name, None), "without a number it has no owner"


def test_a_fleet_starts_a_whole_group_in_one_zone_or_nothing() -> None:
    def options(count: int) -> object:
        group = several(count, group="g", group_size=4)
        call = create_fleet(group, AwsSettings(), HOME, template="t", subnets=SUBNETS)
        assert call is not None
        return call["OnDemandOptions"]

    zone = {"AllocationStrategy": "prioritized", "SingleAvailabilityZone": True}
    assert options(4) == {**zone, "MinTargetCapacity": 4, "SingleInstanceType": True}
    assert options(3) == zone


def test_reserved_machines_are_not_started_by_a_fleet() -> None:
    reserved = [evolve(x, reservation="cr-1") for x in several(2)]
    assert create_fleet(reserved, AwsSettings(), HOME, template="t", subnets=SUBNETS) is None


def refused(code: str, zone: str = "us-east-1a") -> dict[str, object]:
    place = {"Overrides": {"AvailabilityZone": zone}}
    return {"ErrorCode": code, "ErrorMessage": "", "LaunchTemplateAndOverrides": place}


SOLD_OUT = refused("InsufficientInstanceCapacity")


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([], CapacityError),
        ([SOLD_OUT, refused("InsufficientInstanceCapacity", "us-east-1b")], CapacityError),
        ([SOLD_OUT, refused("VcpuLimitExceeded", "us-east-1b")], RegionQuotaError),
        ([SOLD_OUT, refused("UnauthorizedOperation", "us-east-1b")], CredentialError),
        ([SOLD_OUT, refused("InvalidParameterValue", "us-east-1b")], CapacityError),
        ([refused("InvalidParameterValue"), SOLD_OUT], RejectedError),
    ],
)
def test_the_error_of_a_fleet_is_what_the_operator_can_remedy(
    errors: list[dict[str, object]], expected: type[ProviderError]
) -> None:
    found = why_missing({"Errors": errors}, {}, first_zone="us-east-1a", what="us-east-1")
    assert type(found) is expected


@pytest.mark.parametrize(
    ("listed", "fulfilled", "complete"), [(2, 2.0, True), (1, 2.0, False), (0, 0.0, False)]
)
def test_a_fleet_is_complete_once_it_lists_every_machine(
    listed: int, fulfilled: float, complete: bool
) -> None:
    names = [f"i-{n}" for n in range(listed)]
    fleet = {"FulfilledCapacity": fulfilled, "Instances": [{"InstanceIds": names}]}
    assert is_complete(fleet) is complete
