"""The state directory, on a real file system."""

import os
from pathlib import Path

import pytest

from navarch.agent.spool.disk import DiskError, FolderDisk


def test_written_files_can_be_read_by_the_next_agent(tmp_path: Path) -> None:
    disk = FolderDisk(tmp_path / "state")
    disk.append("log", b"one", sync=True)
    disk.append("log", b"two", sync=False)
    disk.replace("note", b"hello", sync=True)
    disk.replace("gone", b"x", sync=False)
    disk.remove("gone")
    disk.remove("never")
    disk.close()

    again = FolderDisk(tmp_path / "state")
    assert again.sizes() == {"log": 6, "note": 5}
    assert again.read("log") == b"onetwo"
    assert again.read("gone") is None
    again.close()


def test_appends_after_a_replace_go_to_the_new_file(
    tmp_path: Path,
) -> None:
    disk = FolderDisk(tmp_path)
    disk.append("log", b"torn", sync=False)
    disk.replace("log", b"to", sync=True)
    disk.append("log", b"p", sync=True)
    assert disk.read("log") == b"top"
    disk.close()


def test_a_second_agent_cannot_open_the_directory(tmp_path: Path) -> None:
    disk = FolderDisk(tmp_path)
    with pytest.raises(DiskError, match="in use by another agent"):
        FolderDisk(tmp_path)
    disk.close()
    FolderDisk(tmp_path).close()


def test_temporary_files_of_a_crash_are_deleted(tmp_path: Path) -> None:
    (tmp_path / "note.new").write_bytes(b"ha")
    disk = FolderDisk(tmp_path)
    assert disk.sizes() == {}
    assert not (tmp_path / "note.new").exists()
    disk.close()


def test_the_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    disk = FolderDisk(tmp_path / "state")
    disk.replace("note", b"x", sync=False)
    disk.append("log", b"x", sync=False)
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "state").iterdir())
    disk.close()


def test_an_unusable_directory_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="file"):
        FolderDisk(tmp_path / "file" / "state")


def test_a_full_disk_is_a_disk_error() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full to write to")
    disk = FolderDisk.__new__(FolderDisk)
    disk._path = Path("/dev")
    disk._lock = -1
    disk._appending = None
    with pytest.raises(DiskError, match="No space left"):
        disk.append("full", b"x", sync=False)
    disk.close()
