"""The Google Cloud provider: the official client against Google's published schema."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.compute_server import PROJECT, LocalCompute, Machine, local_compute, refusal
from tests.support.google_discovery import Discovery
from tests.support.metadata_service import metadata_service

from navarch.clock import SystemClock, ThreadOffload
from navarch.core.errors import (
    CapacityError,
    CredentialError,
    InstanceNotFoundError,
    KeyRefusedError,
    OutcomeUnknownError,
    ProviderError,
    QuotaError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, Token
from navarch.core.instance import Instance, InstanceStatus, NoticeKind
from navarch.core.ownership import CLUSTER
from navarch.core.records import evolve
from navarch.ports.provider import Provider, ProvisionRequest
from navarch.providers.gcp.client import COMPUTE, ComputeClient, anonymous, credentials_for
from navarch.providers.gcp.provider import LISTING_LAG, GcpCloud
from navarch.providers.gcp.translation import GcpSettings, request_id, resource_name
from navarch.sim.kernel.clock import InlineOffload, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.testing.loopback_server import (
    LOSE_ANSWER,
    LOSE_REQUEST,
    Fault,
    HttpRequest,
    HttpResponse,
    LoopbackContract,
)
from navarch.testing.provider_contract import Story

Scenario = Callable[[GcpCloud, LocalCompute], Awaitable[None]]
SETTINGS = GcpSettings(name="gcp", project=PROJECT)
BULK = replace(SETTINGS, machines_per_call=16)


def run_story(scenario: Scenario, settings: GcpSettings = SETTINGS, **local: Any) -> LocalCompute:
    """Run a scenario in virtual time, with the official client and a server on loopback."""

    async def main(compute: LocalCompute) -> None:
        compute.now_s = asyncio.get_running_loop().time
        client = ComputeClient(
            InlineOffload(), project=settings.project, endpoint=compute.url, credentials=anonymous
        )
        await scenario(GcpCloud(SimClock(), client, settings), compute)

    with local_compute(**local) as compute:
        with asyncio.Runner(loop_factory=SimLoop) as runner:
            runner.run(main(compute))
        return compute


def a_request(token: str = "t-1", **changes: Any) -> ProvisionRequest:
    return evolve(TestGcp().request(), token=Token(token), **changes)


def inserting(how: Fault) -> Callable[[HttpRequest], Fault]:
    return lambda request: how if request.method == "POST" else None


class TestGcp(LoopbackContract):
    local: LocalCompute
    lag_s = LISTING_LAG.total_seconds()

    def run(self, story: Story) -> None:
        async def scenario(cloud: GcpCloud, local: LocalCompute) -> None:
            self.local, self.wire = local, local.wire
            await story(cloud)

        run_story(scenario, lag_s=20.0)

    def refuse(self, provider: Provider, error: type[ProviderError]) -> bool:
        codes = {
            CapacityError: "ZONE_RESOURCE_POOL_EXHAUSTED",
            QuotaError: "QUOTA_EXCEEDED",
            CredentialError: "IAM_PERMISSION_DENIED",
            RejectedError: "INVALID_USAGE",
            TransientError: "RESOURCE_OPERATION_RATE_EXCEEDED",
        }
        del provider
        self.local.fail_with = (400, codes[error], "not today")
        return True

    def is_purchase(self, request: HttpRequest) -> bool:
        return request.method == "POST"

    def is_termination(self, request: HttpRequest) -> bool:
        return request.method == "DELETE"

    def impair(self, provider: Provider, instance: InstanceId) -> bool:
        del provider
        name = instance.rpartition("/")[2]
        machine = next(x for x in self.local.machines if x.body["name"] == name)
        machine.repairing = True
        return True

    def small_pages(self, provider: Provider) -> bool:
        del provider
        self.local.page = 2
        return True

    def recover(self, provider: Provider) -> None:
        super().recover(provider)
        self.local.fail_with = None

    def request(self) -> ProvisionRequest:
        return evolve(
            super().request(),
            instance_type="a3-highgpu-8g",
            region="us-central1",
            zone="us-central1-a",
        )


class TestGcpThatSellsInBulk(TestGcp):
    def run(self, story: Story) -> None:
        async def scenario(cloud: GcpCloud, local: LocalCompute) -> None:
            self.local, self.wire = local, local.wire
            await story(cloud)

        run_story(scenario, BULK, lag_s=20.0)

    def sell_out(self, provider: Provider, zone: str) -> bool:
        del provider
        self.local.sold_out.add(zone)
        return True

    def other_zone(self) -> str:
        return "us-central1-b"

    def recover(self, provider: Provider) -> None:
        super().recover(provider)
        self.local.sold_out.clear()


def test_the_schema_rejects_unknown_fields() -> None:
    discovery = Discovery()
    with pytest.raises(ValueError, match="has no field labelz"):
        discovery.check("Instance", {"labelz": {}})
    with pytest.raises(ValueError, match="none of"):
        discovery.check("Instance", {"scheduling": {"provisioningModel": "CHEAP"}})
    with pytest.raises(ValueError, match="no parameter force"):
        discovery.call("POST", "/compute/v1/projects/p/zones/z/instances", "force=1")


def inserted(compute: LocalCompute) -> dict[str, Any]:
    (machine,) = compute.machines
    return machine.body


def test_a_machine_has_gpus_its_own_disk_and_our_metadata() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        await cloud.provision(a_request())

    body = inserted(run_story(scenario))
    assert body["scheduling"] == {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "provisioningModel": "STANDARD",
    }
    (disk,) = body["disks"]
    assert disk["autoDelete"] is True
    metadata = {item["key"]: item["value"] for item in body["metadata"]["items"]}
    assert metadata["user-data"] == "#cloud-config\n"
    assert metadata["ssh-keys"] == "ubuntu:ssh-ed25519 AAAA me"
    assert metadata["enable-oslogin"] == "FALSE"
    assert body["labels"]["navarch-token"] == "t-1"


def test_a_reclaimed_spot_machine_is_deleted() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        await cloud.provision(a_request(spot=True))

    scheduling = inserted(run_story(scenario))["scheduling"]
    assert scheduling["provisioningModel"] == "SPOT"
    assert scheduling["instanceTerminationAction"] == "DELETE"


def test_flex_start_sets_a_queue_time_and_a_run_time() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        await cloud.provision(a_request())

    settings = replace(SETTINGS, flex_start=True, max_run=timedelta(days=2))
    body = inserted(run_story(scenario, settings))
    assert body["scheduling"]["provisioningModel"] == "FLEX_START"
    assert body["scheduling"]["maxRunDuration"] == {"seconds": "172800"}
    assert body["params"]["requestValidForDuration"] == {"seconds": "600"}
    assert body["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}


@pytest.mark.parametrize("deployment", ["DENSE", "DEPLOYMENT_TYPE_UNSPECIFIED"])
def test_a_reservation_is_used_as_its_deployment_type_requires(deployment: str) -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        place = ("us-central1-a", "block-7")
        compute.reservations[place] = {"name": "block-7", "deploymentType": deployment}
        await cloud.provision(a_request(reservation="block-7"))
        with pytest.raises(RejectedError):
            await cloud.provision(a_request("t-2", reservation="nobody"))

    body = inserted(run_story(scenario))
    assert body["reservationAffinity"]["values"] == ["block-7"]
    bound = body["scheduling"]["provisioningModel"] == "RESERVATION_BOUND"
    assert bound is (deployment == "DENSE")


def test_a_group_shares_one_placement_policy() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        for number in range(3):
            request = a_request(f"t-{number}", group="training-g0", group_size=3)
            labels = {**request.labels, "navarch-token": f"t-{number}"}
            await cloud.provision(evolve(request, labels=labels, name=f"training-{number}"))
        await asyncio.sleep(60)
        places = await cloud.topology([one.id for one in await cloud.list_instances()])
        assert {place.block for place in places.values()} == {"cluster-1/block-1"}
        assert len(places) == 3
        ((_, policy),) = compute.policies.items()
        assert policy["groupPlacementPolicy"]["collocation"] == "COLLOCATED"

    run_story(scenario)


def test_unused_policies_are_deleted_and_those_in_use_are_kept() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        gone = await cloud.provision(a_request("t-0", group="a"))
        await cloud.provision(a_request("t-1", group="b"))
        await asyncio.sleep(7200)
        await cloud.terminate(gone.id)
        await asyncio.sleep(60)
        compute.policies["us-central1", "navarch-mine"] = {"name": "navarch-mine"}
        await cloud.provision(a_request("t-2", group="c"))
        left = {name.rsplit("-", 1)[0] for _, name in compute.policies}
        assert left == {"navarch-b", "navarch-c", "navarch"}

    run_story(scenario)


def test_older_machine_types_have_their_gpus_attached() -> None:
    kind = "n1-standard-8+nvidia-tesla-v100 x8"

    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        await cloud.provision(a_request(instance_type=kind))
        (listed,) = await cloud.list_instances()
        assert listed.instance_type == kind

    (gpus,) = inserted(run_story(scenario))["guestAccelerators"]
    assert gpus["acceleratorCount"] == 8


def test_labels_that_compute_engine_rejects_are_still_listed() -> None:
    labels = {"navarch-cluster": "C.1", "navarch-token": "T.1", "Team/Owner": "Ada Lovelace"}

    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        await cloud.provision(a_request(labels=labels))
        (listed,) = await cloud.list_instances()
        assert listed.labels.items() >= labels.items()

    run_story(scenario)


def test_a_stock_out_reported_by_the_operation_is_raised_within_two_seconds() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        compute.sold_out.add("us-central1-a")
        with pytest.raises(CapacityError, match="does not have enough resources"):
            await cloud.provision(a_request())
        (operation,) = compute.operations.values()
        assert compute.now_s() - operation.done_s <= 2.0
        await cloud.provision(a_request("t-2", zone="us-central1-b"))

    assert len(run_story(scenario).machines) == 1


def test_a_slow_operation_counts_as_a_launch() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        async with asyncio.timeout(60):
            assert (await cloud.provision(a_request())).status is InstanceStatus.PENDING

    run_story(scenario, insert_s=300.0)


OPERATIONS: list[tuple[str, type[ProviderError]]] = [
    ("ZONE_RESOURCE_POOL_EXHAUSTED", CapacityError),
    ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", CapacityError),
    ("STOCKOUT", CapacityError),
    ("UNSUPPORTED_OPERATION", CapacityError),
    ("RESOURCE_OPERATION_RATE_EXCEEDED", TransientError),
    ("RESOURCE_NOT_READY", TransientError),
    ("INTERNAL_ERROR", TransientError),
    ("IAM_PERMISSION_DENIED", CredentialError),
    ("RESOURCE_NOT_FOUND", RejectedError),
    ("INVALID_USAGE", RejectedError),
]


@pytest.mark.parametrize(("code", "error"), OPERATIONS, ids=[row[0] for row in OPERATIONS])
def test_every_failed_operation_raises_its_error(code: str, error: type[ProviderError]) -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        with pytest.raises(error) as caught:
            await cloud.provision(a_request())
        assert type(caught.value) is error
        assert code in str(caught.value)

    run_story(scenario, fail_with=(400, code, "no"))


ANSWERS: list[tuple[str, HttpResponse, type[ProviderError]]] = [
    ("sold out", refusal(503, "insufficientCapacity", "no"), CapacityError),
    ("throttled", refusal(403, "rateLimitExceeded", "slower"), TransientError),
    ("throttled 429", refusal(429, "never heard of", "slower"), TransientError),
    ("permission", refusal(403, "forbidden", "no"), CredentialError),
    ("key", refusal(401, "authError", "who?"), KeyRefusedError),
    ("API off", refusal(403, "accessNotConfigured", "no"), CredentialError),
    ("nonsense", refusal(400, "invalid", "what?"), RejectedError),
    ("no image", refusal(404, "notFound", "no image"), RejectedError),
    ("internal", refusal(500, "internalError", "oh"), OutcomeUnknownError),
    ("unavailable", refusal(503, "backendError", "oh"), OutcomeUnknownError),
    ("no words", HttpResponse(502, b"<html>"), OutcomeUnknownError),
    ("half an answer", HttpResponse(200, b'{"name'), OutcomeUnknownError),
]


@pytest.mark.parametrize(
    ("answer", "error"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS]
)
def test_every_refusal_raises_its_error(answer: HttpResponse, error: type[ProviderError]) -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        compute.wire.fault = inserting(answer)
        with pytest.raises(error) as caught:
            await cloud.provision(a_request())
        assert type(caught.value) is error

    run_story(scenario)


@pytest.mark.parametrize(
    ("metric", "everywhere"), [("NVIDIA_H100_GPUS", False), ("GPUS_ALL_REGIONS", True)]
)
@pytest.mark.parametrize("late", [False, True], ids=["at once", "by the operation"])
def test_a_quota_error_covers_its_region_or_all_regions(
    metric: str, everywhere: bool, late: bool
) -> None:
    words = f"Quota '{metric}' exceeded. Limit: 8.0"

    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        if not late:
            compute.wire.fault = inserting(refusal(403, "quotaExceeded", words))
        with pytest.raises(QuotaError) as caught:
            await cloud.provision(a_request())
        assert (type(caught.value) is QuotaError) is everywhere

    run_story(scenario, fail_with=(403, "QUOTA_EXCEEDED", words))


@pytest.mark.parametrize("how", [LOSE_REQUEST, LOSE_ANSWER])
def test_a_retry_with_the_same_token_resolves_a_lost_response(how: str) -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        compute.wire.fault = inserting(how)
        with pytest.raises(OutcomeUnknownError):
            await cloud.provision(a_request())
        compute.wire.fault = lambda _: None
        bought = await cloud.provision(a_request())
        assert [f"{m.zone}/{m.name}" for m in compute.alive()] == [bought.id]

    run_story(scenario)


def test_the_machine_name_prevents_duplicates_after_the_request_id_expires() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        first = await cloud.provision(a_request())
        compute.requests.clear()
        second = await cloud.provision(a_request())
        assert first.id == second.id

    assert len(run_story(scenario).machines) == 1


def test_a_request_id_is_a_stable_uuid() -> None:
    assert request_id(Token("t-1")) == "bcaed0bf-7f5f-5f5f-a427-db24476fecfe"
    assert request_id(Token("t-2")) != request_id(Token("t-1"))


@pytest.mark.parametrize("readable", ["Training_Pool.7", "7", "", "x" * 100, "-a-"])
def test_every_name_is_valid_at_compute_engine(readable: str) -> None:
    name = resource_name(readable, "token")
    Discovery().check("Instance", {"name": name})
    assert len(name) <= 63


def test_an_unreachable_project_is_a_transient_error() -> None:
    async def main() -> None:
        client = ComputeClient(
            InlineOffload(), project=PROJECT, endpoint="http://127.0.0.1:9", credentials=anonymous
        )
        with pytest.raises(TransientError):
            await GcpCloud(SimClock(), client, SETTINGS).provision(a_request())

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


def test_missing_credentials_raise_before_any_call(tmp_path: Any) -> None:
    async def main() -> None:
        client = ComputeClient(
            InlineOffload(),
            project=PROJECT,
            credentials=credentials_for(COMPUTE, file=str(tmp_path / "nowhere.json")),
        )
        with pytest.raises(CredentialError, match=r"nowhere\.json"):
            await GcpCloud(SimClock(), client, SETTINGS).list_instances()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(main())


AS_THE_MACHINE = """
import asyncio, sys
from navarch.providers.gcp.client import ComputeClient
from navarch.providers.gcp.client import COMPUTE, credentials_for
from navarch.sim.kernel.clock import InlineOffload

