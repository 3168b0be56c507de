"""The AWS provider beyond the contract, against moto's server."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import botocore.session
import pytest
from tests.support.ec2_server import Ec2Server
from tests.support.metadata_service import metadata_service

from navarch.clock import SystemClock, ThreadOffload
from navarch.core.errors import (
    CapacityError,
    CredentialError,
    InstanceNotFoundError,
    ProviderError,
    RegionQuotaError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, Token
from navarch.core.instance import NoticeKind
from navarch.core.records import evolve
from navarch.ports.provider import ProvisionRequest
from navarch.providers.aws.account import AwsAccount
from navarch.providers.aws.ec2 import AwsSettings

REQUEST = ProvisionRequest(
    token=Token("t-1"),
    name="training-0",
    instance_type="p5.48xlarge",
    region="us-east-1",
    zone="us-east-1a",
    labels={"navarch-cluster": "c-1", "navarch-token": "t-1"},
)
REGIONS = ("us-east-1", "us-west-2")

Story = Callable[[AwsAccount], Awaitable[None]]


def run_story(ec2: Ec2Server, story: Story, settings: AwsSettings | None = None) -> None:
    async def main() -> None:
        chosen = replace(settings or AwsSettings(regions=REGIONS), endpoint=ec2.url)
        await story(AwsAccount(SystemClock(), threads, chosen))

    threads = ThreadOffload("aws", at_once=4)
    try:
        asyncio.run(main())
    finally:
        threads.close()


def another(number: int, **changes: object) -> ProvisionRequest:
    token = f"t-{number}"
    labels = {**REQUEST.labels, "navarch-token": token}
    changed = evolve(REQUEST, token=Token(token), labels=labels)
    return evolve(changed, **changes)  # type: ignore[arg-type]


def test_a_new_process_finds_and_terminates_an_earlier_machine(ec2: Ec2Server) -> None:
    bought: list[InstanceId] = []

    async def buy(account: AwsAccount) -> None:
        west = another(1, region="us-west-2", zone="us-west-2b")
        bought.append((await account.provision(west)).id)

    async def end(account: AwsAccount) -> None:
        await account.terminate(bought[0])

    run_story(ec2, buy)
    assert ec2.alive() == bought
    run_story(ec2, end)
    assert ec2.alive() == []


def test_without_configured_regions_every_region_is_listed(
    ec2: Ec2Server,
) -> None:
    async def story(account: AwsAccount) -> None:
        for number, region in enumerate(("eu-west-1", "ap-south-1", "us-east-2")):
            small = another(number, region=region, zone=f"{region}a", instance_type="g4dn.xlarge")
            await account.provision(small)
        listed = await account.list_instances()
        assert {x.region for x in listed} == {"eu-west-1", "ap-south-1", "us-east-2"}

    run_story(ec2, story, AwsSettings())


def test_nothing_is_bought_in_a_region_that_is_not_listed(ec2: Ec2Server) -> None:
    async def story(account: AwsAccount) -> None:
        with pytest.raises(RejectedError, match="eu-west-1 is not among its regions; add it"):
            await account.provision(another(1, region="eu-west-1", zone=""))

    run_story(ec2, story)
    assert ec2.calls() == {}


def test_a_listing_raises_if_one_region_fails(
    ec2: Ec2Server,
) -> None:
    async def story(account: AwsAccount) -> None:
        await account.provision(REQUEST)
        fault = {"action": "DescribeInstances", "code": "InternalError", "status": 500}
        ec2.set(faults=[fault])
        with pytest.raises(TransientError):
            await account.list_instances()
        assert len(await account.list_instances()) == 1

    run_story(ec2, story)


def test_a_token_used_with_other_parameters_finds_its_machine(
    ec2: Ec2Server,
) -> None:
    async def story(account: AwsAccount) -> None:
        first = await account.provision(REQUEST)
        labels = {**REQUEST.labels, "team": "research"}
        second = await account.provision(evolve(REQUEST, labels=labels))
        assert second.id == first.id

    run_story(ec2, story)
    assert len(ec2.alive()) == 1


def test_a_used_token_with_an_unlisted_machine_is_a_transient_error(ec2: Ec2Server) -> None:
    async def story(account: AwsAccount) -> None:
        await account.provision(REQUEST)
        ec2.set(lag_s=3600)
        with pytest.raises(TransientError, match="IdempotentParameterMismatch"):
            await account.provision(evolve(REQUEST, user_data="#!/bin/sh\n"))

    run_story(ec2, story)
    assert len(ec2.alive()) == 1


def test_two_concurrent_calls_with_one_token_buy_one_machine(ec2: Ec2Server) -> None:
    async def story(account: AwsAccount) -> None:
        bought = await asyncio.gather(*(account.provision(REQUEST) for _ in range(4)))
        assert len({x.id for x in bought}) == 1

    run_story(ec2, story)
    assert len(ec2.alive()) == 1


def test_a_type_sold_out_in_one_zone_is_bought_in_the_next(ec2: Ec2Server) -> None:
    ec2.set(stock={"us-east-1a/p5.48xlarge": 1, "us-east-1b/p5.48xlarge": 1})

    async def story(account: AwsAccount) -> None:
        await account.provision(another(1))
        with pytest.raises(CapacityError, match="us-east-1: run_instances: Insufficient"):
            await account.provision(another(2))
        await account.provision(another(3, zone="us-east-1b"))

    run_story(ec2, story)
    assert len(ec2.alive()) == 2


def test_a_quota_counts_vcpus_per_region(ec2: Ec2Server) -> None:
    ec2.set(vcpus={"us-east-1": 192 + 191})

    async def story(account: AwsAccount) -> None:
        await account.provision(another(1))
        with pytest.raises(RegionQuotaError, match="VcpuLimitExceeded"):
            await account.provision(another(2))
        await account.provision(another(3, region="us-west-2", zone="us-west-2a"))

    run_story(ec2, story)


def test_a_reservation_is_used_until_it_is_full(ec2: Ec2Server) -> None:
    ec2.set(reservations={"cr-1": {"type": "p5.48xlarge", "zone": "us-east-1a", "total": 1}})

    async def story(account: AwsAccount) -> None:
        await account.provision(another(1, reservation="cr-1"))
        with pytest.raises(CapacityError, match="ReservationCapacityExceeded"):
            await account.provision(another(2, reservation="cr-1"))
        with pytest.raises(RejectedError, match="InvalidCapacityReservationId"):
            await account.provision(another(3, reservation="cr-none"))

    run_story(ec2, story)


def test_a_capacity_block_is_recognised_and_its_end_announced(ec2: Ec2Server) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=75)
    block = {
        "type": "p5.48xlarge",
        "zone": "us-east-1a",
        "total": 2,
        "kind": "capacity-block",
        "end": soon.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    }
    later = {**block, "end": "2030-01-01T00:00:00.000Z"}
    ec2.set(reservations={"cr-soon": block, "cr-later": later})

    async def story(account: AwsAccount) -> None:
        going = await account.provision(another(1, reservation="cr-soon"))
        await account.provision(another(2, reservation="cr-later"))
        announced = await account.notices()
        assert [x.instance for x in announced] == [going.id]
        assert announced[0].notice.kind is NoticeKind.MAINTENANCE
        assert "cr-soon" in announced[0].notice.reason

    run_story(ec2, story)


@pytest.mark.parametrize(
    ("state", "error"), [("scheduled", CapacityError), ("expired", RejectedError)]
)
def test_an_inactive_reservation_is_not_used(
    ec2: Ec2Server, state: str, error: type[ProviderError]
) -> None:
    held = {"type": "p5.48xlarge", "zone": "us-east-1a", "total": 1, "state": state}
    ec2.set(reservations={"cr-1": held})

    async def story(account: AwsAccount) -> None:
        with pytest.raises(error, match=f"cr-1 is {state}"):
            await account.provision(another(1, reservation="cr-1"))

    run_story(ec2, story)
    assert "RunInstances" not in ec2.calls()


def test_a_gang_shares_one_placement_group(ec2: Ec2Server) -> None:
    async def story(account: AwsAccount) -> None:
        gang = [another(n, group="training-g0", group_size=3) for n in range(3)]
        bought = [(await account.provision(request)).id for request in gang]
        lone = (await account.provision(another(9))).id
        places = await account.topology([*bought, lone])
        assert len({places[name].block for name in bought}) == 1
        assert places[lone].block != places[bought[0]].block

    run_story(ec2, story)


def test_empty_placement_groups_are_deleted_at_the_limit(ec2: Ec2Server) -> None:
    ec2.set(groups_max=2)

    async def story(account: AwsAccount) -> None:
        kept = await account.provision(another(1, group="training-g1"))
        gone = await account.provision(another(2, group="training-g2"))
        await account.terminate(gone.id)
        await account.provision(another(3, group="training-g3"))
        assert (await account.provision(another(1, group="training-g1"))).id == kept.id

    run_story(ec2, story)


def test_maintenance_and_reclaims_are_announced_until_they_are_over(ec2: Ec2Server) -> None:
    async def story(account: AwsAccount) -> None:
        one = await account.provision(another(1))
        two = await account.provision(another(2, spot=True))
        event = {"code": "instance-retirement", "description": "degraded hardware"}
        ec2.set(events={one.id: event}, reclaims=[two.id])
        announced = {x.instance: x.notice for x in await account.notices()}
        assert announced[one.id].kind is NoticeKind.MAINTENANCE
        assert "instance-retirement from 2026-11-20" in announced[one.id].reason
        assert announced[two.id].kind is NoticeKind.RECLAIM
        ec2.set(events={one.id: {**event, "description": "[Completed] done"}}, reclaims=[])
        assert list(await account.notices()) == []

    run_story(ec2, story)


def test_offerings_are_every_gpu_type_in_every_zone_with_its_spot_price(ec2: Ec2Server) -> None:
    async def story(account: AwsAccount) -> None:
        found = await account.offerings()
        h100 = [x for x in found if x.instance_type == "p5.48xlarge" and not x.spot]
        assert h100
        assert {(x.gpus, x.gpu_type) for x in h100} == {(8, "H100")}
        assert all(x.zone.startswith(x.region) for x in h100)
        assert any(x.spot and x.price_per_hour > 0 for x in found)
        assert not any(x.instance_type.startswith("g4ad") for x in found), "not NVIDIA's"

    run_story(ec2, story)


def test_a_subnet_of_the_right_zone_is_chosen_or_the_launch_is_rejected(ec2: Ec2Server) -> None:
    async def story(account: AwsAccount) -> None:
        subnets = await account._ec2.pages("us-east-1", "describe_subnets", "Subnets")
        by_zone = {x["AvailabilityZone"]: x["SubnetId"] for x in subnets}
        names = (by_zone["us-east-1a"], by_zone["us-east-1b"])
        inner = AwsAccount(
            SystemClock(), account._ec2._offload, AwsSettings(endpoint=ec2.url, subnets=names)
        )
        bought = await inner.provision(another(1, zone="us-east-1b"))
        assert bought.zone == "us-east-1b"
        with pytest.raises(RejectedError, match="none of its subnets is in us-east-1c"):
            await inner.provision(another(2, zone="us-east-1c"))

    run_story(ec2, story)


def test_missing_credentials_raise_a_credential_error_before_any_call(
    ec2: Ec2Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", "/nonexistent")

    async def story(account: AwsAccount) -> None:
        with pytest.raises(CredentialError, match="Unable to locate credentials"):
            await account.provision(REQUEST)

    run_story(ec2, story)
    assert ec2.calls() == {}


def test_the_role_of_the_servers_machine_is_used(
    ec2: Ec2Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", "/nonexistent")
    role = "iam/security-credentials/"
    keys = {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "AccessKeyId": "ASIAOFTHEMACHINE",
        "SecretAccessKey": "secret",
        "Token": "session",
        "LastUpdated": "2026-11-15T10:00:00Z",
        "Expiration": "2099-11-15T16:00:00Z",
    }

    async def story(account: AwsAccount) -> None:
        await account.provision(REQUEST)
        assert len(await account.list_instances()) == 1

    with metadata_service() as service:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url)
        service.say(role, "gpu-fleet")
        service.say(f"{role}gpu-fleet", keys)
        run_story(ec2, story)
        assert f"/latest/meta-data/{role}gpu-fleet" in service.asked


def test_a_reboot_uses_the_machines_region(ec2: Ec2Server) -> None:
    async def story(account: AwsAccount) -> None:
        bought = await account.provision(REQUEST)
        await account.reboot(bought.id)
        assert [x.id for x in await account.list_instances() if x.status.alive] == [bought.id]
        with pytest.raises(InstanceNotFoundError):
            await account.reboot(InstanceId("i-0123456789abcdef0"))

    run_story(ec2, story)
    assert ec2.calls()["RebootInstances"] == 1


def test_an_unknown_machine_is_not_found_in_any_region(ec2: Ec2Server) -> None:
    async def story(account: AwsAccount) -> None:
        with pytest.raises(InstanceNotFoundError, match="in any region"):
            await account.terminate(InstanceId("i-0123456789abcdef0"))

    run_story(ec2, story)


def test_the_price_list_takes_precedence_over_the_catalogue(ec2: Ec2Server) -> None:
    prices = {"us-east-1": {"p5.48xlarge": "55.0400000000", "g5.xlarge": "1.006"}}
    west = {"us-west-2": {"p5.48xlarge": "60.5440000000"}}
    ec2.set(prices={**prices, **west})

    async def story(account: AwsAccount) -> None:
        found = [x for x in await account.offerings() if not x.spot]
        of = {(x.instance_type, x.region): x.price_per_hour for x in found}
        assert of["p5.48xlarge", "us-east-1"] == Decimal("55.04")
        assert of["p5.48xlarge", "us-west-2"] == Decimal("60.544")
        assert of["g5.xlarge", "us-east-1"] == Decimal("1.006")
        assert of["g5.xlarge", "us-west-2"] == 0, "left to the catalogue"

    run_story(ec2, story)


def test_a_type_of_another_price_list_family_has_its_price(
    ec2: Ec2Server,
) -> None:
    prices = {"us-east-1": {"p5.48xlarge": "55.04", "g5.xlarge": "1.006"}}
    ec2.set(prices=prices, families={"g5.xlarge": "Accelerated computing"})

    async def story(account: AwsAccount) -> None:
        found = [x for x in await account.offerings() if not x.spot]
        of = {(x.instance_type, x.region): x.price_per_hour for x in found}
        assert of["p5.48xlarge", "us-east-1"] == Decimal("55.04")
        assert of["g5.xlarge", "us-east-1"] == Decimal("1.006")

    run_story(ec2, story)


def test_an_account_without_access_to_the_price_list_has_offerings(ec2: Ec2Server) -> None:
    async def story(account: AwsAccount) -> None:
        found = [x for x in await account.offerings() if not x.spot]
        assert found
        assert {x.price_per_hour for x in found} == {Decimal(0)}

    run_story(ec2, story)


class HurriedClock(SystemClock):
    """A clock with sleeps that return at once and advance its time."""

    waited_s = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.waited_s)

    def monotonic(self) -> float:
        return super().monotonic() + self.waited_s

    async def sleep(self, seconds: float) -> None:
        self.waited_s += seconds


def send(ec2: Ec2Server, kind: str, instance: str, **more: str) -> None:
    """Send an EC2 event to EventBridge; its rule forwards the event to the queue."""
    events = client_of(ec2, "events")
    detail = {"instance-id": instance, **more}
    answer = events.put_events(
        Entries=[{"Source": "aws.ec2", "DetailType": kind, "Detail": json.dumps(detail)}]
    )
    assert answer["FailedEntryCount"] == 0, answer


def client_of(ec2: Ec2Server, service: str) -> Any:  # noqa: ANN401 - botocore's
    session = botocore.session.Session()
    return session.create_client(service, region_name="us-east-1", endpoint_url=ec2.url)


def a_queue(ec2: Ec2Server, name: str) -> str:
    """Return a queue that receives EC2's events from an EventBridge rule."""
    sqs, events = client_of(ec2, "sqs"), client_of(ec2, "events")
    sqs.create_queue(QueueName=name)
    url: str = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    of = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arn = of["Attributes"]["QueueArn"]
    pattern = json.dumps({"source": ["aws.ec2"]})
    events.put_rule(Name=name, EventPattern=pattern, State="ENABLED")
    events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])
    return url


