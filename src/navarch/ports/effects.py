"""The port for changes that an agent makes to its machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that has a GPU open."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


class Effects(Protocol):
    """Changes to the machine. Calls block, end by their deadline, and raise only HostError."""

    def holders(self) -> Sequence[Holder]:
        """Return the processes, other than the agent's own, that have an NVIDIA device open."""

    def reset_gpus(self, gpus: Sequence[str], *, within_s: float) -> str:
        """Reset GPUs by UUID, all of them if none is given; return the output of the tool."""

    def reboot(self, *, within_s: float) -> None:
        """Request a restart of the operating system, which begins some time after this returns."""

    def restart_unit(self, unit: str, *, within_s: float) -> None:
        """Restart a service."""

    def stop(self, pids: Sequence[int], *, within_s: float) -> None:
        """Terminate processes, and kill them after the deadline."""