ours = credentials_for(COMPUTE)
client = ComputeClient(InlineOffload(), project="p", credentials=ours, endpoint=sys.argv[1])
client.list_all("labels.navarch-cluster:*")
"""


def test_the_service_account_of_the_servers_machine_is_used(
    tmp_path: Path,
) -> None:
    """Runs in its own process: Google's library looks for the metadata service once."""
    account = "service-accounts/default"
    with local_compute() as compute, metadata_service() as service:
        service.say("project-id", PROJECT)
        service.say(f"{account}/", {"email": "fleet@p", "scopes": [COMPUTE], "aliases": []})
        token = {"access_token": "of-the-machine", "expires_in": 3600, "token_type": "Bearer"}
        service.say(f"{account}/token", token)
        where = service.url.removeprefix("http://")
        machine = {"GCE_METADATA_HOST": where, "GCE_METADATA_IP": where, "HOME": str(tmp_path)}
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith("GOOGLE_")
        }
        subprocess.run(
            [sys.executable, "-c", AS_THE_MACHINE, compute.url],
            check=True,
            env={**clean, **machine},
        )
        (request,) = compute.wire.requests
    assert request.headers["authorization"] == "Bearer of-the-machine"


def test_all_pages_of_all_zones_are_listed() -> None:
    zones = ("us-central1-a", "us-central1-b", "us-east5-a")

    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        for number in range(7):
            token = f"t-{number}"
            labels = {**a_request().labels, "navarch-token": token}
            await cloud.provision(a_request(token, labels=labels, zone=zones[number % 3]))
        compute.wire.requests.clear()
        listed = await cloud.list_instances()
        assert {one.labels["navarch-token"] for one in listed} == {f"t-{n}" for n in range(7)}
        assert len(compute.wire.requests) == 4

    run_story(scenario, page=2)


