"""The API of alerts, silences and channels."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from navarch.core.alert import Alert, AlertSilence, DeliveryAttempt
from navarch.core.ids import SilenceId


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertView:
    """An alert as operators see it."""

    alert: Alert
    silenced_by: SilenceId | None = None
    """The silence that keeps it from being sent now."""
    channels: tuple[str, ...] = ()
    """The channels that have received it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelView:
    """A channel with the state of its deliveries."""

    name: str
    kind: str
    waiting: int = 0
    """Messages that it has not received yet."""
    failures: int = 0
    """Failed attempts in a row."""
    error: str = ""
    retry_at: datetime | None = None
    """When the next message is sent, if one is waiting."""
    delivered_at: datetime | None = None
    """When it last received a message, as far as the delivery log reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryView:
    """One attempt to send a message."""

    channel: str
    group: str
    attempt: DeliveryAttempt


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceRequest:
    """Alerts that must not be sent for some time. Patterns may contain `*`; one is required."""

    author: str
    seconds: float
    """How long it lasts."""
    reason: str = ""
    cause: str = ""
    pool: str = ""
    team: str = ""
    subject: str = ""


@runtime_checkable
class AlertApi(Protocol):
    """The API of alerts, served in-process and over HTTP.

    Raises NotFoundError for an unknown name, InvalidError for an invalid request,
    NotPossibleError for one that does not fit the present state.
    """

    async def list_alerts(self, *, ended: bool = False) -> Sequence[AlertView]:
        """Return the alerts that fire, the most urgent first, and with `ended` those that ended."""
        ...

    async def list_silences(self, *, expired: bool = False) -> Sequence[AlertSilence]:
        """Return the silences that apply, and with `expired` those of the last week."""
        ...

    async def silence(self, request: SilenceRequest) -> AlertSilence:
        """Silence alerts for some time."""
        ...

    async def end_silence(self, silence: SilenceId, *, author: str) -> AlertSilence:
        """End a silence now."""
        ...

    async def list_channels(self) -> Sequence[ChannelView]:
        """Return every channel."""
        ...

    async def list_deliveries(self, *, channel: str | None = None) -> Sequence[DeliveryView]:
        """Return the latest attempts to send messages, latest first."""
        ...

    async def send_test(self, channel: str, *, author: str) -> str:
        """Send a test message and return the answer; NotPossibleError if it was not accepted."""
        ...
