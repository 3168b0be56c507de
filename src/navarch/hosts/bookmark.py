"""Where in the kernel's log an agent has got to."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from navarch.ports.host import HostError


@dataclass(slots=True)
class MemoryBookmark:
    """Forgets with its process: for tests and simulated machines."""

    boot_id: str = ""
    sequence: int = -1

    def load(self, boot_id: str) -> int:
        """Return what was saved for this boot."""
        return self.sequence if boot_id == self.boot_id else -1

    def save(self, boot_id: str, sequence: int) -> None:
        """Remember."""
        self.boot_id, self.sequence = boot_id, sequence


class FileBookmark:
    """One small file, written anew each time.

    Not synced: a power cut ends the boot, and with it the numbers.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self, boot_id: str) -> int:
        """Return what was saved for this boot; a file that makes no sense was for another."""
        try:
            kept = json.loads(self._path.read_bytes())
            return int(kept["sequence"]) if kept["boot_id"] == boot_id else -1
        except (OSError, ValueError, KeyError, TypeError):
            return -1

    def save(self, boot_id: str, sequence: int) -> None:
        """Write the file, all at once."""
        new = self._path.with_name(self._path.name + ".part")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new.write_text(json.dumps({"boot_id": boot_id, "sequence": sequence}))
            os.replace(new, self._path)
        except OSError as error:
            raise HostError(f"{self._path}: {error.strerror}") from error
