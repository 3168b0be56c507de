"""The connection pool against valid and invalid servers."""

import asyncio
import contextlib
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navarch.core.errors import InvalidError
from navarch.http.message import (
    DisconnectedError,
    Endpoint,
    HttpError,
    NoResponseError,
    NotSentError,
    Response,
    parse_endpoint,
)
from navarch.http.pool import ConnectionPool


async def post(
    *responses: bytes, times: int = 1, end: bool = False, response_s: float = 5.0
) -> Response:
    """Return the last response of a server that sends `responses`, one per request."""
    queue = list(responses)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while queue:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(queue.pop(0))
                await writer.drain()
                if end:
                    return
            await reader.read()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connection = ConnectionPool(
        Endpoint(host="127.0.0.1", port=port), response_s=response_s, body_bytes_max=1000
    )
    try:
        for _ in range(times - 1):
            await connection.request("POST", "/x", body=b"body")
        return await connection.request("POST", "/x", body=b"body")
    finally:
        await connection.close()
        server.close()
        await server.wait_closed()


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (OK, 200, b"hi"),
        (b"HTTP/1.1 200\r\ncontent-length:2\r\n\r\nhi", 200, b"hi"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200, b"hi"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2\r\nhi\r\nA;x=y\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n",
            200,
            b"hi0123456789",
        ),
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", 404, b""),
    ],
)
def test_every_way_to_delimit_a_response_is_supported(
    answer: bytes, status: int, body: bytes
) -> None:
    response = asyncio.run(post(answer, OK, times=1))

    assert (response.status, response.body) == (status, body)


def test_a_response_may_end_with_its_connection() -> None:
    response = asyncio.run(post(b"HTTP/1.0 200 OK\r\n\r\nall of this", end=True))

    assert response.body == b"all of this"


def test_a_connection_that_the_server_closes_is_not_reused() -> None:
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

    assert asyncio.run(post(closing, OK, times=2, end=True)).body == b"hi"


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n0123456789",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1F4\r\n" + b"x" * 500 + b"\r\n"
        b"1F5\r\n" + b"x" * 501 + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
    ],
)
def test_a_malformed_or_oversized_response_is_an_error(answer: bytes) -> None:
    with pytest.raises(HttpError):
        asyncio.run(post(answer))


@pytest.mark.parametrize("size", [70_000, 200_000])
def test_headers_above_the_limit_are_an_error(size: int) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: " + b"x" * size + b"\r\n\r\n"

    with pytest.raises(NoResponseError, match=r"too large|invalid HTTP response"):
        asyncio.run(post(head))


@pytest.mark.parametrize("cut", range(len(OK)))
def test_a_truncated_response_is_an_error(cut: int) -> None:
    with pytest.raises(HttpError):
        asyncio.run(post(OK[:cut], end=True))


def test_a_server_that_never_responds_times_out() -> None:
    with pytest.raises(HttpError, match="did not respond within"):
        asyncio.run(asyncio.wait_for(post(b"HTTP/1.1 200 OK\r\n", response_s=0.05), 5))


def test_a_cancelled_request_does_not_leave_its_response_to_the_next() -> None:
    async def main() -> None:
        arrived, release = asyncio.Event(), asyncio.Event()
        served = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            try:
                await reader.readuntil(b"\r\n\r\n")
                served += 1
                number = served
                if number == 1:
                    arrived.set()
                    await release.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % number)
                await writer.drain()
                await reader.read()
            except OSError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = ConnectionPool(Endpoint(host="127.0.0.1", port=port))
        first = asyncio.create_task(connection.request("POST", "/x", body=b""))
        await arrived.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        release.set()
        assert (await connection.request("POST", "/x", body=b"")).body == b"2"
        await connection.close()
        server.close()
        await server.wait_closed()

    asyncio.run(main())


