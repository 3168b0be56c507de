"""What an agent may do to the machine it runs on, beyond looking at it."""

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
    """Changes the machine. Calls block, end by their deadline, and raise only HostError."""

    def holders(self) -> Sequence[Holder]:
        """Return the processes, other than the agent's own, that have an NVIDIA device open."""
        ...

    def reset_gpus(self, gpus: Sequence[str], *, within_s: float) -> str:
        """Reset GPUs by UUID, all of them if none is named; return what the tool said."""
        ...

    def reboot(self, *, within_s: float) -> None:
        """Ask the operating system to restart. It goes down some time after this returns."""
        ...

    def restart_unit(self, unit: str, *, within_s: float) -> None:
        """Restart a service."""
        ...

    def stop(self, pids: Sequence[int], *, within_s: float) -> None:
        """End processes: politely, and after the deadline not."""
        ...
