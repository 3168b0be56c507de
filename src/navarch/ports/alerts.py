"""Who is told when something notable happens."""

from typing import Protocol

from navarch.core.event import Recorded


class AlertNotifier(Protocol):
    """Sends alerts to people: Slack, PagerDuty, a log.

    Told of every notable event at least once, in order; `number` tells repetitions apart.
    Raising NotifierError makes it be told again later.
    """

    @property
    def name(self) -> str:
        """The name under which its place in the journal is kept."""
        ...

    async def notify(self, event: Recorded) -> None:
        """Pass on one event."""
        ...
