"""The command lines of the original README's quick start, as they are, at EC2 and Google.

Variables of the environment, the profile and the key file name the server and the local clouds. The
first line installs Navarch, which `tests/e2e/installation` does from a release.
"""

import base64
import json
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

import botocore.session
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from quick_start import (
    ROOT,
    BootedCloud,
    MachineAtCloud,
    log_in,
    reader_account,
    skip_unless_machines_start,
    until,
)
from tests.support.cloud_network import SERVER, own_network
from tests.support.compute_server import PROJECT, ZONES, LocalCompute
from tests.support.ec2_server import ACCESS, Ec2Server, ec2_server
from tests.support.terminal import TypingTerminal, typing_terminal

from navarch.testing.loopback_server import HttpRequest, HttpResponse, Wire, serve

pytestmark = pytest.mark.long

LINES = (ROOT / "tests/data/original-quick-start.txt").read_text("utf-8").splitlines()
INSTALL = "curl "
AWS_CONFIG = """\
[profile my-profile]
region = us-east-1
endpoint_url = {url}
aws_access_key_id = {AWS_ACCESS_KEY_ID}
aws_secret_access_key = {AWS_SECRET_ACCESS_KEY}
"""


@pytest.fixture
def reader(tmp_path: Path) -> Mapping[str, str]:
    return reader_account(tmp_path)


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[Ec2Server]:
    skip_unless_machines_start(tmp_path / "trial")
    with own_network(), ec2_server() as found:
        yield found


@pytest.fixture
def google(aws: Ec2Server) -> Iterator[str]:
    """Return the address of Google's tokens, and of a project without stock."""
    del aws  # Its network.
    compute = LocalCompute(sold_out=set(ZONES))

    def answer(request: HttpRequest) -> HttpResponse:
        if request.path == "/token":
            token = {"access_token": "a", "token_type": "Bearer", "expires_in": 3600}
            return HttpResponse(200, json.dumps(token).encode())
        if request.path == "/projects/my-project":
            return HttpResponse(200, b'{"name": "my-project"}')
        path = request.path.replace("my-project", PROJECT)
        there = HttpRequest(request.method, path, request.query, request.headers, request.body)
        return compute.answer(there)

    with serve(answer, Wire()) as url:
        yield url


@pytest.fixture
def machines(aws: Ec2Server, tmp_path: Path) -> Iterator[BootedCloud]:
    with BootedCloud(tmp_path / "machines", Account(aws).started) as found:
        yield found


class Account:
    """What the account's machines have, in whichever region they are."""

    def __init__(self, aws: Ec2Server) -> None:
        self._aws = aws
        self._known: dict[str, MachineAtCloud] = {}

    def started(self) -> Mapping[str, MachineAtCloud]:
        """Return the machines that run, by id."""
        for name in self._aws.alive():
            if name not in self._known:
                self._known[name] = self._find(name)
        return {name: self._known[name] for name in self._aws.alive()}

    def _find(self, name: str) -> MachineAtCloud:
        session = botocore.session.Session()
        session.set_credentials(*ACCESS.values())
        session.set_config_variable("region", "us-east-1")
        url = {"endpoint_url": self._aws.url}
        for each in session.create_client("ec2", **url).describe_regions()["Regions"]:
            client = session.create_client("ec2", region_name=each["RegionName"], **url)
            here = [{"Name": "instance-id", "Values": [name]}]
            found = client.describe_instances(Filters=here)["Reservations"]
            if found:
                given = client.describe_instance_attribute(InstanceId=name, Attribute="userData")
                return MachineAtCloud(
                    address=found[0]["Instances"][0]["PublicIpAddress"],
                    user_data=base64.b64decode(given["UserData"]["Value"]),
                )
        raise AssertionError(f"{name} is in no region")


def test_the_original_quick_start_works_word_for_word(
    aws: Ec2Server,
    google: str,
    machines: BootedCloud,
    reader: Mapping[str, str],
    tmp_path: Path,
) -> None:
    home = Path(reader["HOME"])
    (home / ".aws").mkdir()
    (home / ".aws" / "config").write_text(AWS_CONFIG.format(url=aws.url, **ACCESS))
    (home / "sa.json").write_text(json.dumps(a_service_account(google)))
    environment = {
        **reader,
        "NAVARCH_AUTH_TOKEN": "the-token-of-the-operators",
        # A release contains the agent for the Python of EC2's image; this tree does not.
        "NAVARCH_AGENT_INDEX": "true",
        "NAVARCH_EXTERNAL_ADDRESS": f"http://{SERVER}:50051",
    }
    with (
        typing_terminal(environment, tmp_path) as first,
        typing_terminal(environment, tmp_path) as second,
    ):
        for line in LINES:
            machines.check()
            if not line.startswith(INSTALL):
                type_line(first, second, line, google)
        first.press("\x03")
        first.wait_for("ready> ")
    assert machines.count == 1
    assert aws.alive() == []


def type_line(first: TypingTerminal, second: TypingTerminal, line: str, google: str) -> None:
    """Type one line; credentials and the control plane in the first terminal."""
    if line == "navarch serve":
        first.type(line)
        assert "aws, gcp" in first.wait_for("In another terminal")
    elif "set-credentials gcp" in line:
        assert "my-project" in first.run(f"{line} --endpoint {google}")
    elif "set-credentials" in line:
        first.run(line)
    elif line.startswith("navarch ssh"):
        until(lambda: "1/1" in second.run("navarch status"))
        log_in(second, line)
    elif line.startswith("navarch down"):
        second.type(line)
        second.wait_for("[y/N]")
        second.type("y")
        second.finish()
    else:
        second.run(line)


def a_service_account(url: str) -> dict[str, str]:
    """Return a key file that asks the local Google for tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return {
        "type": "service_account",
        "project_id": "my-project",
        "private_key_id": "1",
        "private_key": text.decode(),
        "client_email": "navarch@my-project.iam.gserviceaccount.com",
        "token_uri": urllib.parse.urljoin(url, "/token"),
    }
