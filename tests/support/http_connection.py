"""A connection to the HTTP server without a socket: bytes in, bytes out."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from navarch.api.http.app import HttpApp
from navarch.api.http.exchange import Reply
from navarch.api.http.server import BoundedProtocol, HeartbeatProtocol, protocol_of

_OPEN: "list[HttpConnection]" = []


@contextmanager
def connections_closed() -> Iterator[None]:
    """Close the connections that are opened in the block; the server counts those of a peer."""
    try:
        yield
    finally:
        while _OPEN:
            _OPEN[-1].close()


TURNS = 20
"""More turns of the event loop than any request in memory takes."""
DATE = [(b"date", b"Thu, 19 Nov 2026 20:30:21 GMT")]


class RecordingTransport(asyncio.Transport):
    """Keeps what the server writes."""

    def __init__(self, certificate: Mapping[str, Any] | None = None) -> None:
        """`certificate` is that of a TLS client, as Python describes it."""
        super().__init__({"peercert": certificate})
        self.written = bytearray()
        self.wrote = asyncio.Event()
        self.is_closed = False
        self.is_read = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep `data`, unless the connection is closed."""
        if not self.is_closed:
            self.written += data
            self.wrote.set()

    def close(self) -> None:
        """Close the connection."""
        self.is_closed = True

    def is_closing(self) -> bool:
        """Return whether it is closed."""
        return self.is_closed

    def pause_reading(self) -> None:
        """Stop reading."""
        self.is_read = False

    def resume_reading(self) -> None:
        """Read again."""
        self.is_read = True


class CountingProtocol(HeartbeatProtocol):
    """Counts the heartbeats that it answers itself."""

    answered = 0

    def _send(self, reply: Reply) -> None:
        self.answered += 1
        super()._send(reply)


class HttpConnection:
    """One connection to an application, over the product's protocol or the plain one."""

    def __init__(
        self,
        app: HttpApp,
        *,
        direct: bool,
        keep_alive_s: int = 75,
        certificate: Mapping[str, Any] | None = None,
    ) -> None:
        kind: Callable[..., Any] = protocol_of(app, CountingProtocol) if direct else BoundedProtocol
        config = uvicorn.Config(
            app,
            http=kind,  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=keep_alive_s,
        )
        config.load()
        self.state = ServerState()
        self.state.default_headers = DATE
        self.transport = RecordingTransport(certificate)
        self.protocol = config.http_protocol_class(  # type: ignore[call-arg]
            config=config, server_state=self.state, app_state={}
        )
        self.protocol.connection_made(self.transport)
        _OPEN.append(self)

    async def send(self, data: bytes, *, settle: bool = True) -> bytes:
        """Deliver `data` as one read; return what the server has written once it is idle.

        Unless it is to `settle`, the next data may arrive before the server replies.
        """
        before = len(self.transport.written)
        if not self.transport.is_read:
            await self.settle()
        if not self.transport.is_closed:
            self.protocol.data_received(data)
        if settle:
            await self.settle()
        return bytes(self.transport.written[before:])

    async def answer(self, data: bytes) -> bytes:
        """Deliver a request that may begin with the next timer; return its reply."""
        before = len(self.transport.written)
        self.transport.wrote.clear()
        await self.send(data)
        await self.transport.wrote.wait()
        await self.settle()
        return bytes(self.transport.written[before:])

    async def settle(self) -> None:
        """Run every task as far as it goes without more data."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def close(self) -> None:
        """End the connection, as when the client leaves."""
        _OPEN.remove(self)
        self.protocol.connection_lost(None)
