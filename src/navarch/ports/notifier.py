"""The port that notifies workload systems of changes."""

from typing import Protocol, runtime_checkable

from navarch.core.ids import NodeId


class WorkloadNotifier(Protocol):
    """Requests a workload system to move work off nodes. Every call may be repeated."""

    @property
    def name(self) -> str:
        """The name used in logs."""

    async def cordon(self, node: NodeId, reason: str) -> None:
        """Start no new work on `node`; running work continues."""

    async def uncordon(self, node: NodeId) -> None:
        """Start work on `node` again."""

    async def drain(self, node: NodeId, reason: str) -> None:
        """Move the work on `node` elsewhere."""

    async def is_drained(self, node: NodeId) -> bool:
        """Return whether no work is left on `node` that would be lost with it."""


@runtime_checkable
class ReportsNodes(Protocol):
    """An ability: the workload system itself observes the nodes on which it runs work."""

    async def node_alive(self, node: NodeId) -> bool | None:
        """Return True if its own agent on `node` has reported lately, such as a kubelet.

        None if it does not know the node; raise NotifierError if it cannot be reached.
        """