def held_messages(ec2: Ec2Server, url: str) -> int:
    wanted = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = client_of(ec2, "sqs").get_queue_attributes(QueueUrl=url, AttributeNames=wanted)
    return sum(int(count) for count in found["Attributes"].values())


def test_interruptions_and_recommendations_are_received_from_the_queue_and_stay_valid(
    ec2: Ec2Server,
) -> None:
    url = a_queue(ec2, "stands")
    settings = AwsSettings(regions=("us-east-1",), endpoint=ec2.url, event_queue=url)
    threads = ThreadOffload("aws", at_once=4)

    async def story() -> None:
        clock = HurriedClock()
        account = AwsAccount(clock, threads, settings)
        one = await account.provision(another(1, spot=True))
        two = await account.provision(another(2, spot=True))
        assert await account.notices() == []
        send(ec2, "EC2 Instance Rebalance Recommendation", one.id)
        send(
            ec2,
            "EC2 Spot Instance Interruption Warning",
            two.id,
            **{"instance-action": "terminate"},
        )
        send(ec2, "EC2 Instance State-change Notification", one.id, state="running")
        found = {x.instance: x.notice for x in await account.notices()}
        assert found[one.id].kind is NoticeKind.MAINTENANCE
        assert "Rebalance Recommendation" in found[one.id].reason
        assert found[two.id].kind is NoticeKind.RECLAIM
        assert found[two.id].reason.endswith("terminate")
        assert {x.instance for x in await account.notices()} == {one.id, two.id}, "they stand"
        assert held_messages(ec2, url) == 2, "unrelated messages are deleted"
        clock.waited_s += 3600
        assert {x.instance for x in await account.notices()} == {one.id}, "an hour later"
        clock.waited_s += 24 * 3600
        assert list(await account.notices()) == []
        assert held_messages(ec2, url) == 0

    try:
        asyncio.run(story())
    finally:
        threads.close()


@pytest.mark.long
def test_a_new_process_receives_the_messages_of_its_predecessor(ec2: Ec2Server) -> None:
    """Runs in real time, because the queue hides messages and delivers them again."""
    url = a_queue(ec2, "restart")
    settings = AwsSettings(regions=("us-east-1",), event_queue=url)

    async def first(account: AwsAccount) -> None:
        send(ec2, "EC2 Instance Rebalance Recommendation", "i-1")
        assert [x.instance for x in await account.notices()] == ["i-1"]

    async def second(account: AwsAccount) -> None:
        assert [x.instance for x in await account.notices()] == ["i-1"]

    run_story(ec2, first, settings)
    run_story(ec2, second, settings)
