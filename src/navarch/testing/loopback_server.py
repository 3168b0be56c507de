"""An HTTP server on loopback for local clouds, with faults on demand."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from navarch.ports.provider import Provider
from navarch.sim.kernel.clock import SimClock
from navarch.testing.provider_contract import ProviderContract


@dataclass(frozen=True)
class HttpRequest:
    """One received request."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class HttpResponse:
    """One response."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


LOSE_REQUEST = "lose request"
LOSE_ANSWER = "lose answer"

Fault = str | HttpResponse | None
"""LOSE_REQUEST drops the request before its effect; LOSE_ANSWER drops the response after it; a
response replaces the effect."""


@dataclass
class Wire:
    """The requests that a local cloud received, and the faults on their way."""

    fault: Callable[[HttpRequest], Fault] = lambda _: None
    requests: list[HttpRequest] = field(default_factory=list)

    def calls(self, method: str, part: str) -> list[HttpRequest]:
        return [one for one in self.requests if one.method == method and part in one.path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    answer: ClassVar[Callable[[HttpRequest], HttpResponse]]
    wire: ClassVar[Wire]
    turn: ClassVar[threading.Lock]

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = HttpRequest(self.command, path, query, headers, body)
        with type(self).turn:
            type(self).wire.requests.append(request)
            fault = type(self).wire.fault(request)
            if fault == LOSE_REQUEST:
                self._hang_up()
                return
            response = fault if isinstance(fault, HttpResponse) else type(self).answer(request)
        if fault == LOSE_ANSWER:
            self._hang_up()
            return
        self.send_response(response.status)
        for name, value in {"Content-Type": "application/json", **response.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body)

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - the library's names

    def _hang_up(self) -> None:
        """Reset the connection, as a load balancer does when its server fails."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.connection.close()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def serve(answer: Callable[[HttpRequest], HttpResponse], wire: Wire) -> Iterator[str]:
    """Serve `answer` on loopback and yield the address."""

    class Handler(_Handler):
        pass

    Handler.answer = staticmethod(answer)
    Handler.wire = wire
    Handler.turn = threading.Lock()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class LoopbackContract(ProviderContract):
    """Provider contract with requests and responses that are lost on the wire."""

    wire: Wire
    lag_s: ClassVar[float]

    def is_purchase(self, request: HttpRequest) -> bool:
        raise NotImplementedError

    def is_termination(self, request: HttpRequest) -> bool:
        raise NotImplementedError

    def lose_answers(self, provider: Provider, *, effect: bool) -> bool:
        del provider
        self.wire.fault = lambda request: _lost(effect) if self.is_purchase(request) else None
        return True

    def lose_terminations(self, provider: Provider, *, effect: bool) -> bool:
        del provider
        self.wire.fault = lambda request: _lost(effect) if self.is_termination(request) else None
        return True

    def lag(self, provider: Provider) -> bool:
        del provider
        return True

    def recover(self, provider: Provider) -> None:
        del provider
        self.wire.fault = lambda _: None

    async def settle(self) -> None:
        await SimClock().sleep(self.lag_s)


def _lost(effect: bool) -> Fault:
    return LOSE_ANSWER if effect else LOSE_REQUEST
