"""The Go system's own agent and CLI with our server, where their programs are installed."""

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.support.fleet_process import FleetProcess

from navarch.core.ids import NodeId
from navarch.core.node import NodeStatus
from navarch.ports.api import NodeView, Query

AGENT, CLI = shutil.which("go-node"), shutil.which("go-navarch")
pytestmark = pytest.mark.skipif(
    AGENT is None or CLI is None,
    reason="no go-node and go-navarch on the path: the agent and the CLI of the Go system",
)
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


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FleetProcess]:
    server = FleetProcess(tmp_path, config=CONFIG)
    server.start()
    assert AGENT is not None
    agent = subprocess.Popen(
        [AGENT, "--server", server.url, "--node-id", NODE, "--instance-type", "h100-8x"],
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


def test_the_agent_keeps_its_node_active(server: FleetProcess) -> None:
    wait_for_rounds(server)
    assert node(server).status is NodeStatus.ACTIVE
    detail = server.ask(lambda api: api.get_node(NODE))
    assert detail.inventory is not None
    assert len(detail.inventory.gpus) == 8
    assert "Active" in cli(server, "list")


def test_an_unhealthy_event_outlasts_the_quiet_reports_of_the_agent(server: FleetProcess) -> None:
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
    assert "Unhealthy" in cli(server, "get", NODE)

    declared = server.navarch("override", NODE, "--reason", "tested")
    assert declared.returncode == 0, declared.stderr
    wait_for_rounds(server)
    assert node(server).status is NodeStatus.ACTIVE


def test_the_cli_drains_a_node_and_returns_it_to_service(server: FleetProcess) -> None:
    assert "draining" in cli(server, "drain", NODE)
    assert node(server).status is NodeStatus.DRAINING
    assert "uncordoned" in cli(server, "uncordon", NODE)
    wait_for_rounds(server)
    assert node(server).status is NodeStatus.ACTIVE
    assert f"node {NODE} is not cordoned" in cli(server, "uncordon", NODE, code=1)


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


def cli(server: FleetProcess, *words: str, code: int = 0) -> str:
    assert CLI is not None
    done = subprocess.run(
        [CLI, "--server", server.url, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def post(server: FleetProcess, method: str, body: object) -> None:
    request = urllib.request.Request(
        f"{server.url}/navarch.ControlPlaneService/{method}",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
