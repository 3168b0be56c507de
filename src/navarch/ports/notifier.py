"""What Navarch asks of the system that runs work on the nodes: Kubernetes, Slurm, Ray."""

from typing import Protocol

from navarch.core.ids import NodeId


class WorkloadNotifier(Protocol):
    """Tells a workload system to step aside. Every call may be made again."""

    @property
    def name(self) -> str:
        """The name used in logs."""
        ...

    async def cordon(self, node: NodeId, reason: str) -> None:
        """Start no new work on `node`; what runs there may go on."""
        ...

    async def uncordon(self, node: NodeId) -> None:
        """Start work on `node` again."""
        ...

    async def drain(self, node: NodeId, reason: str) -> None:
        """Move the work on `node` elsewhere."""
        ...

    async def is_drained(self, node: NodeId) -> bool:
        """Return whether nothing runs on `node` that would be lost with it."""
        ...
