"""The HTTP server: uvicorn, with bounds on incomplete requests."""

import asyncio
import re
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import cast

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from navarch.api.http.direct import RememberedHead, ReplyBytes
from navarch.api.http.exchange import CLOSE, PEER_CERTIFICATE, Reply, Scope
from navarch.api.http.front import HttpAnswers
from navarch.api.logins import peer_name
from navarch.core.limits import CONNECTIONS_PER_PEER
from navarch.ports.clock import Clock

HEADER_BYTES_MAX = 2**19
"""Generous, because one read may contain several complete requests and the start of another."""
REQUEST_WITHIN = timedelta(seconds=30)
"""The time limit for receiving a request; a slower one holds memory and a socket."""
SWEEP_S = 5.0
PEERS_LOGGED_MAX = 10
"""The most lines in the log per sweep."""

_HEADERS_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)

_ABSOLUTE = re.compile(rb"[^/?#]*://(?P<host>[^/?#]*)")

log = structlog.get_logger(__name__)


@cache
def connections_per_peer() -> int:
    """Return the limit: half of the files that this process may open, so that none takes all."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(CONNECTIONS_PER_PEER.most, files // 2)


_connections: Counter[str] = Counter()
"""Open connections by peer."""


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with bounds on headers and connections; records when a request began."""

    arriving_since: float | None = None
    _in_headers = False
    _header_bytes = 0
    _peer = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit of the first request, or close one connection too many."""
        super().connection_made(transport)
        self.arriving_since = self.loop.time()
        self._peer = peer_name(self.client[0] if self.client else "")
        _connections[self._peer] += 1
        if _connections[self._peer] > connections_per_peer():
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection no longer."""
        _connections[self._peer] -= 1
        if not _connections[self._peer]:
            del _connections[self._peer]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of the headers, which the parser itself does not bound."""
        super().data_received(data)
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES_MAX:
                self.transport.write(_HEADERS_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        """Start counting."""
        self._in_headers = True
        self.arriving_since = self.loop.time()
        super().on_message_begin()
        peer = self.transport.get_extra_info("peercert")
        if peer:
            self.scope[PEER_CERTIFICATE] = peer  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        """Stop counting, and add the host of a target such as `http://host/path` to the headers.

        That host takes precedence over the Host header (RFC 9112, 3.2.2), so the application must
        check it too, unless both are the same.
        """
        self._in_headers = False
        self._header_bytes = 0
        target = _ABSOLUTE.match(self.url)
        hosts = [value for name, value in self.headers if name == b"host"]
        if target is not None and hosts and hosts[-1] != target["host"]:
            self.headers.append((b"host", target["host"]))
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Reject bytes that cannot be parsed, together with the request before them.

        A wrong length turns a body into the start of another request. The first request was then
        misread, and must not be carried out.
        """
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is not None and not cycle.response_started:
            cycle.disconnected = True
            cycle.message_event.set()
        super().send_400_response(msg)

    def on_message_complete(self) -> None:
        """Record that the request is complete."""
        self.arriving_since = None
        super().on_message_complete()


