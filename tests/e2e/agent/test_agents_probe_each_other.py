"""Real agents connect to each other over a real network; `navarch why` shows what they find.

A node of no pool counts as dead after ten minutes only, so that no test here waits for that.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.machine_network import (
    SWITCH,
    MachineNetwork,
    Namespace,
    machine_network,
    network_missing,
)

MISSING = network_missing()
pytestmark = [pytest.mark.long, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]

CONFIG = """
server: {heartbeat_interval: 1s, heartbeat_timeout: 4s, health_check_interval: 1s}
providers:
  own: {type: fake}
"""
TOKEN = "only-in-this-namespace"
RACKS = {"a": "r1", "b": "r1", "c": "r1", "d": "r2"}
"""The rack of each node; those of one rack are near each other."""


class Site:
    """A control plane and its agents, each in a network namespace."""

    def __init__(self, network: MachineNetwork) -> None:
        self.network = network
        self.machine: dict[str, Namespace] = {}
        folder = network.folder
        (folder / "navarch.yaml").write_text(CONFIG)
        (folder / "token").write_text(TOKEN)
        doors = [f"--address={SWITCH}:50051", f"--grpc-address={SWITCH}:50052"]
        file = ["-c", str(folder / "navarch.yaml"), "--data-dir", str(folder / "state")]
        self._start(network.switch, "serve", "serve", *file, *doors, "--auth-token", TOKEN)
        self.until(lambda: self.cli("status").returncode == 0)
        for name, rack in RACKS.items():
            self.machine[name] = network.add_machine()
            self._start(
                self.machine[name],
                f"agent-{name}",
                *("agent", "--server", f"http://{SWITCH}:50051"),
                *("--node-id", name, "--zone", "z1", "--region", "here", "--provider", "own"),
                *("--label", f"rack={rack}", "--auth-token-file", str(folder / "token")),
                *("--state-dir", str(folder / f"agent-{name}"), "--simulated-gpus", "8"),
                *("--metadata", "none"),
            )
        self.until(lambda: all(map(self.reports, RACKS)))

    def _start(self, where: Namespace, name: str, *words: str) -> None:
        self.network.start(where, name, [sys.executable, "-m", "navarch.cli", *words])

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "navarch.cli", "-s", f"http://{SWITCH}:50051", *words]
        return subprocess.run(
            self.network.switch.command("env", f"NAVARCH_AUTH_TOKEN={TOKEN}", *command),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def node(self, name: str) -> dict[str, Any]:
        shown = self.cli("get", name, "-o", "json")
        found: dict[str, Any] = json.loads(shown.stdout)["node"] if shown.returncode == 0 else {}
        return found

    def peers_report(self, name: str) -> str:
        """Return what other nodes report about a silent one, as `why` shows it."""
        lines = self.cli("why", "node", name).stdout.splitlines()
        return next((line.partition("peers: ")[2] for line in lines if "testimony:" in line), "")

    def reports(self, name: str) -> bool:
        node = self.node(name)
        return node.get("status") == "active" and not node["testimonies"]

    def until(self, holds: Callable[[], bool], *, within_s: float = 90.0) -> None:
        deadline = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > deadline:
                logs = [self.network.log("serve"), *(self.node(x) for x in RACKS)]
                raise AssertionError(logs)
            time.sleep(0.5)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with machine_network(tmp_path) as network:
        yield Site(network)


def test_a_node_that_cannot_reach_the_control_plane_is_seen_to_work_by_the_others(
    site: Site,
) -> None:
    site.network.forbid_server(site.machine["a"])
    works = "the machine works: a program of it responds to other nodes (port 22)"
    site.until(lambda: site.peers_report("a") == works)
    (testimony,) = site.node("a")["testimonies"]
    assert (testimony["witness"], testimony["alive"]) == ("peers", True)
    site.network.allow_server(site.machine["a"])
    site.until(lambda: site.reports("a"))


def test_a_node_that_no_other_can_reach_is_no_longer_known_to_work(site: Site) -> None:
    site.network.unplug(site.machine["a"])
    gone = "no node of rack own/here/z1/r1 or elsewhere can connect to it (port 22)"
    found = f"no proof: {gone}, but to others there"
    site.until(lambda: site.peers_report("a") == found)
    site.network.plug_in(site.machine["a"])
    site.until(lambda: site.reports("a"))


def test_a_second_node_of_the_rack_that_drops_out_puts_the_network_in_doubt(site: Site) -> None:
    site.network.unplug(site.machine["a"])
    site.until(lambda: site.node("a")["status"] == "unhealthy")
    site.network.plug_in(site.machine["a"])
    site.until(lambda: site.reports("a"))
    site.network.unplug(site.machine["b"])
    doubt = "further nodes near it stopped reporting: the network may be at fault"
    found = f"no proof: other nodes cannot connect to it (port 22), but {doubt}"
    site.until(lambda: site.peers_report("b") == found)
    site.network.plug_in(site.machine["b"])
    site.until(lambda: site.reports("b"))


def test_a_rack_of_one_node_is_never_seen_to_be_dead(site: Site) -> None:
    site.network.unplug(site.machine["d"])
    few = "too few of them can connect to others of rack own/here/z1/r2"
    found = f"no proof: other nodes cannot connect to it (port 22), but {few}"
    site.until(lambda: site.peers_report("d") == found)
