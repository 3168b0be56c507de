"""Files that are replaced as a whole: readers see the old file or the new one, never a part."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


def write_whole(path: Path, data: bytes) -> None:
    """Replace the file at `path` with `data`, durably. Blocking."""
    scratch = path.with_name(path.name + ".new")
    with scratch.open("wb") as file:
        file.write(data)
        file.flush()
        os.fdatasync(file.fileno())
    scratch.replace(path)


def read_whole(path: Path) -> bytes | None:
    """Return the contents of the file at `path`, or None if it does not exist. Blocking."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def read_records(files: Iterable[Path], kind: type[T]) -> list[T]:
    """Return the records in JSON `files`, except those that cannot be read. Blocking."""
    found: list[T] = []
    for file in files:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            found.append(msgspec.json.decode(file.read_bytes(), type=kind))
    return found
