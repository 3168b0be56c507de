"""A URL that receives alerts as JSON, signed as Standard Webhooks specifies.

https://www.standardwebhooks.com: libraries in most languages verify the three headers.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from datetime import timedelta

import msgspec

from navarch.core.alert import AlertMessage
from navarch.notifiers.alerts.http import ServicePost
from navarch.ports.clock import Clock, Offload

PREFIX = "whsec_"
"""How a secret in base64 begins."""


class WebhookChannel:
    """Posts each message to one URL."""

    def __init__(
        self,
        clock: Clock,
        offload: Offload,
        *,
        name: str,
        url: str,
        secret: str = "",
        headers: Mapping[str, str] | None = None,
        timeout: timedelta = timedelta(seconds=10),
    ) -> None:
        self.name = name
        self._clock = clock
        self._url = url
        self._key = signing_key(secret)
        self._headers = dict(headers or {})
        secrets = [secret, secret.removeprefix(PREFIX), *self._headers.values()]
        self._post = ServicePost(clock, offload, timeout=timeout, secrets=secrets)

    async def send(self, message: AlertMessage) -> str:
        """Post `message`."""
        body = render(message)
        at_s = str(int(self._clock.now().timestamp()))
        headers = {"webhook-id": message.id, "webhook-timestamp": at_s}
        if self._key:
            signed = b".".join((message.id.encode(), at_s.encode(), body))
            digest = hmac.new(self._key, signed, hashlib.sha256).digest()
            headers["webhook-signature"] = f"v1,{base64.b64encode(digest).decode()}"
        return await self._post.send(self._url, body, {**self._headers, **headers})


def render(message: AlertMessage) -> bytes:
    """Return the JSON of a message."""
    derived = {
        "severity": message.severity,
        "title": message.title,
        "dedup_key": message.dedup_key,
        "firing": len(message.firing),
    }
    return msgspec.json.encode({**derived, **msgspec.structs.asdict(message)})


def signing_key(secret: str) -> bytes:
    """Return the bytes of a secret: base64 after the prefix, and itself without."""
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        return secret.encode()
