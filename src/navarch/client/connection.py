"""A minimal HTTP/1.1 client for Navarch's own server: keep-alive, chunked bodies, TLS.

Importing an HTTP library takes as long as the CLI takes to start, so this uses asyncio only.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from navarch.client.address import Address
from navarch.core.errors import UnreachableError

BODY_BYTES_MAX = 256 * 2**20
_LINE_BYTES_MAX = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A complete HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class _Connection:
    """One HTTP connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    async def send(self, head: bytes, body: bytes) -> None:
        """Send a request and read the status and headers of its response."""
        self.writer.write(head + body)
        await self.writer.drain()
        version, _, rest = (await self._line()).partition(" ")
        if not version.startswith("HTTP/1."):
            raise UnreachableError(f"not an HTTP response: {version[:40]!r}")
        self.status = int(rest[:3])
        self.headers = {}
        while line := await self._line():
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the chunks of a chunked body."""
        while size := int((await self._line()).partition(";")[0], 16):
            chunk = await self.reader.readexactly(size + 2)
            yield chunk[:-2]
        await self._line()

    async def body(self) -> bytes:
        """Return the whole body."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            parts = []
            size = 0
            async for chunk in self.chunks():
                size += len(chunk)
                if size > BODY_BYTES_MAX:
                    raise UnreachableError("the response is too large")
                parts.append(chunk)
            return b"".join(parts)
        if self.status == 204:
            return b""
        length = int(self.headers.get("content-length", "0"))
        if length > BODY_BYTES_MAX:
            raise UnreachableError("the response is too large")
        return await self.reader.readexactly(length)

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request."""
        return (
            self.headers.get("connection", "").lower() != "close"
            and not self.reader.at_eof()
            and not self.writer.is_closing()
        )

    async def _line(self) -> str:
        return (await self.reader.readuntil(b"\n")).decode("latin-1").rstrip("\r\n")


class HttpConnectionPool:
    """Sends requests to one server, over one connection per concurrent request."""

    def __init__(
        self,
        address: Address,
        *,
        token: str | None,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address = address
        self._token = token
        self._timeout_s = timeout_s
        self._tls = tls
        self._idle: list[_Connection] = []

    async def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = ""
    ) -> Response:
        """Return the response. Raises UnreachableError if there is none in time."""
        head = self._head(method, path, body, content_type)
        with self._translate_errors():
            async with asyncio.timeout(self._timeout_s):
                connection = self._reuse_idle()
                if connection is None:
                    return await self._exchange(await self._open(), head, body)
                try:
                    return await self._exchange(connection, head, body)
                except (asyncio.IncompleteReadError, ConnectionError):
                    # The server closed the idle connection as the request was sent. Only a GET
                    # is safe to send twice.
                    if method != "GET":
                        raise
                return await self._exchange(await self._open(), head, body)

    async def _exchange(self, connection: _Connection, head: bytes, body: bytes) -> Response:
        try:
            await connection.send(head, body)
            content = await connection.body()
        except BaseException:
            connection.writer.close()
            raise
        if connection.reusable:
            self._idle.append(connection)
        else:
            connection.writer.close()
        return Response(status=connection.status, headers=connection.headers, body=content)

    @asynccontextmanager
    async def stream(self, path: str, *, silence_s: float) -> AsyncIterator["StreamedResponse"]:
        """Open a streamed response; it fails after `silence_s` without data."""
        with self._translate_errors():
            async with asyncio.timeout(self._timeout_s):
                connection = await self._open()
                await connection.send(self._head("GET", path, b"", ""), b"")
        try:
            yield StreamedResponse(connection, silence_s, self)
        finally:
            connection.writer.close()

    async def close(self) -> None:
        """Close idle connections."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.writer.close()
        for connection in idle:
            try:
                await connection.writer.wait_closed()
            except OSError:
                continue  # Already closed by the server.

    def _reuse_idle(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                return connection
            connection.writer.close()
        return None

    async def _open(self) -> _Connection:
        tls = self._tls
        if tls is None and self.address.scheme == "https":
            tls = ssl.create_default_context()
        reader, writer = await asyncio.open_connection(
            self.address.host, self.address.port, ssl=tls, limit=_LINE_BYTES_MAX
        )
        return _Connection(reader, writer)

    def _head(self, method: str, path: str, body: bytes, content_type: str) -> bytes:
        lines = [
            f"{method} {self.address.prefix}{path} HTTP/1.1",
            f"Host: {self.address.authority}",
            f"Content-Length: {len(body)}",
        ]
        if content_type:
            lines.append(f"Content-Type: {content_type}")
        if self._token:
            lines.append(f"Authorization: Bearer {self._token}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _translate_errors(self) -> "_ErrorTranslation":
        return _ErrorTranslation(self.address, self._timeout_s)


class StreamedResponse:
    """A response whose body arrives over time."""

    def __init__(
        self, connection: _Connection, silence_s: float, connections: HttpConnectionPool
    ) -> None:
        self.status = connection.status
        self._connection = connection
        self._silence_s = silence_s
        self._connections = connections

    async def body(self) -> bytes:
        """Return the whole body, for an error response."""
        with self._translate_errors():
            async with asyncio.timeout(self._silence_s):
                return await self._connection.body()

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Yield each non-empty line."""
        rest = b""
        chunks = self._connection.chunks()
        while True:
            with self._translate_errors():
                async with asyncio.timeout(self._silence_s):
                    chunk = await anext(chunks, None)
            if chunk is None:
                return
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                if line:
                    yield line

    def _translate_errors(self) -> "_ErrorTranslation":
        return _ErrorTranslation(self._connections.address, self._silence_s)


class _ErrorTranslation:
    """A context manager that raises network errors as UnreachableError."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, UnreachableError):
            raise UnreachableError(f"{self._address}: {error}") from error
        if isinstance(error, TimeoutError):
            raise UnreachableError(
                f"{self._address} did not respond within {self._timeout_s:g} s"
            ) from error
        if isinstance(error, asyncio.IncompleteReadError | ConnectionResetError):
            raise UnreachableError(f"{self._address} closed the connection") from error
        if isinstance(error, OSError | ssl.SSLError):
            raise UnreachableError(f"{self._address} cannot be reached: {error}") from error
        if isinstance(error, ValueError | asyncio.LimitOverrunError):
            raise UnreachableError(f"{self._address} sent an invalid HTTP response") from error
