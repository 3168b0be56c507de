"""A crash at every call of the adapter to EC2, and at every commit in between."""

from decimal import Decimal

import pytest
from tests.support.ec2_server import Ec2Server

from navarch.core.ids import ProviderName
from navarch.core.launch import Offering
from navarch.core.records import evolve
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
ZONES = [evolve(OFFERING, zone=f"us-east-1{letter}") for letter in "abc"]
CHUNKS = 8
A_FEW = 6


@pytest.fixture(params=["one machine per call", "fleets"])
def many(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "fleets")


def live(ec2: Ec2Server, wire: CrashPoint, *, many: bool) -> SweptFleet:
    def build(clock: Clock, offload: Offload) -> Provider:
        settings = AwsSettings(
            endpoint=ec2.url, regions=("us-east-1",), machines_per_call=32 if many else 1
        )
        return AwsAccount(clock, offload, settings)

    if many:
        ec2.set(stock={"us-east-1a/p5.48xlarge": 0, "us-east-1b/p5.48xlarge": 1})
    swept = sweep_once(
        build, *(ZONES if many else [OFFERING]), alive=lambda: set(ec2.alive()), wire=wire
    )
    # Three machines in all: none was bought only to be terminated.
    assert ec2.made() == 3, f"call {wire.at} of {wire.log}"
    assert ec2.alive() == []
    return swept


def test_a_run_without_crashes_buys_exactly_the_machines_it_needs(
    ec2: Ec2Server, many: bool
) -> None:
    assert live(ec2, CrashPoint(), many=many).crashes == 0
    assert {"CreateFleet", "RunInstances"} & ec2.calls().keys() == {
        "CreateFleet" if many else "RunInstances"
    }


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_crash_at_a_sampled_call_leaks_and_duplicates_nothing(
    ec2: Ec2Server, many: bool, after: bool
) -> None:
    calls = live(ec2, CrashPoint(), many=many).wire.calls
    for at in range(int(after), calls, calls // A_FEW):
        ec2.reset()
        assert live(ec2, CrashPoint(at=at, after=after), many=many).crashes == 1


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_crash_at_any_call_leaks_and_duplicates_nothing(
    ec2: Ec2Server, many: bool, after: bool, chunk: int
) -> None:
    calls = live(ec2, CrashPoint(), many=many).wire.calls
    for at in range(chunk, calls, CHUNKS):
        ec2.reset()
        swept = live(ec2, CrashPoint(at=at, after=after), many=many)
        assert swept.crashes == 1, f"no crash at call {at} of {calls}"


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_lost_response_and_a_crash_together_buy_no_machine_twice(
    ec2: Ec2Server, many: bool, lost: str
) -> None:
    at = live(ec2, CrashPoint(), many=many).wire.log.index("call")
    ec2.reset()
    action = "CreateFleet" if many else "RunInstances"
    ec2.set(faults=[{"action": action, "lost": lost}] * 2)
    assert live(ec2, CrashPoint(at=at + 4, after=True), many=many).crashes == 1
