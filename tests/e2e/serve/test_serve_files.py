"""The files of a real server: private, and closed when they are not needed any more."""

import os
import stat
from pathlib import Path

from tests.support.fleet_process import FleetProcess

from navarch.core.ids import PoolName
from navarch.core.node import NodeStatus
from navarch.ports.api import Query

ACTIVE = Query(status=NodeStatus.ACTIVE)


def count_active(server: FleetProcess) -> int:
    return len(server.ask(lambda api: api.list_nodes(ACTIVE)).items)


def open_locks(server: FleetProcess) -> int:
    """Return how many folders the server holds: its own, and one per simulated machine."""
    assert server.process is not None
    found = 0
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            found += os.readlink(link).endswith("/lock")
        except FileNotFoundError:
            continue
    return found


def test_files_are_for_the_user_of_the_server_and_ended_machines_hold_none(tmp_path: Path) -> None:
    server = FleetProcess(tmp_path)
    server.data_dir.mkdir(mode=0o755)
    server.start()
    try:
        server.until(lambda: count_active(server) == 2)
        training = PoolName("training")
        server.ask(lambda api: api.scale(training, 4, reason="test"))
        server.until(lambda: count_active(server) == 4)
        assert open_locks(server) == 5
        server.ask(lambda api: api.scale(training, 2, reason="test"))
        server.until(lambda: open_locks(server) == 3)
        files = [path for path in server.data_dir.rglob("*") if path.is_file()]
        assert len(files) > 5
        for path in files:
            assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path
    finally:
        server.kill()
