"""Two servers on one folder: a leader, and a standby that takes over."""

import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.support.fleet_process import FleetProcess

from navarch.core.node import NodeStatus
from navarch.ports.api import Query


class Standby(FleetProcess):
    """A second server with the folder and the addresses of the first."""

    def __init__(self, leader: FleetProcess) -> None:
        super().__init__(leader.folder)
        self.port, self.grpc_port = leader.port, leader.grpc_port
        self.log = leader.folder / "standby.log"

    def command(self) -> list[str]:
        return [*super().command(), "--standby"]

    def begin(self) -> None:
        """Start it, and wait until it reports that it is on standby."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command(), "--config", str(self.config), "--data-dir", str(self.data_dir)],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 60
        while "is on standby" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)


def test_a_standby_takes_over_from_a_killed_leader(tmp_path: Path) -> None:
    leader = FleetProcess(tmp_path)
    leader.start()
    standby = Standby(leader)
    try:
        active = Query(status=NodeStatus.ACTIVE)
        leader.until(lambda: len(leader.ask(lambda api: api.list_nodes(active)).items) == 2)
        standby.begin()
        refused = subprocess.run(
            [*leader.command()[:4], "--data-dir", str(leader.data_dir), "--address=127.0.0.1:0"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert refused.returncode == 1
        assert "navarch serve --standby" in refused.stderr

        before = {node.id for node in leader.ask(lambda api: api.list_nodes(active)).items}
        leader.kill()
        standby.until(standby.answers)
        standby.until(lambda: len(standby.ask(lambda api: api.list_nodes(active)).items) == 2)
        nodes = standby.ask(lambda api: api.list_nodes(Query(include_gone=True))).items
        assert {node.id for node in nodes} == before, "nothing was bought again"
        standby.until(lambda: "is serving" in standby.log.read_text())
    finally:
        for process in (leader, standby):
            if process.process is not None and process.process.poll() is None:
                process.kill()


@pytest.mark.long
def test_a_standby_takes_over_from_a_stopped_leader(tmp_path: Path) -> None:
    leader = FleetProcess(tmp_path)
    leader.start()
    standby = Standby(leader)
    try:
        active = Query(status=NodeStatus.ACTIVE)
        leader.until(lambda: len(leader.ask(lambda api: api.list_nodes(active)).items) == 2)
        before = {node.id for node in leader.ask(lambda api: api.list_nodes(active)).items}
        standby.begin()
        assert leader.process is not None
        leader.process.send_signal(signal.SIGSTOP)
        assert leader.process.wait(30) == -signal.SIGKILL
        standby.until(lambda: "is serving" in standby.log.read_text())
        assert "server.leader_ended" in standby.log.read_text()
        standby.until(lambda: len(standby.ask(lambda api: api.list_nodes(active)).items) == 2)
        nodes = standby.ask(lambda api: api.list_nodes(Query(include_gone=True))).items
        assert {node.id for node in nodes} == before, "nothing was bought again"
    finally:
        for process in (leader, standby):
            if process.process is not None and process.process.poll() is None:
                process.kill()
