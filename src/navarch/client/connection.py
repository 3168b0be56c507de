"""Requests to a control plane, with its token, its time limit and its errors."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

from navarch.core.errors import InvalidError, UnreachableError
from navarch.http.message import Endpoint, HttpError, Response
from navarch.http.pool import ConnectionPool, StreamedResponse
from navarch.http.tls import MakeContext

_PORTS = {"http": 50051, "https": 443, "grpc": 50052, "grpcs": 50052}


def parse_address(url: str) -> Endpoint:
    """Return the server in `url`; the default scheme is http."""
    whole = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(whole)
        port = parts.port
    except ValueError as error:
        raise InvalidError(f"{url!r} is not a server URL: {error}") from error
    if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.username:
        raise InvalidError(
            f"{url!r} is not a server URL; try http://localhost:50051 or grpc://localhost:50052"
        )
    return Endpoint(
        scheme=parts.scheme,
        host=parts.hostname,
        port=_PORTS[parts.scheme] if port is None else port,
        prefix=parts.path.rstrip("/"),
    )


BODY_BYTES_MAX = 256 * 2**20


class ServerConnection:
    """Requests to one control plane. Every failure to get a response is an UnreachableError."""

    def __init__(
        self,
        address: Endpoint,
        *,
        token: str | None,
        timeout_s: float,
        tls: MakeContext | None = None,
    ) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._pool = ConnectionPool(
            address,
            connect_s=timeout_s,
            response_s=timeout_s,
            tls=tls,
            body_bytes_max=BODY_BYTES_MAX,
        )

    async def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = ""
    ) -> Response:
        """Return the response, whatever its status."""
        headers = self._headers
        if content_type:
            headers = {**headers, "Content-Type": content_type}
        with _as_unreachable():
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await self._pool.request(method, path, headers=headers, body=body)
            except TimeoutError as error:
                raise UnreachableError(
                    f"{self.address} did not respond within {self._timeout_s:g} s"
                ) from error

    @asynccontextmanager
    async def stream(self, path: str, *, silence_s: float) -> AsyncIterator[StreamedResponse]:
        """GET a response without a size limit; it fails after `silence_s` without data."""
        with _as_unreachable():
            async with self._pool.stream(
                path, headers=self._headers, silence_s=silence_s
            ) as response:
                yield response

    async def close(self) -> None:
        """Close idle connections."""
        await self._pool.close()


@contextmanager
def _as_unreachable() -> Iterator[None]:
    try:
        yield
    except HttpError as error:
        raise UnreachableError(str(error)) from error