@pytest.mark.parametrize(
    "fault", [{"unreachable": ["zones/us-east5-a"]}, {"warn": "UNREACHABLE"}], ids=["list", "zone"]
)
def test_a_listing_that_lacks_a_zone_raises(fault: dict[str, Any]) -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        await cloud.provision(a_request())
        vars(compute).update(fault)
        with pytest.raises(TransientError):
            await cloud.list_instances()

    run_story(scenario)


def test_a_missing_project_is_not_reported_as_a_missing_machine() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        compute.wire.fault = lambda _: refusal(404, "notFound", "no such project")
        with pytest.raises(RejectedError, match="no such project"):
            await cloud.list_instances()

    run_story(scenario)


def test_two_providers_of_one_project_list_their_own_machines() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        await cloud.provision(a_request())
        client = ComputeClient(
            InlineOffload(), project=PROJECT, endpoint=compute.url, credentials=anonymous
        )
        other = GcpCloud(SimClock(), client, replace(SETTINGS, name="flex"))
        assert list(await other.list_instances()) == []
        assert len(await cloud.list_instances()) == 1

    run_story(scenario)


def test_a_stopped_machine_is_listed_as_terminating() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        bought = await cloud.provision(a_request())
        compute.machines[0].stopped = True
        (listed,) = await cloud.list_instances()
        assert listed.status is InstanceStatus.TERMINATING
        await cloud.terminate(bought.id)
        await asyncio.sleep(60)
        assert list(await cloud.list_instances()) == []
        with pytest.raises(InstanceNotFoundError):
            await cloud.terminate(InstanceId(bought.id))

    run_story(scenario)


