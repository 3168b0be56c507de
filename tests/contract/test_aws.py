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
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId
from navarch.core.instance import Instance
from navarch.core.records import evolve
from navarch.ports.provider import Provider, ProvisionRequest
from navarch.providers.aws.account import AwsAccount
from navarch.providers.aws.ec2 import AwsSettings
from navarch.testing.provider_contract import ProviderContract, Story

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
        self.ec2.set(faults=[], lag_s=0)


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
            with pytest.raises(CapacityError):
                await provider.provision_many(requests)
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


async def _run_story(story: Story, account: AwsAccount) -> None:
    await story(account)
