"""What the local clouds have in common: a socket, troubles on demand, and a clock of their own."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Told:
    """One answer."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


LOSE_REQUEST = "lose request"
LOSE_ANSWER = "lose answer"

Trouble = str | Told | None
"""A request lost before its effect, one whose answer is lost, an answer in place of the effect."""


@dataclass
class Wire:
    """What was asked of a local cloud, and what goes wrong on the way."""

    trouble: Callable[[Asked], Trouble] = lambda _: None
    asked: list[Asked] = field(default_factory=list)

    def calls(self, method: str, part: str) -> list[Asked]:
        return [one for one in self.asked if one.method == method and part in one.path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    answer: ClassVar[Callable[[Asked], Told]]
    wire: ClassVar[Wire]
    turn: ClassVar[threading.Lock]

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, path, query, headers, body)
        with type(self).turn:
            type(self).wire.asked.append(asked)
            trouble = type(self).wire.trouble(asked)
            if trouble == LOSE_REQUEST:
                self._hang_up()
                return
            told = trouble if isinstance(trouble, Told) else type(self).answer(asked)
        if trouble == LOSE_ANSWER:
            self._hang_up()
            return
        self.send_response(told.status)
        for name, value in {"Content-Type": "application/json", **told.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(told.body)))
        self.end_headers()
        self.wfile.write(told.body)

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815 - the library's names

    def _hang_up(self) -> None:
        """Reset the connection, as a load balancer does that has lost its server."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.connection.close()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def served(answer: Callable[[Asked], Told], wire: Wire) -> Iterator[str]:
    """Serve `answer` on loopback; yields the address."""

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
