"""Files that are replaced as a whole: readers see the old file or the new one, never a part."""

import os
from pathlib import Path


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
