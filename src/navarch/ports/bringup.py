"""The ports for bring-up logs, which show why a machine did not come up."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from navarch.core.bringup import BringUpLog
from navarch.core.ids import NodeId


class BringUpLogs(Protocol):
    """Holds one log for each attempt. Storing one again replaces it."""

    async def keep(self, log: BringUpLog) -> None:
        """Store a log durably; delete the node's oldest logs if there are too many."""

    async def list(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return the logs of a node, oldest first, also of a node that is gone."""


@runtime_checkable
class BringUpApi(Protocol):
    """The API for bring-up logs."""

    async def list_bringups(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return every attempt to set a node's machine up, oldest first."""
