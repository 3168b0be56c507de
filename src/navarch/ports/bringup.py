"""Bring-up logs: written by the control plane, read by whoever asks why a machine did not come."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from navarch.core.bringup import BringUpLog
from navarch.core.ids import NodeId


class BringUpLogs(Protocol):
    """Keeps one log for each attempt. Keeping one again replaces it."""

    async def keep(self, log: BringUpLog) -> None:
        """Keep a log durably, and let go of the node's oldest where there are too many."""
        ...

    async def list(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return the logs of a node, oldest first. A node that is gone keeps its own."""
        ...


@runtime_checkable
class BringUpApi(Protocol):
    """What operators may ask about bring-up."""

    async def list_bringups(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return every attempt to set a node's machine up, oldest first."""
        ...
