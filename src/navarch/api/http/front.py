"""What answers at the HTTP port: the application of a replica, and once it leads its own."""

import asyncio
from collections import Counter
from collections.abc import MutableMapping
from typing import Any, Protocol

from navarch.api.http.direct import RememberedHead
from navarch.api.http.exchange import CLOSE, Receive, Reply, Scope, Send


class HttpAnswers(Protocol):
    """An application, with the short way for heartbeats."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

    def close(self) -> None:
        """End the streamed replies."""

    def remember(self, data: bytes, scope: Scope) -> RememberedHead | None:
        """Return the head of the one request in `data` if it is a heartbeat."""

    def answer_again(self, head: RememberedHead, body: bytes) -> Reply | None:
        """Return the reply to another heartbeat with the same head, None to parse it."""


class HttpFront:
    """Serves with one application after the other, on the same connections."""

    def __init__(self, app: HttpAnswers) -> None:
        self._app = app
        self._running: Counter[HttpAnswers] = Counter()
        self._ended = asyncio.Event()
        self.draining = False
        """Whether each reply closes its connection, so that clients go to another replica."""

    def become(self, app: HttpAnswers) -> None:
        """Serve with another application from now on; end the streams of the one before."""
        before, self._app = self._app, app
        before.close()

    def close(self) -> None:
        """End the streamed replies."""
        self._app.close()

    async def ended(self, app: HttpAnswers) -> None:
        """Return when an application that serves no longer has answered its requests."""
        while self._running[app]:
            self._ended.clear()
            await self._ended.wait()

    def remember(self, data: bytes, scope: Scope) -> RememberedHead | None:
        """Return the head of a heartbeat that may be answered again."""
        return self._app.remember(data, scope)

    def answer_again(self, head: RememberedHead, body: bytes) -> Reply | None:
        """Return the reply to a heartbeat with a remembered head."""
        return None if self.draining else self._app.answer_again(head, body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        app = self._app
        self._running[app] += 1
        try:
            await app(scope, receive, _closing(send) if self.draining else send)
        finally:
            self._running[app] -= 1
            self._ended.set()


def _closing(send: Send) -> Send:
    async def closing(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            others = [pair for pair in message["headers"] if pair[0] != CLOSE[0][0]]
            message = {**message, "headers": [*others, *CLOSE]}
        await send(message)

    return closing
