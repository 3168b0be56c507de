"""Notifiers that write to the log, or call several others."""

from collections.abc import Sequence

import structlog

from navarch.core.ids import NodeId
from navarch.ports.notifier import WorkloadNotifier

log = structlog.get_logger(__name__)


class LogWorkloads:
    """No workload system: every node counts as drained."""

    name = "log"

    async def cordon(self, node: NodeId, reason: str) -> None:
        """Log the cordon."""
        log.info("workloads.cordon", node=node, reason=reason)

    async def uncordon(self, node: NodeId) -> None:
        """Log the end of the cordon."""
        log.info("workloads.uncordon", node=node)

    async def drain(self, node: NodeId, reason: str) -> None:
        """Log the drain."""
        log.info("workloads.drain", node=node, reason=reason)

    async def is_drained(self, node: NodeId) -> bool:
        """Return True: no known work runs anywhere."""
        del node
        return True


class CombinedWorkloads:
    """Notifies all of them; a node is drained when all of them report it as drained.

    A call that fails halfway is repeated from the start, which every notifier allows.
    """

    def __init__(self, notifiers: Sequence[WorkloadNotifier]) -> None:
        self._notifiers = notifiers
        self.name = "+".join(notifier.name for notifier in notifiers)

    async def cordon(self, node: NodeId, reason: str) -> None:
        """Start nothing new on `node`."""
        for notifier in self._notifiers:
            await notifier.cordon(node, reason)

    async def uncordon(self, node: NodeId) -> None:
        """Start work on `node` again."""
        for notifier in self._notifiers:
            await notifier.uncordon(node)

    async def drain(self, node: NodeId, reason: str) -> None:
        """Move the work on `node` elsewhere."""
        for notifier in self._notifiers:
            await notifier.drain(node, reason)

    async def is_drained(self, node: NodeId) -> bool:
        """Return whether nothing runs on `node`."""
        for notifier in self._notifiers:
            if not await notifier.is_drained(node):
                return False
        return True
