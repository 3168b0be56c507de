"""Management controllers over Redfish: a real emulator, and everything that a controller may do."""

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from tests.support.http_server import serving
from tests.support.redfish_emulator import (
    PASSWORD,
    USER,
    RedfishEmulator,
    emulator_missing,
    redfish_emulator,
)

from navarch.core.errors import InvalidError
from navarch.ports.bmc import Bmc, BmcError, BmcReading, Power
from navarch.providers.baremetal.redfish import SYSTEMS, RedfishReader

ONE = "27946b59-9e44-4fa7-8e91-f3527a1ef094"
TWO = "27946b59-9e44-4fa7-8e91-f3527a1ef095"


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedfishEmulator]:
    if reason := emulator_missing():
        pytest.skip(reason)
    with redfish_emulator(tmp_path_factory.mktemp("redfish"), {ONE: "Off", TWO: "On"}) as running:
        yield running


def bmc_of(emulator: RedfishEmulator) -> Bmc:
    return Bmc(address=emulator.url, user=USER, password=PASSWORD, system=ONE)


def read(reader: RedfishReader, bmc: Bmc) -> BmcReading:
    return asyncio.run(reader.read(bmc))


def refused(reader: RedfishReader, bmc: Bmc) -> str:
    with pytest.raises(BmcError) as caught:
        read(reader, bmc)
    return str(caught.value)


def test_a_controller_reports_whether_its_machine_has_power(emulator: RedfishEmulator) -> None:
    reader = RedfishReader(ca_file=str(emulator.ca_file))
    off = replace(bmc_of(emulator), serial=ONE.upper())
    found = read(reader, off)
    assert found == BmcReading(power=Power.OFF, health="OK")
    assert read(reader, replace(off, system=TWO, serial=TWO)).power is Power.ON


def test_a_controller_with_another_machine_is_ignored(emulator: RedfishEmulator) -> None:
    reader = RedfishReader(ca_file=str(emulator.ca_file))
    text = refused(reader, replace(bmc_of(emulator), serial=TWO))
    assert f"manages another machine than {TWO}" in text


def test_a_controller_of_two_machines_needs_the_name_of_one(emulator: RedfishEmulator) -> None:
    reader = RedfishReader(ca_file=str(emulator.ca_file))
    text = refused(reader, replace(bmc_of(emulator), system=""))
    assert "manages 2 machines: set `system`" in text


def test_a_wrong_password_is_an_error_without_the_password(emulator: RedfishEmulator) -> None:
    reader = RedfishReader(ca_file=str(emulator.ca_file))
    text = refused(reader, replace(bmc_of(emulator), password="wr0ng"))
    assert "refuses the login of 'monitor'" in text
    assert "wr0ng" not in text
    assert "wr0ng" not in repr(replace(bmc_of(emulator), password="wr0ng"))


def test_a_certificate_that_nobody_vouches_for_is_refused(emulator: RedfishEmulator) -> None:
    assert "certificate" in refused(RedfishReader(), bmc_of(emulator))
    assert read(RedfishReader(verify=False), bmc_of(emulator)).power is Power.OFF


def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="not a file of certificates"):
        RedfishReader(ca_file=str(tmp_path / "none"))


# Everything else that a controller may do

MEMBERS = {"Members": [{"@odata.id": f"{SYSTEMS}/1"}]}


def reply(body: object, status: int = 200) -> bytes:
    raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(raw)}\r\nConnection: close\r\n\r\n"
    return head.encode() + raw


def answering(system: object, members: object = MEMBERS, status: int = 200) -> BmcReading:
    def answer(request: bytes) -> bytes:
        if request.startswith(f"GET {SYSTEMS} ".encode()):
            return reply(members)
        return reply(system, status)

    with serving(answer) as server:
        bmc = Bmc(address=f"http://{server.address}", user="u", password="p")
        return read(RedfishReader(response_s=2.0), bmc)


def test_the_only_system_of_a_controller_is_found() -> None:
    found = answering({"PowerState": "Off", "Status": {"Health": "Critical", "State": "x"}})
    assert found == BmcReading(power=Power.OFF, health="Critical")


@pytest.mark.parametrize(
    ("state", "power"),
    [
        ("On", Power.ON),
        ("Off", Power.OFF),
        ("PoweringOn", Power.CHANGING),
        ("PoweringOff", Power.CHANGING),
    ],
)
def test_every_state_of_power_has_a_meaning(state: str, power: Power) -> None:
    assert answering({"PowerState": state}) == BmcReading(power=power)


@pytest.mark.parametrize(
    "system",
    [
        {},
        [],
        "Off",
        b"",
        b"<html>Off</html>",
        b"\xff\xfe",
        b"[" * 100_000,
        {"PowerState": None},
        {"PowerState": False},
        {"PowerState": "off"},
        {"PowerState": "Paused"},
        {"PowerState": "Off", "Status": "OK"},
        {"PowerState": ["Off"]},
    ],
)
def test_a_system_that_is_not_as_described_is_an_error(system: object) -> None:
    with pytest.raises(BmcError):
        answering(system)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"Members": []},
        {"Members": [{}]},
        {"Members": [{"@odata.id": "http://other/redfish/v1/Systems/1"}]},
        {"Members": [{"@odata.id": "/redfish/v1/Systems/1\r\nX: y"}]},
        {"Members": [{"@odata.id": "/a"}, {"@odata.id": "/b"}]},
    ],
)
def test_a_collection_without_one_usable_system_is_an_error(members: object) -> None:
    with pytest.raises(BmcError):
        answering({"PowerState": "Off"}, members)


@pytest.mark.parametrize("status", [201, 204, 301, 400, 401, 403, 404, 429, 500, 503])
def test_any_status_but_200_is_an_error(status: int) -> None:
    with pytest.raises(BmcError):
        answering({"PowerState": "Off"}, status=status)


def test_a_controller_that_does_not_respond_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        bmc = Bmc(address=f"http://127.0.0.1:{server.getsockname()[1]}")
        assert "did not respond within 0.1 s" in refused(RedfishReader(response_s=0.1), bmc)
    assert "cannot be reached" in refused(RedfishReader(), bmc)
    assert "not an address" in refused(RedfishReader(), Bmc(address="10.0.0.1"))


def test_a_response_that_is_too_large_is_an_error() -> None:
    with pytest.raises(BmcError):
        answering(b" " * 2_000_000 + b'{"PowerState": "Off"}')
