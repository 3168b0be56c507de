"""B19: the bugs of the Go system's adapters for Google Cloud and Lambda, one test each."""

import asyncio
from decimal import Decimal

import pytest
from test_gcp_provider import SETTINGS, a_request, run_story
from test_lambda_provider import a_request as a_request_at_lambda
from test_lambda_provider import run_story as run_story_at_lambda
from tests.support.compute_server import LocalCompute, Machine
from tests.support.lambda_server import LocalLambda

from navarch.core.errors import CapacityError, RegionQuotaError
from navarch.core.instance import InstanceStatus
from navarch.providers.gcp.provider import GcpCloud
from navarch.providers.lambdalabs.provider import LambdaCloud


@pytest.mark.parametrize(
    ("code", "error"),
    [("ZONE_RESOURCE_POOL_EXHAUSTED", CapacityError), ("QUOTA_EXCEEDED", RegionQuotaError)],
)
def test_the_failure_of_an_accepted_operation_is_raised(code: str, error: type[Exception]) -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        with pytest.raises(error):
            await cloud.provision(a_request())

    assert run_story(scenario, fail_with=(403, code, "no")).machines == []


def test_keys_in_the_metadata_are_used_despite_os_login() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        await cloud.provision(a_request())

    (machine,) = run_story(scenario).machines
    metadata = {item["key"]: item["value"] for item in machine.body["metadata"]["items"]}
    assert metadata["ssh-keys"]
    assert metadata["enable-oslogin"] == "FALSE"


def test_a_machine_is_bought_in_the_requested_region() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        bought = await cloud.provision(a_request(region="europe-west4", zone="europe-west4-b"))
        assert (bought.region, bought.zone) == ("europe-west4", "europe-west4-b")

    (machine,) = run_story(scenario).machines
    assert machine.zone == "europe-west4-b"


def test_other_machines_in_the_project_are_not_listed() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        body = {"name": "theirs", "machineType": "zones/us-east5-a/machineTypes/a3-highgpu-8g"}
        compute.machines.append(Machine("us-east5-a", body, 99, 0.0))
        bought = await cloud.provision(a_request())
        assert [one.id for one in await cloud.list_instances()] == [bought.id]

    run_story(scenario, SETTINGS)


def test_prices_and_gpus_are_read_from_lambdas_fields() -> None:
    async def scenario(cloud: LambdaCloud, _: LocalLambda) -> None:
        offerings = {x.instance_type: x for x in await cloud.offerings()}
        assert offerings["gpu_8x_h100_sxm5"].price_per_hour == Decimal("31.92")
        assert offerings["gpu_8x_h100_sxm5"].gpus == 8
        assert offerings["gpu_1x_h100_pcie"].gpus == 1

    run_story_at_lambda(scenario)


def test_lambdas_statuses_are_translated() -> None:
    async def scenario(cloud: LambdaCloud, _: LocalLambda) -> None:
        await cloud.provision(a_request_at_lambda())
        (booting,) = await cloud.list_instances()
        await asyncio.sleep(300)
        (active,) = await cloud.list_instances()
        assert [booting.status, active.status] == [InstanceStatus.PENDING, InstanceStatus.RUNNING]

    run_story_at_lambda(scenario)


def test_a_type_that_is_sold_out_in_a_region_is_not_offered_there() -> None:
    async def scenario(cloud: LambdaCloud, local: LocalLambda) -> None:
        local.stock["gpu_8x_h100_sxm5", "us-east-1"] = 0
        found = [x.region for x in await cloud.offerings() if x.gpus == 8]
        assert found == ["us-west-1"]

    run_story_at_lambda(scenario)
