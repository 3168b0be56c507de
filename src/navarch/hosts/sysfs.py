"""Files in `/proc` and `/sys`, read one value at a time."""

import os
from pathlib import Path

from navarch.ports.host import HostError


def read_text(path: Path) -> str:
    """Return a file's text; raise HostError where there is none."""
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise HostError(f"{path}: {os.strerror(error.errno or 0)}") from error


def word(path: Path) -> str:
    """Return what a file says, or nothing where there is no such file."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def number(path: Path) -> int:
    """Return the number in a file, or zero where there is none."""
    text = word(path)
    return int(text) if text.isdecimal() else 0


def names(path: Path) -> list[str]:
    """Return what a folder holds, sorted; nothing where there is no such folder."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
