"""Keep-alive connections to one server, over asyncio."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field

import h11

from navarch.http.exchange import BODY_BYTES_MAX, READ_BYTES, Exchange, new_connection
from navarch.http.message import (
    DisconnectedError,
    Endpoint,
    NoResponseError,
    NotSentError,
    Request,
    Response,
)
from navarch.http.tls import MakeContext

CLOSE_S = 1.0
LINE_BYTES_MAX = 16 * 1024 * 1024
NO_HEADERS: Mapping[str, str] = {}


class ConnectionPool:
    """Sends requests to one server, over one connection per concurrent request.

    `connections_max` bounds the connections; further requests are queued. Every failure is an
    HttpError. A request on a kept connection that the server has closed in the meantime is sent
    again over a new one, but only if it is idempotent and no byte of a response has arrived.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        connect_s: float | None = None,
        response_s: float | None = None,
        tls: MakeContext | None = None,
        connections_max: int | None = None,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        self.endpoint = endpoint
        self._connect_s = connect_s
        self._response_s = response_s
        self._tls = tls
        self._limit = asyncio.Semaphore(connections_max) if connections_max else None
        self._body_bytes_max = body_bytes_max
        self._idle: list[_Connection] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        body: bytes | None = None,
        idempotent: bool | None = None,
    ) -> Response:
        """Return the response, whatever its status. By default only a GET is idempotent."""
        request = Request(
            method=method,
            target=f"{self.endpoint.prefix}{path}",
            headers={"Host": self.endpoint.authority, **headers},
            body=body,
        )
        retry = method == "GET" if idempotent is None else idempotent
        async with self._limit or contextlib.nullcontext():
            while self._idle:
                connection = self._idle.pop()
                if connection.reader.at_eof() or connection.writer.is_closing():
                    # The server has closed it.
                    connection.abort()
                    continue
                try:
                    return await self._exchange(connection, request)
                except DisconnectedError:
                    if not retry:
                        raise
                    break
            return await self._exchange(await self._connect(), request)

    @contextlib.asynccontextmanager
    async def stream(
        self, path: str, *, headers: Mapping[str, str] = NO_HEADERS, silence_s: float
    ) -> AsyncIterator["StreamedResponse"]:
        """GET a response without a size limit; it fails after `silence_s` without data."""
        request = Request(
            method="GET",
            target=f"{self.endpoint.prefix}{path}",
            headers={"Host": self.endpoint.authority, **headers},
        )
        connection = await self._connect()
        try:
            exchange = Exchange(connection.state, str(self.endpoint), body_bytes_max=None)
            async with _deadline(self.endpoint, self._response_s):
                body = await connection.send(exchange, request)
            yield StreamedResponse(self.endpoint, connection, exchange, body, silence_s)
        finally:
            connection.abort()

    async def close(self) -> None:
        """Close the idle connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await connection.writer.wait_closed()

    async def _exchange(self, connection: "_Connection", request: Request) -> Response:
        peer = str(self.endpoint)
        exchange = Exchange(connection.state, peer, body_bytes_max=self._body_bytes_max)
        keep = False
        try:
            async with _deadline(self.endpoint, self._response_s):
                body = bytearray(await connection.send(exchange, request))
                while not exchange.complete:
                    body += await connection.receive(exchange)
            keep = exchange.end()
        finally:
            # Also on cancellation: the rest of a response must not be read as the next one.
            if keep:
                self._idle.append(connection)
            else:
                connection.abort()
        return Response(status=exchange.status, headers=exchange.headers, body=bytes(body))

    async def _connect(self) -> "_Connection":
        endpoint = self.endpoint
        if endpoint.scheme == "https" and self._tls is None:
            default = ssl.create_default_context()
            self._tls = lambda: default
        tls = self._tls() if endpoint.scheme == "https" and self._tls is not None else None
        try:
            async with asyncio.timeout(self._connect_s):
                if endpoint.socket:
                    streams = await asyncio.open_unix_connection(endpoint.socket)
                else:
                    streams = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=tls)
        except (OSError, UnicodeError) as error:
            if isinstance(error, TimeoutError) and not error.args:
                raise NotSentError(
                    f"{endpoint} cannot be reached: no connection within {self._connect_s:g} s"
                ) from error
            raise NotSentError(f"{endpoint} cannot be reached: {error}") from error
        return _Connection(*streams)


class StreamedResponse:
    """A response with a body that arrives over time."""

    def __init__(
        self,
        endpoint: Endpoint,
        connection: "_Connection",
        exchange: Exchange,
        first: bytes,
        silence_s: float,
    ) -> None:
        self.status = exchange.status
        self._endpoint = endpoint
        self._connection = connection
        self._exchange = exchange
        self._first = first
        self._silence_s = silence_s

    async def body(self) -> bytes:
        """Return the whole body, for an error response."""
        body = b""
        async for piece in self._pieces():
            body += piece
            if len(body) > BODY_BYTES_MAX:
                raise NoResponseError(f"{self._endpoint}: the response is too large")
        return body

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield each non-empty line."""
        rest = b""
        async for piece in self._pieces():
            *whole, rest = (rest + piece).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                raise NoResponseError(f"{self._endpoint}: a line is too long")
            for line in whole:
                if line:
                    yield line

    async def _pieces(self) -> AsyncIterator[bytes]:
        if self._first:
            yield self._first
        while not self._exchange.complete:
            async with _deadline(self._endpoint, self._silence_s):
                piece = await self._connection.receive(self._exchange)
            if piece:
                yield piece


@dataclass(frozen=True, slots=True, eq=False)
class _Connection:
    """One open connection and the state of its protocol."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    state: h11.Connection = field(default_factory=new_connection)

    async def send(self, exchange: Exchange, request: Request) -> bytes:
        """Send a request and read the head of its response; return the body that came with it."""
        data = exchange.start(request)
        try:
            self.writer.write(data)
            await self.writer.drain()
        except OSError as error:
            raise exchange.lost(error) from error
        body = b""
        while not exchange.status:
            body = await self.receive(exchange)
        return body

    async def receive(self, exchange: Exchange) -> bytes:
        """Read once; return the part of the body that has arrived."""
        try:
            data = await self.reader.read(READ_BYTES)
        except OSError as error:
            raise exchange.lost(error) from error
        return exchange.receive(data)

    def abort(self) -> None:
        """Close the connection without waiting for what is still to be sent."""
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def _deadline(endpoint: Endpoint, seconds: float | None) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise NoResponseError(f"{endpoint} did not respond within {seconds:g} s") from error
