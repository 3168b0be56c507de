"""What a cloud needs before it sells a machine: reported when a pool is described."""

from typing import Any

import pytest

from navarch.config import ConfigError, parse_config
from navarch.config.provider import AwsConfig, GcpConfig, LambdaConfig, ProviderConfig
from navarch.config.purchase import obstacle
from navarch.core.ids import ProviderName
from navarch.core.launch import Offering

PUBLIC = "ssh-ed25519 AAAAC3 me"
LAB = LambdaConfig(name="lab")
WORK = AwsConfig(name="work")
GOOGLE = GcpConfig(name="google", project="p")


def found(provider: ProviderConfig, *keys: str, **offering: Any) -> str:  # noqa: ANN401 - its fields
    at = Offering(provider=ProviderName(provider.name), instance_type="x", **offering)
    return str(obstacle(provider, at, keys) or "")


def test_lambda_needs_a_region_and_exactly_one_key_and_sells_on_demand() -> None:
    assert found(LAB, PUBLIC) == ("lab sells by region; give the pool a region, such as us-east-1")
    assert found(LAB, region="us-east-1").startswith(
        "lab needs exactly one SSH key per machine, not 0; give the pool one (`--ssh-key`"
    )
    assert "not 2" in found(LAB, "a", "b", region="us-east-1")
    assert "sells no spot machines" in found(LAB, "a", region="us-east-1", spot=True)
    assert "has no reservations" in found(LAB, "a", region="us-east-1", reservation="r")
    assert found(LAB, "a", region="us-east-1") == ""
    assert found(LambdaConfig(name="lab", ssh_key="a"), region="us-east-1") == ""


def test_aws_needs_a_region_that_it_lists_and_at_most_one_key_by_name() -> None:
    assert found(WORK).startswith("work sells by region; give the pool a region")
    assert found(WORK, region="us-east-1") == ""
    assert found(WORK, zone="us-east-1a") == ""
    assert found(AwsConfig(name="work", region="us-east-1")) == ""
    listed = AwsConfig(name="work", regions=("us-east-1",))
    assert "us-west-2 is not among the regions of work" in found(listed, zone="us-west-2b")
    assert found(listed, zone="us-east-1b") == ""
    assert "not 2" in found(WORK, "a", "b", region="us-east-1")
    assert found(WORK, "a", PUBLIC, region="us-east-1") == ""


def test_google_needs_a_zone_outside_its_own_and_public_keys() -> None:
    assert found(GOOGLE) == ""
    assert found(GOOGLE, region="us-central1") == ""
    assert found(GOOGLE, region="europe-west4").startswith(
        "google sells by zone; give the pool a zone of europe-west4"
    )
    assert found(GOOGLE, region="europe-west4", zone="europe-west4-b") == ""
    assert 'the SSH key "laptop" is a name' in found(GOOGLE, "laptop")
    assert found(GOOGLE, PUBLIC) == ""


FILE = """\
server: {external_address: https://n.com}
providers: {lab: {type: lambda, api_key: k}, google: {type: gcp, project: p}}
pools:
  training:
    instance_type: h100-8x
    max_nodes: 1
"""


def test_a_file_with_a_pool_that_no_cloud_would_sell_to_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(FILE + "    provider: lab\n")
    (problem,) = caught.value.problems
    assert problem.message == 'pool "training": lab sells by region'
    assert problem.remedy == "give the pool a region, such as us-east-1"
    assert problem.place is not None
    assert problem.place.line == 4
    parse_config(FILE + "    provider: lab\n    region: us-east-1\n    ssh_keys: [laptop]\n")


def test_one_of_several_offerings_that_cannot_be_bought_is_a_warning() -> None:
    several = FILE + "    providers: [{name: lab, regions: [us-east-1]}, {name: google}]\n"
    (warning,) = parse_config(several).warnings
    assert warning.message == 'pool "training": lab needs exactly one SSH key per machine, not 0'