class HeartbeatProtocol(BoundedProtocol):
    """Answers repeated heartbeats of a connection as it reads them.

    That takes the place of the parser, an ASGI cycle and a task. Everything else goes that way: a
    request with another head or in parts, one behind an unanswered one, and those of a client that
    does not read its replies.
    """

    _app: HttpAnswers
    _replies: ReplyBytes
    _head: RememberedHead | None = None
    _begun = 0
    _is_between_requests = True
    """Whether the parser has read whole requests only."""
    _answered_at = float("-inf")

    def data_received(self, data: bytes) -> None:
        """Answer a repeated heartbeat; leave everything else to the parser."""
        head = self._head
        if head is not None and self._is_idle():
            body = head.body_of(data)
            reply = None if body is None else self._app.answer_again(head, body)
            if reply is not None:
                self._send(reply)
                return
        was_between, begun = self._is_between_requests, self._begun
        self._is_between_requests = False
        super().data_received(data)
        if was_between and self._is_between_requests and self._begun == begun + 1:
            self._head = self._app.remember(data, cast("Scope", self.scope)) or head

    def _is_idle(self) -> bool:
        """Return whether every request so far is answered, and its reply is read."""
        return (
            self._is_between_requests
            and self.cycle.response_complete
            and not self.pipeline
            and not self.flow.write_paused
            and not self.transport.is_closing()
        )

    def _send(self, reply: Reply) -> None:
        self.transport.write(self._replies.render(reply, self.server_state.default_headers))
        self.server_state.total_requests += 1
        self._answered_at = self.loop.time()
        if CLOSE[0] in reply.headers:
            self.transport.close()

    def on_message_begin(self) -> None:
        """Count the requests that the parser reads."""
        self._begun += 1
        self._is_between_requests = False
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """Note that the parser is between two requests."""
        self._is_between_requests = True
        super().on_message_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection unless a heartbeat was answered in the meantime."""
        left_s = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if left_s <= 0:
            super().timeout_keep_alive_handler()
        else:
            self.timeout_keep_alive_task = self.loop.call_later(
                left_s, self.timeout_keep_alive_handler
            )


class HttpServer:
    """Serves one application on one socket, until cancelled."""

    def __init__(
        self,
        clock: Clock,
        app: HttpAnswers,
        *,
        listener: socket.socket,
        heartbeat_interval: timedelta,
        request_within: timedelta = REQUEST_WITHIN,
        stop_within: timedelta = timedelta(seconds=5),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._clock = clock
        self._app = app
        self._listener = listener
        self._request_within_s = request_within.total_seconds()
        # A connection that closes between two heartbeats costs a handshake for each.
        keep_alive_s = max(75, int(3 * heartbeat_interval.total_seconds()))
        self._server = _Server(
            uvicorn.Config(
                app,
                http=protocol_of(app),
                # A peer has one address, that of its connection: a header could name any other.
                proxy_headers=False,
                ws="none",
                lifespan="off",
                loop="none",
                log_config=None,
                # At a lower level, every malformed request would write a line to the log.
                log_level="error",
                access_log=False,
                server_header=False,
                timeout_keep_alive=keep_alive_s,
                timeout_graceful_shutdown=int(stop_within.total_seconds()),
                backlog=4096,
                ssl_context_factory=None if tls is None else lambda *_: tls,
            )
        )

    async def run(self) -> None:
        """Serve until cancelled, then finish the requests in progress."""
        async with asyncio.TaskGroup() as tasks:
            sweeping = tasks.create_task(self._sweep())
            serving = tasks.create_task(self._server.serve(sockets=[self._listener]))
            try:
                await asyncio.shield(serving)
            except asyncio.CancelledError:
                self._app.close()
                self._server.should_exit = True
                await serving
                raise
            finally:
                sweeping.cancel()

    @property
    def started(self) -> bool:
        """Whether the server accepts connections."""
        return bool(self._server.started)

    async def _sweep(self) -> None:
        """Close connections with a request that takes too long to arrive."""
        patience = self._request_within_s
        while True:
            await self._clock.sleep(min(SWEEP_S, patience))
            now = asyncio.get_running_loop().time()
            cut_off: Counter[str] = Counter()
            for connection in tuple(self._server.server_state.connections):
                since = getattr(connection, "arriving_since", None)
                if since is not None and now - since > patience:
                    client = getattr(connection, "client", None)
                    cut_off[str(client[0]) if client else ""] += 1
                    connection.transport.close()
            for peer, connections in cut_off.most_common(PEERS_LOGGED_MAX):
                log.info("http.cut_off", peer=peer, connections=connections)


def protocol_of(
    app: HttpAnswers, kind: type[HeartbeatProtocol] = HeartbeatProtocol
) -> type[HeartbeatProtocol]:
    """Return the protocol of the connections to one application."""
    return type("Connection", (kind,), {"_app": app, "_replies": ReplyBytes()})


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise OSError if that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. Without it, the body of a response waits for the client's
        # acknowledgement of the head, which clients delay by 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
        listener.listen(4096)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
