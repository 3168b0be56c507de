"""A client for the Docker Engine API: one connection per request, over a local socket.

The official client is synchronous and large; Navarch makes about five calls a minute.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlencode, urlsplit

import msgspec

from navarch.core.errors import CredentialError, InvalidError, OutcomeUnknownError, TransientError

VERSION = "v1.41"
"""The oldest API version with every call used here; newer engines still support it."""
BODY_BYTES_MAX = 64 * 1024 * 1024
DEFAULT_HOST = "unix:///var/run/docker.sock"

Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Open: TypeAlias = Callable[[], Coroutine[Any, Any, Streams]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response of the engine."""

    status: int
    body: bytes

    @property
    def message(self) -> str:
        """The error message of a failed request."""
        try:
            return str(msgspec.json.decode(self.body)["message"])
        except (msgspec.DecodeError, KeyError, TypeError):
            return self.body.decode(errors="replace").strip()[:300]

    def json(self) -> Any:  # noqa: ANN401 - the engine's own structures
        """Return the decoded body."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError as error:
            raise OutcomeUnknownError(f"the engine's response is not JSON: {error}") from error


class Engine:
    """The API of one engine."""

    def __init__(self, open_streams: Open, where: str) -> None:
        self._open = open_streams
        self.where = where

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
    ) -> Answer:
        """Make one request and return the response, whatever its status.

        Raises TransientError if the engine cannot be reached, CredentialError if access is
        denied, and OutcomeUnknownError if the response is lost.
        """
        try:
            reader, writer = await self._open()
        except PermissionError as error:
            raise CredentialError(
                f"{self.where}: permission denied; join the group of the socket (docker)"
            ) from error
        except OSError as error:
            raise TransientError(f"no Docker engine at {self.where}: {error}") from error
        try:
            writer.write(_request(method, path, query, body))
            await writer.drain()
            return await _read(reader)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise OutcomeUnknownError(f"{self.where} did not answer: {error}") from error
        except ValueError as error:
            raise OutcomeUnknownError(f"{self.where}: malformed response: {error}") from error
        finally:
            writer.close()


def engine_at(host: str) -> Engine:
    """Return the engine at an address in DOCKER_HOST's format; raise InvalidError for others."""
    parts = urlsplit(host)
    if parts.scheme == "unix":
        path = parts.path
        return Engine(lambda: asyncio.open_unix_connection(path), host)
    if parts.scheme in ("tcp", "http") and parts.hostname and parts.port:
        name, port = parts.hostname, parts.port
        return Engine(lambda: asyncio.open_connection(name, port), host)
    raise InvalidError(
        f"{host!r} is no engine address; write unix:///var/run/docker.sock or tcp://HOST:PORT"
    )


def target(path: str, query: Mapping[str, str] | None) -> str:
    """Return the request target: versioned path and query."""
    return f"/{VERSION}{path}" + (f"?{urlencode(query)}" if query else "")


def _request(method: str, path: str, query: Mapping[str, str] | None, body: object) -> bytes:
    content = b"" if body is None else msgspec.json.encode(body)
    lines = [
        f"{method} {target(path, query)} HTTP/1.1",
        "Host: docker",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + content


async def _read(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status_line, *lines = head.split("\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    status = int(status_line.split(" ", 2)[1])
    if status == 204:
        return Answer(status=status, body=b"")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return Answer(status=status, body=await _chunks(reader))
    if "content-length" in headers:
        size = int(headers["content-length"])
        if size > BODY_BYTES_MAX:
            raise ValueError("the body is too long")
        return Answer(status=status, body=await reader.readexactly(size))
    return Answer(status=status, body=await reader.read(BODY_BYTES_MAX))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        if size == 0:
            return bytes(body)
        if len(body) + size > BODY_BYTES_MAX:
            raise ValueError("the body is too long")
        body += await reader.readexactly(size)
        await reader.readexactly(2)
