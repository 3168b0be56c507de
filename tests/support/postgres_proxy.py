"""A TCP proxy in front of PostgreSQL that loses connections at a chosen message."""

import socket
import threading
from contextlib import suppress


class CuttingProxy:
    """Forwards connections to a port; cuts one before or after a message of the client.

    It parses the protocol, so that a cut can fall between any two messages of one packet. The
    client does not receive what the server replies after a cut.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.away = False
        """Whether new connections are refused."""
        self.messages = 0
        """How many messages of clients were forwarded, or cut, since `arm`."""
        self._cut_at: int | None = None
        self._after = False
        self._pause = False
        self._turn = threading.Lock()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, cut_at: int | None, *, after: bool = False, pause: bool = False) -> None:
        """Cut the connection at that message from now on, before or after it is forwarded.

        With `pause`, nothing more is forwarded and the connection stays, until `cut` ends it.
        """
        with self._turn:
            self._cut_at, self._after, self._pause, self.messages = cut_at, after, pause, 0

    def cut(self) -> None:
        """Cut every connection now."""
        for each in self._sockets:
            _end(each)
        self._sockets.clear()

    def close(self) -> None:
        _end(self._listener)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.away:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets += [client, server]
            threading.Thread(target=self._to_server, args=(client, server), daemon=True).start()
            threading.Thread(target=_to_client, args=(client, server), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), client, server, client.makefile("rb") as stream:
            start = stream.read(4)  # the start-up message has a length, but no type
            if len(start) < 4:
                return  # the client, or `cut`, closed the connection before its first message
            server.sendall(start + stream.read(int.from_bytes(start, "big") - 4))
            while len(head := stream.read(5)) == 5:
                message = head + stream.read(int.from_bytes(head[1:], "big") - 4)
                with self._turn:
                    self.messages += 1
                    cut = self.messages == self._cut_at
                    paused = cut and self._pause
                if paused:
                    while client.recv(65536):
                        pass
                    break
                if cut:
                    _end(client)
                if not cut or self._after:
                    server.sendall(message)
                if cut:
                    break
            # The server reads what was sent, then the end.
            server.shutdown(socket.SHUT_WR)
            while server.recv(65536):
                pass


def _to_client(client: socket.socket, server: socket.socket) -> None:
    with suppress(OSError):
        while data := server.recv(65536):
            client.sendall(data)
    _end(client)


def _end(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
