"""A TCP path between two processes that can be cut and frozen."""

import asyncio
import socket
from contextlib import suppress
from enum import StrEnum


class Path(StrEnum):
    """What a link does with data."""

    OPEN = "open"
    CUT = "cut"
    """Connections are reset, and new ones too."""
    FROZEN = "frozen"
    """Connections stay open and new ones are accepted, but nothing passes."""


class Link:
    """Forwards the connections to a port of its own to another port."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._path = Path.OPEN
        self._moving = asyncio.Event()
        self._moving.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.local_ports: set[int] = set()
        """The ports from which its connections reach the target."""
        self.delivered = 0
        """How many bytes the target was sent."""

    async def open(self) -> None:
        """Begin to accept connections."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def become(self, path: Path) -> None:
        """Cut, freeze or mend the link."""
        self._path = path
        if path is Path.FROZEN:
            self._moving.clear()
            return
        if path is Path.CUT:
            for writer in list(self._writers):
                _reset(writer)
        self._moving.set()

    async def close(self) -> None:
        """End all connections."""
        self.become(Path.CUT)
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        beyond: asyncio.StreamWriter | None = None
        port = 0
        try:
            await self._moving.wait()
            if self._path is Path.CUT:
                return
            back, beyond = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(beyond)
            port = beyond.get_extra_info("sockname")[1]
            self.local_ports.add(port)
            for each in (writer, beyond):
                _undelayed(each)
            await asyncio.gather(self._pump(reader, beyond, counted=True), self._pump(back, writer))
        except OSError:
            pass  # The target is down, or an end was reset: both ends are.
        finally:
            self.local_ports.discard(port)
            for each in filter(None, (writer, beyond)):
                self._writers.discard(each)
                _reset(each)

    @property
    def frozen(self) -> bool:
        """Whether it holds back what it was sent."""
        return self._path is Path.FROZEN

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool = False
    ) -> None:
        while data := await reader.read(65536):
            await self._moving.wait()
            self.delivered += len(data) if counted else 0
            writer.write(data)
            await writer.drain()
        await self._moving.wait()
        with suppress(OSError, RuntimeError):
            writer.write_eof()


def _undelayed(writer: asyncio.StreamWriter) -> None:
    socket_ = writer.get_extra_info("socket")
    if socket_ is not None:
        socket_.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