def test_maintenance_is_announced_until_it_is_over() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        bought = await cloud.provision(a_request())
        compute.machines[0].maintenance = {
            "type": "SCHEDULED",
            "maintenanceStatus": "PENDING",
            "windowStartTime": "2026-01-08T10:00:00.000-08:00",
        }
        (announced,) = await cloud.notices()
        assert announced.instance == bought.id
        assert announced.notice.kind is NoticeKind.MAINTENANCE
        assert "2026-01-08T10:00" in announced.notice.reason
        compute.machines[0].maintenance = None
        assert list(await cloud.notices()) == []

    run_story(scenario)


def test_a_request_without_a_zone_uses_the_zone_of_the_settings() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        with pytest.raises(RejectedError, match="list zones of us-east5"):
            await cloud.provision(a_request(region="us-east5", zone=""))
        bought = await cloud.provision(a_request(zone=""))
        assert bought.zone == "us-central1-b"

    run_story(scenario, replace(SETTINGS, zone="us-central1-b"))


def test_offerings_are_every_gpu_machine_type_in_every_zone() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        found = await cloud.offerings()
        assert {(x.instance_type, x.gpus) for x in found} == {
            ("a3-highgpu-8g", 8),
            ("a3-ultragpu-8g", 8),
            ("a4-highgpu-8g", 8),
            ("g2-standard-4", 1),
        }
        assert not any(x.spot or x.price_per_hour for x in found), "there is no price list"
        assert {(x.region, x.zone) for x in found} >= {("us-east5", "us-east5-a")}

    run_story(scenario)


