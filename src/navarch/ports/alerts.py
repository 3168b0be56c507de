"""The port for alerts."""

from typing import Protocol

from navarch.core.event import Recorded


class AlertNotifier(Protocol):
    """Sends alerts to people: Slack, PagerDuty, a log.

    Receives every notable event at least once, in order; repetitions have the same `number`.
    After a NotifierError the event is sent again later.
    """

    @property
    def name(self) -> str:
        """The name of its cursor in the journal."""

    async def notify(self, event: Recorded) -> None:
        """Send one event."""
