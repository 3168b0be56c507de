"""Secrets by reference in a real server: rotated without a restart, and shown nowhere."""

import stat
from pathlib import Path

import pytest
from tests.support.fleet_process import FleetProcess

from navarch.client.connect import FleetClient
from navarch.core.errors import UnauthenticatedError

FIRST, SECOND = "first-token-first-token", "second-token-second-token"
CONFIG = """
server:
  secrets_refresh: 1s
  auth_token: file:FOLDER/token
alerts:
  channels:
    team: {type: webhook, url: "http://127.0.0.1:9/", secret: "file:FOLDER/key"}
providers:
  fake: {type: fake, boot_min: 100ms, boot_max: 300ms}
pools:
  training: {provider: fake, instance_type: h100-8x, min_nodes: 1, max_nodes: 4}
"""


async def _status(api: FleetClient) -> bool:
    try:
        await api.status()
    except UnauthenticatedError:
        return False
    return True


@pytest.fixture
def server(tmp_path: Path) -> FleetProcess:
    (tmp_path / "token").write_text(FIRST + "\n")
    (tmp_path / "key").write_text("key-of-the-signature")
    found = FleetProcess(tmp_path, config=CONFIG.replace("FOLDER", str(tmp_path)))
    # A folder of an earlier version, that every user of the machine can read.
    for folder in (found.data_dir, found.data_dir / "evidence"):
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)
    return found


def test_a_new_token_applies_without_a_restart_and_is_shown_nowhere(server: FleetProcess) -> None:
    server.start()
    try:
        server.token = FIRST
        assert server.ask(_status)
        (server.folder / "token").write_text(SECOND)
        server.token = SECOND
        server.until(lambda: server.ask(_status))
        server.token = FIRST
        assert not server.ask(_status)
        # A secret that cannot be read leaves the one of before in use.
        (server.folder / "token").unlink()
        server.until(lambda: "secrets.not_read" in server.log.read_text())
        server.token = SECOND
        assert server.ask(_status)
    finally:
        server.stop()
    for file in [server.log, *server.data_dir.rglob("*")]:
        if file.is_file():
            content = file.read_bytes()
            for secret in (FIRST, SECOND, "key-of-the-signature"):
                assert secret.encode() not in content, file


def test_what_the_server_keeps_is_readable_by_its_owner_only(server: FleetProcess) -> None:
    server.start()
    server.token = FIRST
    server.until((server.data_dir / "fake").exists)
    server.stop()
    kept = [x for x in server.data_dir.rglob("*") if x.is_file()]
    assert kept
    readable = [x for x in kept if stat.S_IMODE(x.stat().st_mode) & 0o077]
    assert readable == []
    evidence = server.data_dir / "evidence"
    assert stat.S_IMODE(evidence.stat().st_mode) == 0o700


def test_a_token_that_cannot_be_read_at_the_start_is_an_error(server: FleetProcess) -> None:
    (server.folder / "token").unlink()
    with pytest.raises(AssertionError, match=r"auth_token: file:.*/token: No such file"):
        server.start()
