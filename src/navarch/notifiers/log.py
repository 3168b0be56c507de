"""Notifiers that only write a log line: the defaults."""

import structlog

from navarch.core.event import Recorded
from navarch.core.ids import NodeId

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


class LogAlerts:
    """Writes alerts to the server's log."""

    name = "log"

    async def notify(self, event: Recorded) -> None:
        """Log the alert."""
        alert = event.event
        log.warning("alert", about=alert.about, kind=alert.kind, reason=alert.reason)
