"""The states and status checks of machines, as each cloud reports them."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from google.cloud import compute_v1 as compute
from tests.support.ec2_server import Ec2Server

from navarch.clock import SystemClock, ThreadOffload
from navarch.core.ids import InstanceId, Token
from navarch.core.instance import InstanceCheck, InstanceHealth
from navarch.core.records import evolve
from navarch.ports.bmc import Bmc, BmcError, BmcReading, Power
from navarch.ports.shell import Login, Ran, Shell, ShellError
from navarch.providers.aws.account import AwsAccount
from navarch.providers.aws.ec2 import AwsSettings
from navarch.providers.aws.translation import read_check
from navarch.providers.baremetal import (
    BareMetal,
    FolderLeases,
    Host,
    Inventory,
    Lease,
    LeaseState,
)
from navarch.providers.gcp import translation as gcp
from navarch.providers.lambdalabs import translation as lambdalabs
from navarch.sim.kernel.clock import InlineOffload, SimClock
from navarch.sim.kernel.loop import run_simulated
from navarch.testing.provider_contract import ProviderContract

NOON = datetime(2026, 11, 18, 12, 3, tzinfo=UTC)
LATER = datetime(2026, 11, 18, 12, 9, tzinfo=UTC)


def a_status(state: str = "running", **failed: datetime | None) -> dict[str, Any]:
    raw: dict[str, Any] = {"InstanceId": "i-1", "InstanceState": {"Name": state}}
    for field in ("SystemStatus", "InstanceStatus", "AttachedEbsStatus"):
        raw[field] = {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}
        if field in failed:
            detail: dict[str, Any] = {"Name": "reachability", "Status": "failed"}
            if failed[field] is not None:
                detail["ImpairedSince"] = failed[field]
            raw[field] = {"Status": "impaired", "Details": [detail]}
    return raw


@pytest.mark.parametrize(
    ("state", "health"),
    [
        ("pending", InstanceHealth.INITIALIZING),
        ("running", InstanceHealth.OK),
        ("stopping", InstanceHealth.STOPPED),
        ("stopped", InstanceHealth.STOPPED),
        ("shutting-down", InstanceHealth.TERMINATED),
        ("terminated", InstanceHealth.TERMINATED),
    ],
)
def test_the_state_of_an_ec2_instance_comes_first(state: str, health: InstanceHealth) -> None:
    assert read_check(a_status(state)).health is health


def test_a_failed_check_of_ec2_is_named_with_its_beginning() -> None:
    check = read_check(a_status(InstanceStatus=NOON))
    assert check.reason == "EC2 reports the instance status check failed since 12:03 UTC"
    assert (check.health, check.since) == (InstanceHealth.IMPAIRED, NOON)


def test_of_several_failed_checks_of_ec2_the_newest_beginning_counts() -> None:
    check = read_check(a_status(AttachedEbsStatus=NOON, SystemStatus=LATER))
    assert check.since == LATER
    assert check.reason.startswith("EC2 reports the system and attached EBS status check failed")


@pytest.mark.parametrize("status", ["initializing", "insufficient-data", "not-applicable"])
def test_a_check_of_ec2_without_a_result_is_neither_good_nor_bad(status: str) -> None:
    raw = a_status()
    raw["InstanceStatus"]["Status"] = status
    assert read_check(raw).health is InstanceHealth.INITIALIZING


def test_a_failed_check_without_details_has_no_beginning() -> None:
    check = read_check(a_status(SystemStatus=None))
    assert (check.health, check.since) == (InstanceHealth.IMPAIRED, None)
    assert check.reason == "EC2 reports the system status check failed"


def test_a_machine_that_ec2_has_forgotten_hides_no_other(ec2: Ec2Server) -> None:
    async def story(account: AwsAccount) -> None:
        request = evolve(
            ProviderContract().request(),
            instance_type="p5.48xlarge",
            region="us-east-1",
            zone="us-east-1a",
        )
        bought = await account.provision(request)
        gone = InstanceId("i-00000000000000bad")
        account._region_of[gone] = "us-east-1"
        found = await account.instance_checks([gone, bought.id])
        assert found.keys() == {bought.id}
        assert await account.instance_checks([gone]) == {}

    threads = ThreadOffload("aws", at_once=4)
    try:
        settings = AwsSettings(endpoint=ec2.url, regions=("us-east-1",))
        asyncio.run(story(AwsAccount(SystemClock(), threads, settings)))
    finally:
        threads.close()


@pytest.mark.parametrize(
    ("status", "health"),
    [
        ("STAGING", InstanceHealth.INITIALIZING),
        ("RUNNING", InstanceHealth.OK),
        ("REPAIRING", InstanceHealth.IMPAIRED),
        ("STOPPING", InstanceHealth.STOPPED),
        ("SUSPENDED", InstanceHealth.STOPPED),
        ("TERMINATED", InstanceHealth.STOPPED),
    ],
)
def test_the_status_of_a_google_instance_is_its_check(status: str, health: InstanceHealth) -> None:
    check = gcp.parse_check(compute.Instance.pb(compute.Instance(status=status)))
    assert check is not None
    assert check.health is health
    assert check.reason == f"Compute Engine reports the instance as {status}"


def test_a_stopped_google_instance_has_a_date() -> None:
    listed = compute.Instance(
        status="TERMINATED", last_stop_timestamp="2026-11-18T04:03:00.000-08:00"
    )
    check = gcp.parse_check(compute.Instance.pb(listed))
    assert check is not None
    assert check.since == NOON


def test_every_status_of_google_that_listings_know_has_a_meaning_here() -> None:
    for status in gcp.STATUSES:
        assert gcp.parse_check(compute.Instance.pb(compute.Instance(status=status))) is not None


def test_a_status_that_is_not_known_is_no_check() -> None:
    assert gcp.parse_check(compute.Instance.pb(compute.Instance(status="SOMETHING_NEW"))) is None
    assert lambdalabs.parse_check(a_lambda("something-new")) is None


@pytest.mark.parametrize(
    ("status", "health"),
    [
        ("booting", InstanceHealth.INITIALIZING),
        ("active", InstanceHealth.OK),
        ("unhealthy", InstanceHealth.IMPAIRED),
        ("terminated", InstanceHealth.TERMINATED),
        ("preempted", InstanceHealth.TERMINATED),
    ],
)
def test_the_status_of_a_lambda_instance_is_its_check(status: str, health: InstanceHealth) -> None:
    found = lambdalabs.parse_check(a_lambda(status))
    assert found is not None
    name, check = found
    assert (name, check.health) == ("a", health)
    assert check.reason == f"Lambda reports the instance as {status}"


def a_lambda(status: str) -> bytes:
    kind, region = {"name": "gpu_8x_h100_sxm5"}, {"name": "us-east-1"}
    machine = {"id": "a", "status": status, "instance_type": kind, "region": region}
    return msgspec.json.encode(machine)


class NoShells:
    """No machine responds over SSH, unless the test says so."""

    def __init__(self, *responding: str) -> None:
        self.responding = responding

    async def connect(self, login: Login, *, within: timedelta) -> Shell:
        del within
        if login.address not in self.responding:
            raise ShellError("no route")
        return ReadyShell()


class ReadyShell:
    """A shell in which every command succeeds."""

    host_key = ""

    async def run(self, command: str, *, within: timedelta) -> Ran:
        del command, within
        return Ran(exit_code=0)

    async def close(self) -> None:
        """Do nothing."""


class Controllers:
    """Management controllers that report what the test wants."""

    def __init__(self, readings: Mapping[str, BmcReading]) -> None:
        self.readings = readings

    async def read(self, bmc: Bmc) -> BmcReading:
        if bmc.address not in self.readings:
            raise BmcError("status 503")
        return self.readings[bmc.address]


def rack_checks(
    folder: Path, readings: Mapping[str, BmcReading], *responding: str
) -> Mapping[InstanceId, InstanceCheck]:
    """Return the checks of the machines `a` to `e`; all but `e` have a controller."""
    hosts = {
        name: Host(
            name=name,
            address=name,
            instance_type="h100-8x",
            host_key="",
            bmc=None if name == "e" else Bmc(address=f"bmc-{name}"),
        )
        for name in "abcde"
    }
    leases = FolderLeases(folder)
    for name in hosts:
        leases.take(
            Lease(
                instance=InstanceId(f"i-{name}"),
                host=name,
                token=Token(name),
                state=LeaseState.LENT,
                since=NOON,
                instance_type="h100-8x",
            )
        )
    rack = BareMetal(
        SimClock(),
        InlineOffload(),
        NoShells(*responding),
        name="rack",
        inventory=Inventory(hosts=hosts),
        leases=leases,
        bmcs=Controllers({f"bmc-{name}": reading for name, reading in readings.items()}),
    )
    return run_simulated(rack.instance_checks([InstanceId(f"i-{name}") for name in hosts]))


def test_a_controller_shows_whether_a_bare_metal_machine_is_off(tmp_path: Path) -> None:
    found = rack_checks(
        tmp_path,
        {
            "a": BmcReading(power=Power.OFF),
            "b": BmcReading(power=Power.ON, health="Critical"),
            "c": BmcReading(power=Power.CHANGING),
            "e": BmcReading(power=Power.OFF),
        },
    )
    assert found == {
        InstanceId("i-a"): InstanceCheck(
            health=InstanceHealth.STOPPED, reason="its BMC reports the power as off"
        ),
        InstanceId("i-b"): InstanceCheck(
            health=InstanceHealth.OK,
            reason="its BMC reports the power as on and the health as Critical",
        ),
        InstanceId("i-c"): InstanceCheck(
            health=InstanceHealth.INITIALIZING, reason="its BMC reports the power as changing"
        ),
    }, "a controller that fails, or that a machine does not have, shows nothing"


def test_a_machine_that_responds_over_ssh_is_not_off(tmp_path: Path) -> None:
    found = rack_checks(tmp_path, {"a": BmcReading(power=Power.OFF)}, "a")
    assert found[InstanceId("i-a")].health is InstanceHealth.RESPONDING
