"""Requests to the services of channels, and what their answers mean."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from navarch.core.errors import AlertDeliveryError
from navarch.http.blocking import request
from navarch.http.message import HttpError, Response
from navarch.notifiers.alerts.text import one_line, shorten
from navarch.ports.clock import Clock, Offload

ANSWER_MAX = 300
"""How much of an answer the delivery log keeps."""

MASK = "***"

BUSY = (408, 425, 429)
"""Client errors that pass by themselves."""


class ServicePost:
    """Posts JSON to one service. No error and no answer contains one of its secrets."""

    def __init__(
        self, clock: Clock, offload: Offload, *, timeout: timedelta, secrets: Sequence[str]
    ) -> None:
        self._clock = clock
        self._offload = offload
        self._timeout_s = timeout.total_seconds()
        # The longest first: one may be part of another.
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)

    async def send(self, url: str, body: bytes, headers: Mapping[str, str] | None = None) -> str:
        """Return status and body of a successful answer; raise AlertDeliveryError otherwise."""
        whole = {"Content-Type": "application/json", "User-Agent": "navarch", **(headers or {})}
        try:
            response = await self._offload.run(
                lambda: request(
                    "POST",
                    url,
                    headers=whole,
                    body=body,
                    timeout_s=self._timeout_s,
                    use_proxy=True,
                )
            )
        except HttpError as error:
            # The cause is dropped: it may contain the URL, which may be secret.
            raise AlertDeliveryError(self._masked(str(error))) from None
        answer = self._masked(f"{response.status} {response.body.decode(errors='replace')}".strip())
        if 200 <= response.status < 300:
            return answer
        if 300 <= response.status < 400:
            answer = f"{response.status}: the URL has moved; configure the new one"
        is_busy = response.status >= 500 or response.status in BUSY
        raise AlertDeliveryError(
            answer,
            refused=not is_busy,
            retry_after=_retry_after(response, self._clock.now()) if is_busy else None,
        )

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return shorten(one_line(text), ANSWER_MAX)


def _retry_after(response: Response, now: datetime) -> timedelta | None:
    text = response.headers.get("retry-after", "").strip()
    if text.isdecimal():
        return timedelta(seconds=min(int(text), 86400))
    try:
        return max(parsedate_to_datetime(text) - now, timedelta(0))
    except (ValueError, TypeError):
        return None
