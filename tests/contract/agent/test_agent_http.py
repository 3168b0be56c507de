"""The HTTP client against valid and invalid servers."""

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from navarch.agent.transport.http_client import Endpoint, HttpConnection, Reply, parse_endpoint
from navarch.core.errors import UnreachableError


async def ask(*answers: bytes, times: int = 1, end: bool = False, reply_s: float = 5.0) -> Reply:
    """Return the last reply of a server that sends `answers`, one per request."""
    queue = list(answers)

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
    connection = HttpConnection(
        Endpoint(host="127.0.0.1", port=port), reply_s=reply_s, body_bytes_max=1000
    )
    try:
        for _ in range(times - 1):
            await connection.post("/x", b"body", {})
        return await connection.post("/x", b"body", {})
    finally:
        await connection.close()
        server.close()
        await server.wait_closed()


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
    reply = asyncio.run(ask(answer, OK, times=1))

    assert (reply.status, reply.body) == (status, body)


def test_a_response_may_end_with_its_connection() -> None:
    reply = asyncio.run(ask(b"HTTP/1.0 200 OK\r\n\r\nall of this", end=True))

    assert reply.body == b"all of this"


def test_a_connection_that_the_server_closes_is_not_reused() -> None:
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

    assert asyncio.run(ask(closing, OK, times=2, end=True)).body == b"hi"


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
def test_a_malformed_or_oversized_response_is_unreachable(answer: bytes) -> None:
    with pytest.raises(UnreachableError):
        asyncio.run(ask(answer))


@pytest.mark.parametrize("cut", range(1, len(OK)))
def test_a_truncated_response_is_unreachable(cut: int) -> None:
    with pytest.raises(UnreachableError):
        asyncio.run(ask(OK[:cut], end=True))


def test_a_server_that_never_responds_times_out() -> None:
    with pytest.raises(UnreachableError, match="no response within"):
        asyncio.run(ask(b"HTTP/1.1 200 OK\r\n", reply_s=0.05))


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
        connection = HttpConnection(Endpoint(host="127.0.0.1", port=port))
        first = asyncio.create_task(connection.post("/x", b"", {}))
        await arrived.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        release.set()
        assert (await connection.post("/x", b"", {})).body == b"2"
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
        trusting = HttpConnection(endpoint, tls=ssl.create_default_context(cafile=certificate))
        assert (await trusting.post("/x", b"", {})).body == b"hi"
        with pytest.raises(UnreachableError, match="certificate"):
            await HttpConnection(endpoint).post("/x", b"", {})
        await trusting.close()
        server.close()

    asyncio.run(main())


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_at_worst_unreachable(noise: bytes) -> None:
    for answer in (noise, b"HTTP/1.1 200 OK\r\n" + noise, OK[:-4] + noise):
        try:
            asyncio.run(ask(answer, end=True))
        except UnreachableError:
            continue


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
