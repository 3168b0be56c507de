"""Read single values from files in `/proc` and `/sys`."""

import os
from pathlib import Path

from navarch.ports.host import HostError


def read_text(path: Path) -> str:
    """Return a file's text; raise HostError if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise HostError(f"{path}: {os.strerror(error.errno or 0)}") from error


def word(path: Path) -> str:
    """Return a file's text without surrounding space; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def number(path: Path) -> int:
    """Return the number in a file; zero if there is none."""
    text = word(path)
    return int(text) if text.isdecimal() else 0


def names(path: Path) -> list[str]:
    """Return the sorted names in a folder; empty if it cannot be read."""
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []
