"""Bring-up logs, for whoever asks."""

from collections.abc import Sequence

from navarch.core.bringup import BringUpLog
from navarch.core.errors import NotFoundError
from navarch.core.ids import NodeId
from navarch.ports.bringup import BringUpLogs
from navarch.ports.store import Store


class BringUpService:
    """Shows how machines were set up."""

    def __init__(self, store: Store, logs: BringUpLogs) -> None:
        self._store = store
        self._logs = logs

    async def list_bringups(self, node: NodeId) -> Sequence[BringUpLog]:
        """Return every attempt on a node's machine; a node that is gone keeps its own."""
        kept = await self._logs.list(node)
        if not kept and node not in self._store.fleet().nodes:
            raise NotFoundError(f"no node {node}")
        return kept
