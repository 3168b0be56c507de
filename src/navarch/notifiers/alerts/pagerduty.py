"""PagerDuty, through the Events API v2. One group of alerts is one incident there."""

import hashlib
from datetime import timedelta

import msgspec

from navarch.core.alert import AlertAction, AlertMessage
from navarch.notifiers.alerts.http import ServicePost
from navarch.notifiers.alerts.text import describe, shorten
from navarch.ports.clock import Clock, Offload

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"

SUMMARY_MAX, KEY_MAX = 1024, 255
"""PagerDuty's limits, in characters."""


class PagerDutyChannel:
    """Triggers, updates and resolves incidents of one service."""

    def __init__(
        self,
        clock: Clock,
        offload: Offload,
        *,
        name: str,
        routing_key: str,
        url: str = EVENTS_URL,
        timeout: timedelta = timedelta(seconds=10),
    ) -> None:
        self.name = name
        self._routing_key = routing_key
        self._url = url
        self._post = ServicePost(clock, offload, timeout=timeout, secrets=[routing_key])

    async def send(self, message: AlertMessage) -> str:
        """Send `message`. A test triggers an incident and resolves it."""
        if message.action is AlertAction.RESOLVE:
            return await self._send(self._event(message, "resolve"))
        answer = await self._send(self._event(message, "trigger"))
        if message.action is AlertAction.TEST:
            return await self._send(self._event(message, "resolve"))
        return answer

    async def _send(self, event: dict[str, object]) -> str:
        return await self._post.send(self._url, msgspec.json.encode(event))

    def _event(self, message: AlertMessage, action: str) -> dict[str, object]:
        event: dict[str, object] = {
            "routing_key": self._routing_key,
            "event_action": action,
            "dedup_key": dedup_key(message),
        }
        return event if action == "resolve" else {**event, **_details(message)}


def dedup_key(message: AlertMessage) -> str:
    """Return the key of the group's incident, which is the same for all of its messages."""
    key = message.dedup_key
    return key if len(key) <= KEY_MAX else hashlib.sha256(key.encode()).hexdigest()


def _details(message: AlertMessage) -> dict[str, object]:
    first = message.alerts[0]
    began = [each.began_at or each.seen_at for each in message.firing or message.alerts]
    return {
        "client": "navarch",
        "payload": {
            "summary": shorten(message.title, SUMMARY_MAX),
            "source": message.cluster,
            "severity": str(message.severity),
            "timestamp": min(began),
            "component": first.pool or str(first.subject),
            "group": message.group,
            "class": first.cause,
            "custom_details": {
                "firing": len(message.firing),
                "alerts": [shorten(line, SUMMARY_MAX) for line in describe(message)],
                "message": message.id,
            },
        },
    }
