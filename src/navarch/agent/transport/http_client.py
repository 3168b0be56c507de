"""A small HTTP/1.1 client: one keep-alive connection to one server, without dependencies."""

import asyncio
import contextlib
import ssl
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from navarch.core.errors import InvalidError, UnreachableError

HEADERS_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX = 4 * 1024 * 1024
"""Replies to agents are small. A larger one is a mistake or comes from another server."""

CONNECT_S = 5.0
REPLY_S = 10.0
"""Well below the control plane's liveness timeout, so that one lost reply costs less than one
heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of a server."""

    host: str
    port: int
    tls: bool = False
    prefix: str = ""

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def parse_endpoint(url: str) -> Endpoint:
    """Return the endpoint of an http or https address; raise InvalidError if it is malformed."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidError(f"{url!r} is not an address: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidError(f"{url!r} is not an address; use http://host:50051")
    if parts.username or parts.query or parts.fragment:
        raise InvalidError(f"{url!r}: an address has a scheme, host, port and path, nothing else")
    if not (parts.path + parts.hostname).isascii() or any(c.isspace() for c in parts.path):
        raise InvalidError(f"{url!r}: an address may only contain ASCII characters without spaces")
    tls = parts.scheme == "https"
    return Endpoint(
        host=parts.hostname,
        port=port if port is not None else (443 if tls else 80),
        tls=tls,
        prefix=parts.path.rstrip("/"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A server's response."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class HttpConnection:
    """Sends one request at a time over one connection, reconnecting as needed.

    A request on a connection that the server has closed is sent again over a new one, so requests
    must be idempotent. Every failure is an UnreachableError.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        tls: ssl.SSLContext | None = None,
        connect_s: float = CONNECT_S,
        reply_s: float = REPLY_S,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._connect_s = connect_s
        self._reply_s = reply_s
        self._body_bytes_max = body_bytes_max
        self._turn = asyncio.Lock()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Send `body` to `path` and return the response, whatever its status."""
        request = _request_bytes(self._endpoint, path, body, headers)
        async with self._turn:
            reused = self._streams is not None
            try:
                return await self._exchange(request)
            except _StaleError as error:
                if not reused:
                    raise UnreachableError(f"{self._endpoint.authority}: {error}") from error
            try:
                return await self._exchange(request)
            except _StaleError as error:
                raise UnreachableError(f"{self._endpoint.authority}: {error}") from error

    async def close(self) -> None:
        """Close the connection."""
        streams, self._streams = self._streams, None
        if streams is not None:
            writer = streams[1]
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await writer.wait_closed()

    async def _exchange(self, request: bytes) -> Reply:
        reader, writer = await self._connected()
        keep = False
        try:
            async with asyncio.timeout(self._reply_s):
                writer.write(request)
                await writer.drain()
                reply, keep = await _read_reply(reader, self._body_bytes_max)
        except TimeoutError as error:
            raise UnreachableError(
                f"{self._endpoint.authority}: no response within {self._reply_s:g} s"
            ) from error
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise UnreachableError(f"{self._endpoint.authority}: an incomplete response") from error
        except OSError as error:
            raise _StaleError(str(error) or type(error).__name__) from error
        finally:
            # Also on cancellation: the rest of a response must not be read as the next one.
            if not keep:
                self._abandon()
        return reply

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is not None and self._streams[0].at_eof():
            self._abandon()
        if self._streams is None:
            self._streams = await self._connect()
        return self._streams

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        where = self._endpoint
        try:
            async with asyncio.timeout(self._connect_s):
                return await asyncio.open_connection(
                    where.host, where.port, ssl=self._context(), limit=HEADERS_BYTES_MAX
                )
        except TimeoutError as error:
            raise UnreachableError(
                f"{where.authority}: no connection within {self._connect_s:g} s"
            ) from error
        except (OSError, UnicodeError) as error:
            raise UnreachableError(f"{where.authority}: {error}") from error

    def _context(self) -> ssl.SSLContext | None:
        if self._endpoint.tls and self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls if self._endpoint.tls else None

    def _abandon(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


class _StaleError(Exception):
    """The connection closed before the first byte of a response."""


def _request_bytes(where: Endpoint, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"POST {where.prefix}{path} HTTP/1.1",
        f"Host: {where.authority}",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    assert not any("\r" in line or "\n" in line for line in lines), "a header smuggles a line"
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body


async def _read_reply(reader: asyncio.StreamReader, body_bytes_max: int) -> tuple[Reply, bool]:
    """Return the next final response, and whether the connection can be reused."""
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if not error.partial:
                raise _StaleError("the connection was closed") from error
            raise
        version, status, headers = _parse_head(head)
        if status == 101 or status < 100:
            raise UnreachableError(f"unexpected status {status}")
        if status >= 200:
            break
    body, delimited = await _read_body(reader, status, headers, body_bytes_max)
    tokens = {token.strip() for token in headers.get("connection", "").lower().split(",")}
    keep = delimited and "close" not in tokens and (version == "HTTP/1.1" or "keep-alive" in tokens)
    return Reply(status=status, headers=headers, body=body), keep


def _parse_head(head: bytes) -> tuple[str, int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if version not in ("HTTP/1.1", "HTTP/1.0") or not rest[:3].isdecimal():
        raise UnreachableError("not an HTTP server")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return version, int(rest[:3]), headers


async def _read_body(
    reader: asyncio.StreamReader, status: int, headers: Mapping[str, str], limit: int
) -> tuple[bytes, bool]:
    """Return the body, and whether it was delimited by a length rather than by the close."""
    if status in (204, 304):
        return b"", True
    if "transfer-encoding" in headers:
        if headers["transfer-encoding"].lower() != "chunked":
            raise UnreachableError(
                f"unsupported transfer encoding {headers['transfer-encoding']!r}"
            )
        return await _read_chunks(reader, limit), True
    if "content-length" in headers:
        return await _read_exactly(reader, _length(headers["content-length"], 10), limit), True
    body = await reader.read(limit + 1)
    while len(body) <= limit and not reader.at_eof():
        body += await reader.read(limit + 1 - len(body))
    _check_length(len(body), limit)
    return body, False


async def _read_chunks(reader: asyncio.StreamReader, limit: int) -> bytes:
    body = b""
    while True:
        size = _length((await reader.readuntil(b"\r\n")).split(b";")[0].decode("latin-1"), 16)
        if size == 0:
            break
        body += await _read_exactly(reader, size, limit - len(body))
        if await reader.readexactly(2) != b"\r\n":
            raise UnreachableError("a malformed chunk")
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # Trailers are ignored.
    return body


async def _read_exactly(reader: asyncio.StreamReader, length: int, limit: int) -> bytes:
    _check_length(length, limit)
    return await reader.readexactly(length)


def _check_length(length: int, limit: int) -> None:
    if length > limit:
        raise UnreachableError(f"a response of {length} bytes exceeds the limit of {limit}")


def _length(text: str, base: int) -> int:
    text = text.strip()
    # int() also accepts signs, spaces and underscores, which enable request smuggling.
    if not text or len(text) > 16 or not all(c in string.hexdigits for c in text):
        raise UnreachableError(f"invalid length {text[:32]!r}")
    try:
        return int(text, base)
    except ValueError as error:
        raise UnreachableError(f"invalid length {text[:32]!r}") from error
