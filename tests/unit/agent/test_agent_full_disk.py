"""An agent starts on a full or broken disk: its node is alive."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from navarch.agent.spool.disk import DetachedDisk, DiskError, FolderDisk, open_disk
from navarch.agent.spool.outbox import ReportBuffer


def a_full_folder(monkeypatch: pytest.MonkeyPatch, number: int = errno.ENOSPC) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)


def test_a_disk_with_room_is_used(tmp_path: Path) -> None:
    opened = open_disk(tmp_path)
    assert isinstance(opened, FolderDisk)
    assert not opened.sizes()
    opened.close()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_an_agent_on_a_full_disk_keeps_its_findings_and_numbers_a_stream_of_its_own(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = FolderDisk(tmp_path)
    stream = ReportBuffer(before, new_stream="first").stream
    before.replace("findings.json", b"[]", sync=True)
    before.close()
    a_full_folder(monkeypatch, number)

    opened = open_disk(tmp_path)

    assert isinstance(opened, DetachedDisk)
    assert opened.read("findings.json") == b"[]"
    assert ReportBuffer(opened, new_stream="second").stream == "second" != stream
    with pytest.raises(DiskError, match="in use by another agent"):
        open_disk(tmp_path)
    opened.close()
    monkeypatch.undo()
    again = open_disk(tmp_path)
    assert ReportBuffer(again, new_stream="third").stream == stream
    again.close()


def test_a_folder_that_may_not_be_written_is_still_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DiskError):
        open_disk(tmp_path / "file")


def test_a_real_agent_registers_from_a_disk_without_room(tmp_path: Path) -> None:
    """On a file system of 64 kB that is full."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can mount a small file system")
    code = """
import asyncio, subprocess, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from tests.support.local_api import build_local_api, serve_local_api
state = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(state)], check=True)
try:
    (state / "filler").write_bytes(bytes(2**20))
except OSError:
    pass
async def main():
    local = build_local_api()
    async with serve_local_api(local, grpc=False):
        agent = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "navarch.cli.agent", "--server", local.http_url,
            "--node-id", "gpu-7", "--state-dir", str(state), "--simulated-gpus", "1",
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(40):
            line = b""
            while b"agent.disk_full" not in line:
                line = await agent.stderr.readline()
                assert line, "the agent has ended"
            while not local.store.fleet().nodes.get("gpu-7"):
                await asyncio.sleep(0.05)
        agent.kill()
        await agent.communicate()
asyncio.run(main())
print("registered", flush=True)
"""
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", code, str(tmp_path), root],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    if "permission denied" in done.stderr.lower():
        pytest.skip("file systems may not be mounted here")
    assert done.stdout == "registered\n", done.stderr
