"""A control plane that is stopped for a while, as when its virtual machine is moved."""

import signal
import time
from pathlib import Path

from tests.support.fleet_process import FleetProcess

PAUSE_S = 8.0
"""More than twice the heartbeat timeout of the test's configuration."""


def test_a_control_plane_that_was_stopped_marks_no_node_as_silent(tmp_path: Path) -> None:
    fleet = FleetProcess(tmp_path)
    fleet.start()
    try:
        fleet.until(lambda: fleet.navarch("list", "-o", "json").stdout.count('"active"') >= 2)
        assert fleet.process is not None
        fleet.process.send_signal(signal.SIGSTOP)
        time.sleep(PAUSE_S)
        fleet.process.send_signal(signal.SIGCONT)
        fleet.until(lambda: "server.paused" in journal(fleet), within_s=15)
        time.sleep(4)
        assert "no report since" not in journal(fleet)
        assert "the silence of nodes counts from now" in journal(fleet)
    finally:
        fleet.kill()


def journal(fleet: FleetProcess) -> str:
    entries = fleet.ask(lambda api: api.events(limit=1000))
    return "\n".join(f"{each.event.kind}: {each.event.reason}" for each in entries)
