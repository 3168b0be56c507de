"""Evidence and bring-up logs are deleted by age and by size, a few folders at a time."""

import asyncio
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from navarch.clock import ThreadOffload
from navarch.stores.evidence import SWEPT_AT_ONCE, AgingFolder
from navarch.testing.worlds import NOW

LARGE = 1_000_000


@pytest.fixture
def files(tmp_path: Path) -> Iterator[AgingFolder]:
    offload = ThreadOffload("test")
    yield AgingFolder(tmp_path, offload)
    offload.close()


def write(folder: Path, name: str, *, days: int, size: int = 10) -> Path:
    """Write a file of that age."""
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"x" * size)
    at = (NOW - timedelta(days=days)).timestamp()
    os.utime(file, (at, at))
    return file


def sweep(files: AgingFolder, *, bytes_max: int = LARGE) -> int:
    """Delete what is older than 90 days; return the number of pieces."""

    async def story() -> int:
        pieces = 1
        while await files.prune(NOW - timedelta(days=90), bytes_max=bytes_max):
            pieces += 1
        return pieces

    return asyncio.run(story())


def test_files_that_are_due_are_deleted_with_the_folders_that_they_leave_empty(
    files: AgingFolder, tmp_path: Path
) -> None:
    kept = write(tmp_path, "na/new.json", days=89)
    write(tmp_path, "na/old.json", days=91)
    write(tmp_path, "nb/old.json", days=91)
    write(tmp_path, "nb/old.json.new", days=91)  # of a crash while it was written

    sweep(files)

    assert sorted(tmp_path.rglob("*")) == [kept.parent, kept]


def test_the_oldest_files_are_deleted_until_the_rest_fits(
    files: AgingFolder, tmp_path: Path
) -> None:
    for days in range(1, 11):
        write(tmp_path, f"n{days % 3}/{days}.json", days=days, size=100)

    sweep(files, bytes_max=450)

    assert sorted(int(file.stem) for file in tmp_path.rglob("*.json")) == [1, 2, 3, 4]


def test_a_large_folder_is_swept_in_pieces_and_once_more_after_each_sweep(
    files: AgingFolder, tmp_path: Path
) -> None:
    for number in range(2 * SWEPT_AT_ONCE + 1):
        write(tmp_path, f"n{number:03}/old.json", days=91)

    assert sweep(files) == 3
    assert not list(tmp_path.iterdir())
    write(tmp_path, "n0/old.json", days=91)
    assert sweep(files) == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_that_does_not_exist_has_nothing_to_delete(tmp_path: Path) -> None:
    offload = ThreadOffload("test")
    assert sweep(AgingFolder(tmp_path / "evidence", offload)) == 1
    offload.close()
