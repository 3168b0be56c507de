"""Prometheus Alertmanager, through its API v2. It groups, silences and repeats by itself."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from navarch.core.alert import Alert, AlertAction, AlertMessage, Severity
from navarch.notifiers.alerts.http import ServicePost
from navarch.ports.clock import Clock, Offload

FIRES_FOR = timedelta(hours=1)
"""When Alertmanager resolves an alert that is not sent again. Channels repeat more often."""

REPEAT = timedelta(minutes=5)
"""How often alerts are sent again by default: Alertmanager loses them when it restarts."""


class AlertmanagerChannel:
    """Posts alerts to one Alertmanager."""

    def __init__(
        self,
        clock: Clock,
        offload: Offload,
        *,
        name: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        timeout: timedelta = timedelta(seconds=10),
    ) -> None:
        """`url` is that of Alertmanager itself, without `/api/v2`."""
        self.name = name
        self._clock = clock
        self._url = url.rstrip("/") + "/api/v2/alerts"
        self._headers = dict(headers or {})
        secrets = list(self._headers.values())
        self._post = ServicePost(clock, offload, timeout=timeout, secrets=secrets)

    async def send(self, message: AlertMessage) -> str:
        """Post the alerts of `message`. A test ends at once."""
        body = msgspec.json.encode(list(render(message, self._clock.now())))
        return await self._post.send(self._url, body, self._headers)


def render(message: AlertMessage, now: datetime) -> Iterator[dict[str, object]]:
    """Yield the alerts of a message.

    The severity is a label. An alert that has escalated ends with its lower severities.
    """
    for alert in message.alerts:
        fires = alert.firing and message.action is not AlertAction.TEST
        yield _alert(message, alert, alert.severity, now + FIRES_FOR if fires else now)
        if alert.version > 1:
            for severity in list(Severity)[: alert.severity.rank]:
                yield _alert(message, alert, severity, now)


def _alert(
    message: AlertMessage, alert: Alert, severity: Severity, ends_at: datetime
) -> dict[str, object]:
    labels = {
        "alertname": alert.cause,
        "severity": str(severity),
        "subject": str(alert.subject),
        "pool": alert.pool or "",
        "team": alert.team,
        "cluster": message.cluster,
    }
    # A test that begins and ends at one instant would not be accepted.
    starts_at = min(alert.began_at or alert.seen_at, ends_at - timedelta(milliseconds=1))
    return {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {"summary": alert.summary, "remedy": alert.remedy},
        "startsAt": starts_at,
        "endsAt": ends_at,
    }
