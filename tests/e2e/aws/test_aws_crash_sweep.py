"""A crash at every call of the adapter to EC2, and at every commit in between."""

from decimal import Decimal

import pytest
from tests.support.ec2_server import Ec2Server

from navarch.core.ids import ProviderName
from navarch.core.launch import Offering
from navarch.ports.clock import Clock, Offload
from navarch.ports.provider import Provider
from navarch.providers.aws.account import AwsAccount
from navarch.providers.aws.ec2 import AwsSettings
from navarch.sim.world.leader import CrashPoint
from navarch.testing.adapter_sweep import SweptFleet, sweep_once

OFFERING = Offering(
    provider=ProviderName("aws"),
    instance_type="p5.48xlarge",
    region="us-east-1",
    zone="us-east-1a",
    price_per_hour=Decimal("55.04"),
)
CHUNKS = 8
A_FEW = 6


def live(ec2: Ec2Server, wire: CrashPoint) -> SweptFleet:
    def build(clock: Clock, offload: Offload) -> Provider:
        return AwsAccount(clock, offload, AwsSettings(endpoint=ec2.url, regions=("us-east-1",)))

    swept = sweep_once(build, OFFERING, alive=lambda: set(ec2.alive()), wire=wire)
    # Three machines in all: none was bought only to be terminated.
    assert ec2.made() == 3, f"call {wire.at} of {wire.log}"
    assert ec2.alive() == []
    return swept


def test_a_run_without_crashes_buys_exactly_the_machines_it_needs(ec2: Ec2Server) -> None:
    assert live(ec2, CrashPoint()).crashes == 0


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_crash_at_a_sampled_call_leaks_and_duplicates_nothing(
    ec2: Ec2Server, after: bool
) -> None:
    calls = live(ec2, CrashPoint()).wire.calls
    for at in range(int(after), calls, calls // A_FEW):
        ec2.reset()
        assert live(ec2, CrashPoint(at=at, after=after)).crashes == 1


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_crash_at_any_call_leaks_and_duplicates_nothing(
    ec2: Ec2Server, after: bool, chunk: int
) -> None:
    calls = live(ec2, CrashPoint()).wire.calls
    for at in range(chunk, calls, CHUNKS):
        ec2.reset()
        swept = live(ec2, CrashPoint(at=at, after=after))
        assert swept.crashes == 1, f"no crash at call {at} of {calls}"


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_lost_response_and_a_crash_together_buy_no_machine_twice(
    ec2: Ec2Server, lost: str
) -> None:
    at = live(ec2, CrashPoint()).wire.log.index("call")
    ec2.reset()
    ec2.set(faults=[{"action": "RunInstances", "lost": lost}] * 2)
    assert live(ec2, CrashPoint(at=at + 4, after=True)).crashes == 1