def test_a_reboot_resets_the_machine() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        bought = await cloud.provision(a_request())
        await cloud.reboot(bought.id)
        assert compute.was_reset == [compute.machines[0].name]
        with pytest.raises(InstanceNotFoundError):
            await cloud.reboot(InstanceId("us-central1-a/nobody"))

    run_story(scenario)


@pytest.mark.parametrize(
    ("image", "written"),
    [
        ("gpu-node", "global/images/family/gpu-node"),
        ("family/gpu-node", "global/images/family/gpu-node"),
        ("projects/x/global/images/gpu-7", "projects/x/global/images/gpu-7"),
    ],
)
def test_an_image_is_a_family_or_a_path(image: str, written: str) -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        await cloud.provision(a_request(instance_type="a3-ultragpu-8g"))

    (disk,) = inserted(run_story(scenario, replace(SETTINGS, image=image)))["disks"]
    assert disk["initializeParams"]["sourceImage"] == written
    assert disk["initializeParams"]["diskType"].endswith("/hyperdisk-balanced")


def test_the_image_of_a_pool_takes_precedence_over_the_image_of_the_provider() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        await cloud.provision(evolve(a_request(), image="of-the-pool"))

    (disk,) = inserted(run_story(scenario, replace(SETTINGS, image="of-the-provider")))["disks"]
    assert disk["initializeParams"]["sourceImage"] == "global/images/family/of-the-pool"


