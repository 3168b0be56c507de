"""The HTTP server: uvicorn, with bounds on what a connection may cost before a request is whole."""

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from navarch.api.http.app import HttpApp
from navarch.ports.clock import Clock

HEADER_BYTES_MAX = 2**19
"""A bound, not a ration: one read may bring several whole requests and the start of another."""
REQUEST_WITHIN = timedelta(seconds=30)
"""How long a request may take to arrive. A slower one is cut off: it holds memory and a socket."""
SWEEP_S = 5.0

_HEADERS_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)

_ABSOLUTE = re.compile(rb"[^/?#]*://(?P<host>[^/?#]*)")

log = structlog.get_logger(__name__)


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with a bound on the size of headers, and a note of when a request began."""

    arriving_since: float | None = None
    _in_headers = False
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a first request soon."""
        super().connection_made(transport)
        self.arriving_since = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Count what comes before a body, which the parser itself would take without end."""
        super().data_received(data)
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES_MAX:
                self.transport.write(_HEADERS_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        """Start the count."""
        self._in_headers = True
        self.arriving_since = self.loop.time()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End the count, and add the host of a target such as `http://host/path` to the headers.

        That host goes before the Host header (RFC 9112, 3.2.2), and the application must not
        miss it. Where both are the same there is nothing to add.
        """
        self._in_headers = False
        self._header_bytes = 0
        target = _ABSOLUTE.match(self.url)
        hosts = [value for name, value in self.headers if name == b"host"]
        if target is not None and hosts and hosts[-1] != target["host"]:
            self.headers.append((b"host", target["host"]))
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, and with it the request that came in the same breath.

        A damaged length turns a body into the start of another request. The first one was not
        meant as it was read, and it must not be carried out behind a refusal.
        """
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is not None and not cycle.response_started:
            cycle.disconnected = True
            cycle.message_event.set()
        super().send_400_response(msg)

    def on_message_complete(self) -> None:
        """Note that the request is whole."""
        self.arriving_since = None
        super().on_message_complete()


class HttpServer:
    """Serves one application on one socket, until cancelled."""

    def __init__(
        self,
        clock: Clock,
        app: HttpApp,
        *,
        listener: socket.socket,
        heartbeat_interval: timedelta,
        request_within: timedelta = REQUEST_WITHIN,
        stop_within: timedelta = timedelta(seconds=5),
    ) -> None:
        self._clock = clock
        self._app = app
        self._listener = listener
        self._request_within_s = request_within.total_seconds()
        # A connection that closed between two heartbeats would cost a handshake for each.
        keep_alive_s = max(75, int(3 * heartbeat_interval.total_seconds()))
        self._server = _Server(
            uvicorn.Config(
                app,
                http=BoundedProtocol,
                ws="none",
                lifespan="off",
                loop="none",
                log_config=None,
                # At the level below, anybody could fill our log with one line per bad request.
                log_level="error",
                access_log=False,
                server_header=False,
                timeout_keep_alive=keep_alive_s,
                timeout_graceful_shutdown=int(stop_within.total_seconds()),
                backlog=4096,
            )
        )

    async def run(self) -> None:
        """Serve; on cancellation let what was begun come to its end."""
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
        """Whether connections are taken."""
        return bool(self._server.started)

    async def _sweep(self) -> None:
        """Cut off requests that do not arrive."""
        patience = self._request_within_s
        while True:
            await self._clock.sleep(min(SWEEP_S, patience))
            now = asyncio.get_running_loop().time()
            for connection in tuple(self._server.server_state.connections):
                since = getattr(connection, "arriving_since", None)
                if since is not None and now - since > patience:
                    log.info("http.cut_off", peer=_peer(connection))
                    connection.transport.close()


class _Server(uvicorn.Server):
    """uvicorn's server, which leaves signals to the process that runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def _peer(connection: object) -> str:
    client = getattr(connection, "client", None)
    return "" if client is None else str(client[0])


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; OSError says why it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. Without, the body of an answer waits for the caller's
        # acknowledgement of its head, which callers hold back for 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((host, port))
        listener.listen(4096)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
