"""Alerts in the log of the server."""

import structlog

from navarch.core.alert import AlertMessage
from navarch.notifiers.alerts.text import describe

log = structlog.get_logger(__name__)


class LogChannel:
    """Writes alerts to the server's log."""

    def __init__(self, name: str = "log") -> None:
        self.name = name

    async def send(self, message: AlertMessage) -> str:
        """Log the message."""
        write = log.warning if message.firing else log.info
        write(
            "alert",
            action=str(message.action),
            title=message.title,
            group=message.group,
            alerts=describe(message),
            id=message.id,
        )
        return "written to the log"