def test_concurrent_calls_on_real_threads_with_one_token_buy_one_machine() -> None:
    threads = ThreadOffload("gcp", at_once=4)

    async def main(compute: LocalCompute) -> None:
        client = ComputeClient(
            threads, project=PROJECT, endpoint=compute.url, credentials=anonymous
        )
        cloud = GcpCloud(SystemClock(), client, SETTINGS)
        same = await asyncio.gather(*(cloud.provision(a_request()) for _ in range(4)))
        assert len({one.id for one in same}) == 1
        other = await asyncio.gather(*(cloud.provision(TestGcp().numbered(n)) for n in range(8)))
        listed = await cloud.list_instances()
        assert {one.id for one in listed} == {one.id for one in (*same, *other)}

    try:
        with local_compute(insert_s=0.0) as compute:
            asyncio.run(main(compute))
    finally:
        threads.close()


def many(count: int, **changes: Any) -> list[ProvisionRequest]:
    return [evolve(TestGcp().numbered(number), **changes) for number in range(count)]


ANYWHERE = ("us-central1-b", "us-central1-c")


def posts(compute: LocalCompute) -> list[str]:
    return [request.path for request in compute.wire.requests if request.method == "POST"]


def test_one_call_starts_machines_in_every_zone_with_stock() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        compute.stock = {"us-central1-a": 1, "us-central1-b": 0, "us-central1-c": 2}
        results = await cloud.provision_many(many(5, zones=ANYWHERE))
        zones = [x.zone if isinstance(x, Instance) else type(x).__name__ for x in results]
        assert sorted(zones) == [*["CapacityError"] * 2, "us-central1-a", *["us-central1-c"] * 2]
        assert len(posts(compute)) == 1
        await asyncio.sleep(60)
        listed = {x.labels["navarch-token"]: x.id for x in await cloud.list_instances()}
        bought = [x for x in results if isinstance(x, Instance)]
        assert listed == {x.labels["navarch-token"]: x.id for x in bought}

    run_story(scenario, BULK)


def test_no_machine_starts_in_a_zone_that_was_not_requested() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        compute.reverse_zones = True
        results = await cloud.provision_many(many(3, zones=("us-central1-b",)))
        assert {x.zone for x in results if isinstance(x, Instance)} == {"us-central1-b"}

    run_story(scenario, BULK)


@pytest.mark.parametrize(("stock", "machines"), [(3, 0), (4, 4)])
def test_a_whole_group_starts_in_one_block_or_nothing_of_it(stock: int, machines: int) -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        compute.stock = {"us-central1-a": stock}
        with contextlib.suppress(CapacityError):
            await cloud.provision_many(many(4, group="training-g0", group_size=4))
        assert len(compute.alive()) == machines
        policies = {str(m.body["resourcePolicies"]) for m in compute.alive()}
        assert len(policies) == (1 if machines else 0)

    run_story(scenario, BULK)


