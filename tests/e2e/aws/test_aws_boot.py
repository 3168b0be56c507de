"""The machine that a server buys at EC2 boots with its user data, and its agent registers.

The boot script runs unchanged but for its root folder, with a Python that has no Navarch. It is
read from the machine at the local EC2, and downloads the agent from the server that bought it.
"""

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import pytest
from tests.support.boot import Machine
from tests.support.ec2_server import ACCESS, Ec2Server
from tests.support.fleet_process import FleetProcess

from navarch.core.ids import NodeId
from navarch.core.node import Phase

TOKEN = "the-token-of-the-operators"
HOST = "navarch.test"
"""A name that is not loopback to Navarch, as the server's in a cloud."""
CONFIG = """
server: {agent_index: true, heartbeat_interval: 1s, external_address: "http://NAME:PORT"}
providers:
  work: {type: aws, region: us-east-1, regions: [us-east-1], endpoint: "EC2"}
"""


class _Served(FleetProcess):
    """A server with an account at the local EC2."""

    def command(self) -> list[str]:
        # All interfaces, as for machines in a cloud.
        doors = [f"--address=0.0.0.0:{self.port}", f"--grpc-address=0.0.0.0:{self.grpc_port}"]
        return [sys.executable, "-m", "navarch.cli", "serve", *doors]


@pytest.fixture
def server(
    ec2: Ec2Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FleetProcess]:
    for name, value in ACCESS.items():
        monkeypatch.setenv(name, value)
    served = _Served(tmp_path, token=TOKEN)
    served.config.write_text(
        CONFIG.replace("NAME", HOST).replace("PORT", str(served.port)).replace("EC2", ec2.url)
    )
    served.start()
    yield served
    served.kill()


def buy(server: FleetProcess) -> None:
    line = "up --gpus 8 --type h100 --name training"
    ran = server.navarch(*line.split())
    assert ran.returncode == 0, ran.stderr


def user_data(ec2: Ec2Server, server: FleetProcess) -> str:
    server.until(lambda: bool(ec2.alive()))
    client = botocore.session.get_session().create_client(
        "ec2", region_name="us-east-1", endpoint_url=ec2.url
    )
    (machine,) = ec2.alive()
    found = client.describe_instance_attribute(InstanceId=machine, Attribute="userData")
    text = base64.b64decode(found["UserData"]["Value"]).decode()
    # This machine has no name service for that name.
    return text.replace(f"http://{HOST}:", "http://127.0.0.1:")


def test_a_machine_of_the_command_line_boots_and_its_agent_registers_and_sends_heartbeats(
    ec2: Ec2Server, server: FleetProcess, tmp_path: Path
) -> None:
    assert (
        server.navarch(*["up", "--gpus", "8", "--type", "h100", "--name", "training"]).returncode
        == 0
    )
    machine = Machine(tmp_path / "machine")
    ran = machine.boot(user_data(ec2, server))
    assert (ran.returncode, ran.stderr) == (0, "")
    environment = {
        name: value.replace(HOST, "127.0.0.1") for name, value in machine.environment.items()
    }
    agent = subprocess.Popen(
        [str(machine.agent), "agent"], env={**environment, "NAVARCH_FAKE_GPU": "true"}
    )
    try:
        server.until(lambda: _phase(server) is Phase.READY)
        first = _heartbeat(server)
        server.until(lambda: _heartbeat(server) != first)
    finally:
        agent.terminate()
        agent.wait(timeout=30)


def _phase(server: FleetProcess) -> Phase:
    return server.ask(lambda api: api.get_node(NodeId("training-0"))).node.phase


def _heartbeat(server: FleetProcess) -> object:
    return server.ask(lambda api: api.get_node(NodeId("training-0"))).node.last_heartbeat


@pytest.mark.long
def test_a_machine_that_was_bought_before_an_update_gets_the_agent_of_its_user_data(
    ec2: Ec2Server, server: FleetProcess, tmp_path: Path
) -> None:
    assert (
        server.navarch(*["up", "--gpus", "8", "--type", "h100", "--name", "training"]).returncode
        == 0
    )
    text = user_data(ec2, server)
    server.stop()
    # Another bundle than before: this one lacks the list of wheels.
    config = server.config.read_text().replace("agent_index: true, ", "")
    server.config.write_text(config)
    server.start()
    machine = Machine(tmp_path / "machine")
    ran = machine.boot(text)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(list((server.data_dir / "agent-bundles").iterdir())) == 2
    assert len(ec2.alive()) == 1, "an update of the server replaces nothing"


@pytest.mark.long
def test_an_altered_bundle_on_the_way_is_never_run(
    ec2: Ec2Server, server: FleetProcess, tmp_path: Path
) -> None:
    assert (
        server.navarch(*["up", "--gpus", "8", "--type", "h100", "--name", "training"]).returncode
        == 0
    )
    text = user_data(ec2, server)
    (bundle,) = (server.data_dir / "agent-bundles").iterdir()
    bundle.write_bytes(bundle.read_bytes() + b"altered")
    machine = Machine(tmp_path / "machine")
    ran = machine.boot(text)
    assert ran.returncode == 1
    assert "404" in ran.stderr, "the server does not serve what it cannot verify"
    assert not machine.agent.exists()
