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

    @pytest.fixture(autouse=True)
    def _fresh(self, ec2: Ec2Server) -> None:
        type(self).ec2 = ec2

    def run(self, story: Story) -> None:
        threads = ThreadOffload("aws", at_once=4)
        settings = AwsSettings(endpoint=self.ec2.url, regions=("us-east-1", "us-west-2"))
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


async def _run_story(story: Story, account: AwsAccount) -> None:
    await story(account)