def test_machines_with_different_user_data_take_a_call_each() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        own = [evolve(x, user_data=f"#!/bin/sh\n#{n}") for n, x in enumerate(many(3))]
        results = await cloud.provision_many(own)
        assert all(isinstance(x, Instance) for x in results)
        assert len(posts(compute)) == 3

    run_story(scenario, BULK)


def test_a_mistake_about_another_zone_does_not_keep_the_first_one_from_being_used() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        (result,) = await cloud.provision_many(many(1, zones=("us-central1-x",)))
        assert isinstance(result, Instance)
        assert result.zone == "us-central1-a"

    run_story(scenario, BULK)


def test_an_account_that_may_not_read_the_zones_of_a_region_buys_in_the_first_zone() -> None:
    def denied(request: HttpRequest) -> Fault:
        hidden = request.path.endswith("/regions/us-central1")
        return refusal(403, "forbidden", "no") if hidden else None

    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        compute.wire.fault = denied
        results = await cloud.provision_many(many(2, zones=ANYWHERE))
        assert [x.zone for x in results if isinstance(x, Instance)] == ["us-central1-a"] * 2

    run_story(scenario, BULK)


def test_a_slow_call_for_many_counts_the_machines_that_are_being_created() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        async with asyncio.timeout(60):
            results = await cloud.provision_many(many(3, zones=ANYWHERE))
        assert all(isinstance(x, Instance) for x in results)

    run_story(scenario, BULK, insert_s=300.0)


def test_machines_that_cannot_be_looked_up_after_their_call_may_exist() -> None:
    def hidden(request: HttpRequest) -> Fault:
        listing = request.path.endswith("/aggregated/operations")
        return refusal(503, "backendError", "later") if listing else None

    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        compute.wire.fault = hidden
        with pytest.raises(OutcomeUnknownError):
            await cloud.provision_many(many(3))
        assert len(compute.alive()) == 3

    run_story(scenario, BULK)


def test_a_call_that_failed_for_some_machines_is_not_made_again_for_all() -> None:
    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        compute.stock, compute.complains = {"us-central1-a": 2, "us-central1-b": 0}, True
        results = await cloud.provision_many(many(3, zones=("us-central1-b",)))
        kinds = sorted(type(x).__name__ for x in results)
        assert kinds == ["CapacityError", "Instance", "Instance"]
        assert len(compute.alive()) == 2
        assert len(posts(compute)) == 1

    run_story(scenario, BULK, insert_s=0.0)


def test_a_name_that_is_taken_leaves_the_outcome_unknown() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        one = many(1)
        await cloud.provision(one[0])
        results = await cloud.provision_many(many(2))
        assert [type(x) for x in results] == [OutcomeUnknownError, Instance]

    run_story(scenario, BULK)


def test_machines_of_a_queue_take_a_call_each() -> None:
    async def scenario(cloud: GcpCloud, _: LocalCompute) -> None:
        assert cloud.machines_per_call == 1

    run_story(scenario, replace(BULK, flex_start=True, max_run=timedelta(days=2)))


def test_a_machine_that_is_offered_for_adoption_is_listed_and_labelled() -> None:
    kind = "zones/us-central1-a/machineTypes/a3-highgpu-8g"

    async def scenario(cloud: GcpCloud, compute: LocalCompute) -> None:
        for number, labels in enumerate([{CLUSTER: "adopt", "team": "ml"}, {"team": "ml"}]):
            body = {"name": f"by-hand-{number}", "machineType": kind, "labels": labels}
            machine = Machine(zone="us-central1-a", body=body, number=number, launched_s=-100.0)
            compute.machines.append(machine)
        [offered] = await cloud.list_instances()
        assert (offered.id, offered.instance_type) == ("us-central1-a/by-hand-0", "a3-highgpu-8g")
        await cloud.put_label(offered.id, CLUSTER, "c-1")
        [adopted] = await cloud.list_instances()
        assert adopted.labels == {CLUSTER: "c-1", "team": "ml"}
        await cloud.remove_label(offered.id, CLUSTER, "c-1")
        assert await cloud.list_instances() == []
        assert len(compute.alive()) == 2

    run_story(scenario)
