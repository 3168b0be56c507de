"""What a replica answers by itself: probes and metrics of its own process."""

from collections.abc import Awaitable, Callable, Iterator

from navarch.api.auth import Authenticator, Credentials, headers_in, identify
from navarch.api.http.exchange import TEXT, Refusal, Reply, Scope, Send, send_reply
from navarch.api.http.scrape import Scrapes
from navarch.core.errors import UnauthenticatedError
from navarch.ports.clock import Clock

WITHIN_S = 30.0


class ReplicaProbes:
    """Answers `/healthz`, `/readyz` and `/metrics` of a replica that does not lead."""

    def __init__(
        self,
        clock: Clock,
        *,
        missing: Callable[[], Awaitable[str | None]],
        metrics: Callable[[], Iterator[bytes]],
        auth: Authenticator,
        public_metrics: Callable[[], bool],
    ) -> None:
        """`missing` returns what is not ready, or None.

        `auth` recognizes the operators' token: only the leader holds the other tokens.
        """
        self._missing = missing
        self._scrapes = Scrapes(clock, metrics, within_s=WITHIN_S)
        self._auth = auth
        self._public_metrics = public_metrics

    async def answer(self, scope: Scope, send: Send) -> bool:
        """Answer a request if it concerns this process; return whether it does."""
        path, head_only = scope["raw_path"], scope["method"] == "HEAD"
        if path not in (b"/healthz", b"/readyz", b"/metrics"):
            return False
        if scope["method"] not in ("GET", "HEAD"):
            text = f"use GET, not {scope['method']}"
            raise Refusal(405, "invalid_argument", text, headers=((b"allow", b"GET, HEAD"),))
        if path == b"/metrics":
            self._check_scrape(scope)
            await self._scrapes.send(send, head_only=head_only)
            return True
        missing = None if path == b"/healthz" else await self._missing()
        body = b"ok" if path == b"/healthz" else (missing or "ready").encode()
        reply = Reply(body=body, content_type=TEXT, status=200 if missing is None else 503)
        await send_reply(send, reply, head_only=head_only)
        return True

    def _check_scrape(self, scope: Scope) -> None:
        if self._public_metrics():
            return
        try:
            identify(self._auth, Credentials(headers=headers_in(scope["headers"])))
        except UnauthenticatedError as error:
            text = "a replica that does not lead serves its metrics with the operators' token only"
            raise Refusal(401, "unauthenticated", text) from error
