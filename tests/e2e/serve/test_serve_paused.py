"""A control plane that is stopped for a while, as when its virtual machine is moved."""

import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.fleet_process import FleetProcess

from navarch.core.errors import UnreachableError
from navarch.core.node import NodeStatus
from navarch.ports.api import Query

TIMEOUT = timedelta(seconds=3)
"""The heartbeat timeout of the test's configuration."""


def test_a_control_plane_that_was_stopped_marks_no_node_as_silent(tmp_path: Path) -> None:
    fleet = FleetProcess(tmp_path)
    fleet.start()
    try:
        fleet.until(lambda: len(last_heartbeats(fleet)) == 2)
        stop_until_longer_than_the_timeout(fleet)
        fleet.until(lambda: "server.paused" in journal(fleet))
        # A node that the pause made silent would be marked by now.
        judged = datetime.now(UTC) + TIMEOUT / 2
        fleet.until(lambda: all(last > judged for last in last_heartbeats(fleet)))
        assert len(last_heartbeats(fleet)) == 2
        assert "no report since" not in journal(fleet)
        assert "the silence of nodes counts from now" in journal(fleet)
    finally:
        fleet.kill()


def stop_until_longer_than_the_timeout(fleet: FleetProcess) -> None:
    """Stop the process until a request has waited longer than the heartbeat timeout."""
    assert fleet.process is not None
    fleet.process.send_signal(signal.SIGSTOP)
    os.waitpid(fleet.process.pid, os.WUNTRACED)
    with pytest.raises(UnreachableError):
        fleet.ask(lambda api: api.status(), timeout_s=(TIMEOUT * 1.2).total_seconds())
    fleet.process.send_signal(signal.SIGCONT)


def last_heartbeats(fleet: FleetProcess) -> list[datetime]:
    """Return the time of the last heartbeat of each active node."""
    active = fleet.ask(lambda api: api.list_nodes(Query(status=NodeStatus.ACTIVE))).items
    return [node.last_heartbeat for node in active if node.last_heartbeat]


def journal(fleet: FleetProcess) -> str:
    entries = fleet.ask(lambda api: api.events(limit=1000))
    return "\n".join(f"{each.event.kind}: {each.event.reason}" for each in entries)