def test_https_requires_a_valid_certificate(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make_certificate = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1"
    )
    names = "-subj /CN=localhost -addext subjectAltName=DNS:localhost"
    subprocess.run(
        [*make_certificate.split(), *names.split(), "-keyout", key, "-out", certificate],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        endpoint = parse_endpoint(f"https://localhost:{port}")
        trusted = ssl.create_default_context(cafile=certificate)
        trusting = ConnectionPool(endpoint, tls=lambda: trusted)
        assert (await trusting.request("POST", "/x", body=b"")).body == b"hi"
        with pytest.raises(NotSentError, match="certificate"):
            await ConnectionPool(endpoint).request("POST", "/x", body=b"")
        await trusting.close()
        server.close()

    asyncio.run(main())


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_at_worst_an_error(noise: bytes) -> None:
    for answer in (noise, b"HTTP/1.1 200 OK\r\n" + noise, OK[:-4] + noise):
        try:
            asyncio.run(post(answer, end=True))
        except HttpError:
            continue


@contextlib.asynccontextmanager
async def serving(handle: Handler, path: str = "") -> AsyncIterator[Endpoint]:
    """Serve on the loopback interface, or on a Unix socket; end every connection at the end."""
    connections: list[tuple[asyncio.StreamWriter, asyncio.Event]] = []

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        event = asyncio.Event()
        connections.append((writer, event))
        try:
            await handle(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()
            event.set()

    if path:
        server = await asyncio.start_unix_server(tracked, path)
        endpoint = Endpoint(host="docker", socket=path)
    else:
        server = await asyncio.start_server(tracked, "127.0.0.1", 0)
        endpoint = Endpoint(host="127.0.0.1", port=server.sockets[0].getsockname()[1])
    try:
        yield endpoint
    finally:
        server.close()
        for writer, event in connections:
            # Otherwise a failed test would wait here for a connection that it left open.
            writer.transport.abort()
            await event.wait()
        await asyncio.sleep(0)


class Server:
    """A server on the loopback interface that counts its connections and records its requests."""

    def __init__(self, *, requests_per_connection: int = 1000, cut: bytes = b"") -> None:
        """Close after so many requests; send `cut` in reply to the one after, then close."""
        self.connections = 0
        self.requests: list[bytes] = []
        self._per_connection = requests_per_connection
        self._cut = cut

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for _ in range(self._per_connection):
            self.requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(OK)
        # The next request is received, but its connection closes instead of a response.
        await reader.read(1)
        writer.write(self._cut)
        await writer.drain()

    @contextlib.asynccontextmanager
    async def pool(self, *, connections_max: int | None = None) -> AsyncIterator[ConnectionPool]:
        async with serving(self.serve) as endpoint:
            pool = ConnectionPool(endpoint, connections_max=connections_max)
            try:
                yield pool
            finally:
                await pool.close()


def test_consecutive_requests_share_one_connection() -> None:
    async def main() -> None:
        server = Server()
        async with server.pool() as pool:
            for _ in range(3):
                assert (await pool.request("GET", "/x")).body == b"hi"

        assert server.connections == 1

    asyncio.run(main())


def test_concurrent_requests_use_a_connection_each() -> None:
    async def main() -> None:
        server = Server()
        async with server.pool() as pool:
            await asyncio.gather(*(pool.request("GET", "/x") for _ in range(3)))

        assert server.connections == 3

    asyncio.run(main())


def test_requests_above_the_limit_of_connections_are_queued() -> None:
    async def main() -> None:
        server = Server()
        async with server.pool(connections_max=1) as pool:
            await asyncio.gather(*(pool.request("GET", "/x") for _ in range(3)))

        assert (server.connections, len(server.requests)) == (1, 3)

    asyncio.run(main())


@pytest.mark.parametrize(("method", "idempotent"), [("GET", None), ("POST", True)])
def test_an_idempotent_request_on_a_closed_connection_is_sent_again(
    method: str, idempotent: bool | None
) -> None:
    async def main() -> None:
        server = Server(requests_per_connection=1)
        async with server.pool() as pool:
            for _ in range(2):
                response = await pool.request(method, "/x", idempotent=idempotent)
                assert response.body == b"hi"

        assert server.connections == 2

    asyncio.run(main())


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_request_with_effects_is_never_sent_twice(method: str) -> None:
    async def main() -> None:
        server = Server(requests_per_connection=1)
        async with server.pool() as pool:
            await pool.request(method, "/x")
            with pytest.raises(DisconnectedError, match="closed the connection"):
                await pool.request(method, "/x")

        assert len(server.requests) == 1

    asyncio.run(main())


def test_a_request_is_not_sent_again_once_its_response_has_begun() -> None:
    async def main() -> None:
        server = Server(requests_per_connection=1, cut=b"H")
        async with server.pool() as pool:
            await pool.request("GET", "/x")
            with pytest.raises(NoResponseError, match="during a response"):
                await pool.request("GET", "/x")

        assert len(server.requests) == 1

    asyncio.run(main())


def test_a_connection_with_more_than_a_response_is_not_reused() -> None:
    response = asyncio.run(post(OK + b"HTTP/1.1 200 OK\r\n", OK, times=2))

    assert response.body == b"hi"


@pytest.mark.parametrize("location", ["http://127.0.0.1:1/elsewhere", "/elsewhere"])
def test_a_redirect_is_returned_and_not_followed(location: str) -> None:
    redirect = f"HTTP/1.1 307 Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"

    response = asyncio.run(post(redirect.encode()))

    assert (response.status, response.headers["location"]) == (307, location)


@pytest.mark.parametrize("value", ["secret\r\nX: y", "secret\n", "secret\u2028", "se\0cret"])
def test_a_header_that_cannot_be_sent_is_refused_without_quoting_it(value: str) -> None:
    async def main() -> None:
        server = Server()
        async with server.pool() as pool:
            with pytest.raises(NotSentError, match="cannot be sent") as caught:
                await pool.request("GET", "/x", headers={"Authorization": value})
            assert "secret" not in repr(caught.value)
            assert (await pool.request("GET", "/x")).status == 200

        assert len(server.requests) == 1

    asyncio.run(main())


def test_a_unix_socket_is_a_server_too(tmp_path: Path) -> None:
    async def main() -> None:
        server = Server()
        async with serving(server.serve, str(tmp_path / "s")) as endpoint:
            pool = ConnectionPool(endpoint)
            assert (await pool.request("GET", "/x")).body == b"hi"
            await pool.close()

        assert b"\r\nHost: docker\r\n" in server.requests[0]

    asyncio.run(main())


def test_no_connection_means_not_sent(tmp_path: Path) -> None:
    for endpoint in (Endpoint(host="127.0.0.1", port=1), Endpoint(host="x", socket=str(tmp_path))):
        with pytest.raises(NotSentError, match="cannot be reached"):
            asyncio.run(ConnectionPool(endpoint).request("GET", "/x"))


async def streamed(*pieces: bytes, silence_s: float = 5.0) -> list[bytes]:
    """Return the lines of a stream that arrives in these pieces and then stays open."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        await reader.read()

    async with (
        serving(serve) as endpoint,
        ConnectionPool(endpoint).stream("/x", silence_s=silence_s) as response,
    ):
        assert response.status == 200
        return [line async for line in response.lines()]


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_stream_yields_lines_however_they_are_cut() -> None:
    lines = asyncio.run(
        streamed(CHUNKED + b"4\r\none\n\r\n", b"3\r\ntw", b"o\r\n2\r\n\n\n\r\n0\r\n\r\n")
    )

    assert lines == [b"one", b"two"]


def test_a_silent_stream_times_out() -> None:
    with pytest.raises(NoResponseError, match=r"did not respond within 0\.05 s"):
        asyncio.run(streamed(CHUNKED + b"4\r\none\n\r\n", silence_s=0.05))


@pytest.mark.parametrize(
    ("url", "authority", "prefix"),
    [
        ("http://h", "h", ""),
        ("http://h:50051/", "h:50051", ""),
        ("https://h:443", "h", ""),
        ("https://h/navarch/", "h", "/navarch"),
        ("http://[::1]:50051", "[::1]:50051", ""),
    ],
)
def test_addresses_are_parsed(url: str, authority: str, prefix: str) -> None:
    endpoint = parse_endpoint(url)

    assert (endpoint.authority, endpoint.prefix) == (authority, prefix)


@pytest.mark.parametrize(
    "url", ["h", "ftp://h", "http://", "http://u@h", "http://h?x", "http://h/ü", "http://h:x"]
)
def test_a_malformed_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidError):
        parse_endpoint(url)
