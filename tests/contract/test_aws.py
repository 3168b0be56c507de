"""The AWS provider passes the provider contract, against moto's server."""

import asyncio
from typing import ClassVar

import pytest
from tests.support.ec2_server import Ec2Server

from navarch.clock import SystemClock, ThreadOffload
from navarch.core.errors import (
    CapacityError,
    CredentialError,
    ProviderError,
    QuotaError,
    RegionQuotaError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId
from navarch.core.instance import Instance
from navarch.core.records import evolve
from navarch.ports.provider import Provider, ProvisionRequest
from navarch.providers.aws.account import AwsAccount
from navarch.providers.aws.ec2 import AwsSettings
from navarch.testing.provider_contract import ProviderContract, Story, results_of

CODES: dict[type[ProviderError], tuple[str, int]] = {
    CapacityError: ("InsufficientInstanceCapacity", 500),
    QuotaError: ("VcpuLimitExceeded", 400),
    CredentialError: ("UnauthorizedOperation", 403),
    RejectedError: ("InvalidParameterValue", 400),
    TransientError: ("RequestLimitExceeded", 503),
}


class TestAwsAccount(ProviderContract):
    ec2: ClassVar[Ec2Server]
    machines_per_call = 1

    @pytest.fixture(autouse=True)
    def _fresh(self, ec2: Ec2Server) -> None:
        type(self).ec2 = ec2

    def run(self, story: Story) -> None:
        threads = ThreadOffload("aws", at_once=4)
        settings = AwsSettings(
            endpoint=self.ec2.url,
            regions=("us-east-1", "us-west-2"),
            machines_per_call=self.machines_per_call,
        )
        try:
            asyncio.run(_run_story(story, AwsAccount(SystemClock(), threads, settings)))
        finally:
            threads.close()

    async def settle(self) -> None:
        self.ec2.set(lag_s=0)

    def request(self) -> ProvisionRequest:
        return evolve(
            super().request(),
            instance_type="p5.48xlarge",
            region="us-east-1",
            zone="us-east-1a",
        )

    def refuse(self, provider: Provider, error: type[ProviderError]) -> bool:
        del provider
        code, status = CODES[error]
        self.ec2.set(faults=[{"action": "RunInstances", "code": code, "status": status}])
        return True

    def lose_answers(self, provider: Provider, *, effect: bool) -> bool:
        del provider
        lost = "after" if effect else "before"
        self.ec2.set(faults=[{"action": "RunInstances", "lost": lost}])
        return True

    def lose_terminations(self, provider: Provider, *, effect: bool) -> bool:
        del provider
        lost = "after" if effect else "before"
        self.ec2.set(faults=[{"action": "TerminateInstances", "lost": lost}])
        return True

    def lag(self, provider: Provider) -> bool:
        del provider
        self.ec2.set(lag_s=3600)
        return True

    def small_pages(self, provider: Provider) -> bool:
        del provider
        self.ec2.set(page=2)
        return True

    def impair(self, provider: Provider, instance: InstanceId) -> bool:
        del provider
        self.ec2.set(impaired={instance: ["instance"]})
        return True

    def recover(self, provider: Provider) -> None:
        del provider
        self.ec2.set(
            faults=[],
            lag_s=0,
            stock={},
            hidden_fleets=False,
            short_fleets=False,
            untagged_fleets=False,
        )

    def sell_out(self, provider: Provider, zone: str) -> bool:
        del provider
        self.sold_out = {**getattr(self, "sold_out", {}), f"{zone}/p5.48xlarge": 0}
        self.ec2.set(stock=self.sold_out)
        return True

    def other_zone(self) -> str:
        return "us-east-1b"


class TestAwsAccountThatSharesCalls(TestAwsAccount):
    machines_per_call = 8

    def test_several_machines_take_one_call_and_as_many_start_as_there_are(self) -> None:
        async def story(provider: Provider) -> None:
            assert isinstance(provider, AwsAccount)
            self.ec2.set(stock={"us-east-1a/p5.48xlarge": 3})
            requests = [self.numbered(number) for number in range(5)]
            results = await provider.provision_many(requests)
            assert [type(x) for x in results] == [Instance] * 3 + [CapacityError] * 2
            assert self.ec2.calls()["RunInstances"] == 1

        self.run(story)

    def test_a_whole_group_starts_or_nothing_of_it(self) -> None:
        async def story(provider: Provider) -> None:
            assert isinstance(provider, AwsAccount)
            self.ec2.set(stock={"us-east-1a/p5.48xlarge": 3})
            requests = [evolve(self.numbered(n), group="g", group_size=4) for n in range(4)]
            assert [type(x) for x in await results_of(provider, requests)] == [CapacityError] * 4
            assert not self.ec2.alive()

        self.run(story)

    def test_machines_with_different_user_data_take_a_call_each(self) -> None:
        async def story(provider: Provider) -> None:
            assert isinstance(provider, AwsAccount)
            requests = [evolve(self.numbered(n), user_data=f"#!/bin/sh\n#{n}") for n in range(3)]
            results = await provider.provision_many(requests)
            assert [type(x) for x in results] == [Instance] * 3
            assert self.ec2.calls()["RunInstances"] == 3

        self.run(story)

    def test_a_fleet_takes_one_call_for_all_zones(self) -> None:
        async def story(provider: Provider) -> None:
            assert isinstance(provider, AwsAccount)
            self.ec2.set(stock={"us-east-1a/p5.48xlarge": 3})
            results = await provider.provision_many([self.in_zones(n) for n in range(5)])
            zones = [x.zone for x in results if isinstance(x, Instance)]
            assert sorted(zones) == ["us-east-1a"] * 3 + ["us-east-1b"] * 2
            assert self.ec2.calls()["CreateFleet"] == 1
            assert "RunInstances" not in self.ec2.calls()

        self.run(story)

    def test_another_process_finds_the_owner_of_each_machine_of_a_fleet(self) -> None:
        owners: dict[str, str] = {}

        async def buy(provider: Provider) -> None:
            assert isinstance(provider, AwsAccount)
            self.ec2.set(stock={"us-east-1a/p5.48xlarge": 2})
            for x in await provider.provision_many([self.in_zones(n) for n in range(4)]):
                assert isinstance(x, Instance)
                owners[x.id] = x.labels["navarch-token"]

        async def see(provider: Provider) -> None:
            listed = await provider.list_instances()
            assert {x.id: x.labels["navarch-token"] for x in listed} == owners

        self.run(buy)
        self.run(see)
        assert sorted(owners.values()) == ["n-0", "n-1", "n-2", "n-3"]

    @pytest.mark.parametrize("condition", ["hidden_fleets", "short_fleets", "untagged_fleets"])
    def test_a_listing_fails_while_a_new_fleet_does_not_list_its_machines(
        self, condition: str
    ) -> None:
        async def buy(provider: Provider) -> None:
            assert isinstance(provider, AwsAccount)
            await provider.provision_many([self.in_zones(n) for n in range(3)])

        async def see(provider: Provider) -> None:
            self.ec2.set(**{condition: True})
            with pytest.raises(TransientError, match="does not list all its machines"):
                await provider.list_instances()
            self.ec2.set(**{condition: False})
            assert len(await provider.list_instances()) == 3

        self.run(buy)
        self.run(see)

    def test_a_whole_group_starts_in_one_zone_or_not_at_all(self) -> None:
        async def story(provider: Provider) -> None:
            assert isinstance(provider, AwsAccount)
            self.ec2.set(stock={"us-east-1a/p5.48xlarge": 3, "us-east-1b/p5.48xlarge": 4})
            group = [evolve(self.in_zones(n), group="g", group_size=4) for n in range(4)]
            results = await provider.provision_many(group)
            assert {x.zone for x in results if isinstance(x, Instance)} == {"us-east-1b"}
            other = [evolve(self.in_zones(n), group="h", group_size=4) for n in range(4, 8)]
            assert [type(x) for x in await results_of(provider, other)] == [CapacityError] * 4
            assert len(self.ec2.alive()) == 4

        self.run(story)

    def test_a_quota_is_not_taken_for_a_lack_of_machines(self) -> None:
        async def story(provider: Provider) -> None:
            assert isinstance(provider, AwsAccount)
            self.ec2.set(vcpus={"us-east-1": 2 * 192}, stock={"us-east-1a/p5.48xlarge": 1})
            results = await provider.provision_many([self.in_zones(n) for n in range(3)])
            assert [type(x) for x in results] == [Instance, Instance, RegionQuotaError]

        self.run(story)

    def test_an_account_without_the_permission_for_fleets_buys_zone_by_zone(self) -> None:
        async def story(provider: Provider) -> None:
            assert isinstance(provider, AwsAccount)
            denied = {"action": "CreateFleet", "code": "UnauthorizedOperation", "status": 403}
            self.ec2.set(faults=[denied], stock={"us-east-1a/p5.48xlarge": 2})
            results = await provider.provision_many([self.in_zones(n) for n in range(5)])
            zones = [x.zone for x in results if isinstance(x, Instance)]
            assert zones == ["us-east-1a"] * 2 + ["us-east-1b"] * 3
            await provider.provision_many([self.in_zones(n) for n in range(5, 8)])
            assert self.ec2.calls()["CreateFleet"] == 1

        self.run(story)

    def test_a_quota_in_the_second_zone_keeps_the_machines_of_the_first(self) -> None:
        async def story(provider: Provider) -> None:
            assert isinstance(provider, AwsAccount)
            denied = {"action": "CreateFleet", "code": "UnauthorizedOperation", "status": 403}
            self.ec2.set(
                faults=[denied], stock={"us-east-1a/p5.48xlarge": 2}, vcpus={"us-east-1": 2 * 192}
            )
            results = await provider.provision_many([self.in_zones(n) for n in range(3)])
            assert [type(x) for x in results] == [Instance, Instance, RegionQuotaError]

        self.run(story)

    def test_a_template_that_was_deleted_is_made_again(self) -> None:
        async def story(provider: Provider) -> None:
            assert isinstance(provider, AwsAccount)
            await provider.provision_many([self.in_zones(0)])
            gone = {
                "action": "CreateFleet",
                "code": "InvalidLaunchTemplateName.NotFoundException",
            }
            self.ec2.set(faults=[gone])
            with pytest.raises(TransientError, match="NotFound"):
                await provider.provision_many([self.in_zones(1)])
            assert isinstance((await provider.provision_many([self.in_zones(1)]))[0], Instance)

        self.run(story)


async def _run_story(story: Story, account: AwsAccount) -> None:
    await story(account)
