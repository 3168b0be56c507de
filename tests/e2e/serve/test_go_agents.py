"""The Go system's own agent and CLI with our server, where their programs are to be had."""

import json
import lzma
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.support.fleet_process import FleetProcess

from navarch.core.ids import NodeId, PoolName
from navarch.core.node import NodeStatus
from navarch.ports.api import NodeView, Query

Cli = Callable[..., str]
PACKED = Path(__file__).parents[4] / "shared" / "reference-bin"
NODE = NodeId("go-1")
CONFIG = """
server:
  heartbeat_interval: 1s
  health_check_interval: 1s
providers:
  fake: {type: fake}
pools:
  training: {provider: fake, instance_type: h100-8x, min_nodes: 0, max_nodes: 4}
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the paths of the agent and the CLI; skip if they are not to be had."""
    found: dict[str, str] = {}
    for name in ("go-node", "go-navarch"):
        path, packed = shutil.which(name), PACKED / f"{name}.xz"
        if path is None and not packed.is_file():
            pytest.skip(f"{name} of the Go system is neither on the path nor in {PACKED.name}")
        if path is None:
            unpacked = tmp_path_factory.mktemp("go") / name
            unpacked.write_bytes(lzma.decompress(packed.read_bytes()))
            unpacked.chmod(0o755)
            path = str(unpacked)
        found[name] = path
    return found


@pytest.fixture
def server(programs: dict[str, str], tmp_path: Path) -> Iterator[FleetProcess]:
    server = FleetProcess(tmp_path, config=CONFIG)
    server.start()
    command = [programs["go-node"], "--server", server.url, "--node-id", NODE]
    agent = subprocess.Popen(
        [*command, "--instance-type", "h100-8x", "--pool", "training"],
        env={**os.environ, "NAVARCH_FAKE_GPU": "true"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        server.until(lambda: any(node.status for node in every_node(server)))
        yield server
    finally:
        agent.kill()
        agent.wait()
        server.kill()


@pytest.fixture
def cli(programs: dict[str, str], server: FleetProcess) -> Cli:
    """Return a function that runs the CLI, and returns what it prints."""

    def run(*words: str, code: int = 0) -> str:
        command = [programs["go-navarch"], "--server", server.url, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


def test_the_agent_keeps_its_node_active(server: FleetProcess, cli: Cli) -> None:
    wait_for_rounds(server)
    assert node(server).status is NodeStatus.ACTIVE
    detail = server.ask(lambda api: api.get_node(NODE))
    assert detail.inventory is not None
    assert len(detail.inventory.gpus) == 8
    assert "Active" in cli("list")


def test_the_agents_node_counts_in_its_pool(server: FleetProcess) -> None:
    scaled = server.navarch("pool", "scale", "training", "1")
    assert scaled.returncode == 0, scaled.stderr
    wait_for_rounds(server)
    assert [each.id for each in every_node(server)] == [NODE]
    pool = server.ask(lambda api: api.get_pool(PoolName("training")))
    assert (pool.size, pool.serving, pool.hosts) == (1, 1, 1)


def test_an_unhealthy_event_outlasts_the_quiet_reports_of_the_agent(
    server: FleetProcess, cli: Cli
) -> None:
    event = {
        "eventType": "HEALTH_EVENT_TYPE_ECC_DBE",
        "system": "HEALTH_WATCH_SYSTEM_MEM",
        "gpuUuid": "GPU-1",
        "metrics": {"ecc_dbe_count": "1"},
    }
    # The agent's fake GPUs have no faults: the event is sent in its name.
    post(server, "ReportHealth", {"nodeId": NODE, "events": [event]})
    wait_for_rounds(server)
    assert node(server).status is NodeStatus.UNHEALTHY
    assert "Unhealthy" in cli("get", NODE)

    declared = server.navarch("override", NODE, "--reason", "tested")
    assert declared.returncode == 0, declared.stderr
    wait_for_rounds(server)
    assert node(server).status is NodeStatus.ACTIVE


def test_the_cli_drains_a_node_and_returns_it_to_service(server: FleetProcess, cli: Cli) -> None:
    assert "draining" in cli("drain", NODE)
    assert node(server).status is NodeStatus.DRAINING
    assert "uncordoned" in cli("uncordon", NODE)
    wait_for_rounds(server)
    assert node(server).status is NodeStatus.ACTIVE
    assert f"node {NODE} is not cordoned" in cli("uncordon", NODE, code=1)


def every_node(server: FleetProcess) -> list[NodeView]:
    return list(server.ask(lambda api: api.list_nodes(Query())).items)


def node(server: FleetProcess) -> NodeView:
    return server.ask(lambda api: api.get_node(NODE)).node


def wait_for_rounds(server: FleetProcess) -> None:
    """Wait until the agent has sent at least three more heartbeats and health reports."""
    since = last_heartbeat(server)
    server.until(lambda: last_heartbeat(server) >= since + timedelta(seconds=4))


def last_heartbeat(server: FleetProcess) -> datetime:
    seen = node(server).last_heartbeat
    assert seen is not None
    return seen


def post(server: FleetProcess, method: str, body: object) -> None:
    request = urllib.request.Request(
        f"{server.url}/navarch.ControlPlaneService/{method}",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
