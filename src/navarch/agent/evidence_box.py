"""Bundles on disk, until the control plane has them."""

import msgspec

from navarch.agent.disk import Disk
from navarch.core.evidence import Evidence

PREFIX = "evidence-"
KEPT_MAX = 8
"""The latest; each may be most of a megabyte."""


class EvidenceBox:
    """Keeps bundles through restarts of the agent, and of the machine."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._names = sorted(name for name in disk.sizes() if name.startswith(PREFIX))
        last = self._names[-1].removeprefix(PREFIX) if self._names else "0"
        self._next = int(last) + 1 if last.isdecimal() else 1

    def add(self, evidence: Evidence) -> None:
        """Keep one more."""
        name = f"{PREFIX}{self._next:010d}"
        self._next += 1
        self._disk.replace(name, msgspec.json.encode(evidence), sync=True)
        self._names.append(name)
        while len(self._names) > KEPT_MAX:
            self._disk.remove(self._names.pop(0))

    def oldest(self) -> tuple[str, Evidence] | None:
        """Return the bundle to send next and the name it is kept under."""
        while self._names:
            name = self._names[0]
            try:
                return name, msgspec.json.decode(self._disk.read(name) or b"", type=Evidence)
            except msgspec.DecodeError:
                self.drop(name)
        return None

    def drop(self, name: str) -> None:
        """Let go of one."""
        self._names = [kept for kept in self._names if kept != name]
        self._disk.remove(name)
