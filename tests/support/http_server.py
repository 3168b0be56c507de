"""A server on the loopback interface that sends prepared responses."""

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OK = b"HTTP/1.1 200 OK\r\nX-Kind: test\r\nContent-Length: 2\r\n\r\nhi"
Reply = Callable[[bytes], bytes]


class Server(socketserver.ThreadingTCPServer):
    """A server that records what it receives and sends what `reply` returns."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.requests: list[bytes] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            received += self.request.recv(65536)
        self.server.requests.append(received)
        self.request.sendall(self.server.reply(received))


@contextmanager
def serving(reply: bytes | Reply = OK) -> Iterator[Server]:
    with Server(reply if callable(reply) else lambda _: reply) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
