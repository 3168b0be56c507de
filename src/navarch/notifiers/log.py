"""Notifiers that only write a log line: the defaults."""

import structlog

from navarch.core.event import Recorded
from navarch.core.ids import NodeId

log = structlog.get_logger(__name__)


class LogWorkloads:
    """No workload system to tell: every node counts as empty."""

    name = "log"

    async def cordon(self, node: NodeId, reason: str) -> None:
        """Say so."""
        log.info("workloads.cordon", node=node, reason=reason)

    async def uncordon(self, node: NodeId) -> None:
        """Say so."""
        log.info("workloads.uncordon", node=node)

    async def drain(self, node: NodeId, reason: str) -> None:
        """Say so."""
        log.info("workloads.drain", node=node, reason=reason)

    async def is_drained(self, node: NodeId) -> bool:
        """Nothing that we know of runs anywhere."""
        del node
        return True


class LogAlerts:
    """Writes alerts where the server logs."""

    name = "log"

    async def notify(self, event: Recorded) -> None:
        """Say so."""
        told = event.event
        log.warning("alert", about=told.about, kind=told.kind, reason=told.reason)
