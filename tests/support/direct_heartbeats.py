"""What one connection brings, the direct way and the ordinary way."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httptools
from hypothesis import strategies as st
from tests.support.heartbeats import FORMS, OWN, Form, GpuLoad, SampleBeat
from tests.support.http_connection import HttpConnection, connections_closed
from tests.support.local_api import LocalApi, build_local_api

from navarch.api.auth import Authenticator
from navarch.api.http.app import HttpLimits
from navarch.core.ids import NodeId

TOKEN = "the-operators-token"
KEEP_ALIVE_S = 75
NODES = ("gpu-0", "gpu-1")
BODY_MAX = 4096
BY_NAME = {form.name: form for form in FORMS}


def request(
    form: Form, body: bytes, *lines: str, token: str = TOKEN, version: str = "1.1"
) -> bytes:
    """Return a heartbeat over HTTP; `lines` are further headers."""
    head = [
        f"POST {form.path} HTTP/{version}",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        f"Content-Type: {form.content_type}",
        *lines,
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def chunked(form: Form, body: bytes) -> bytes:
    """Return a heartbeat without the length of its body."""
    head = request(form, b"", "Transfer-Encoding: chunked").replace(b"\r\nContent-Length: 0", b"")
    return head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def get(path: str) -> bytes:
    """Return a request that is no heartbeat."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    )


forms = st.sampled_from(FORMS)
loads = st.builds(GpuLoad, temperature_c=st.integers(0, 99))
nodes = st.sampled_from([*NODES, *NODES, *NODES, "nowhere", ""])
beats = st.builds(SampleBeat, node=nodes, gpus=st.lists(loads, max_size=3))
bodies = st.one_of(
    st.tuples(forms, beats).map(lambda x: (x[0], x[0].encode(x[1]))),
    st.tuples(forms, st.binary(max_size=12)),
    st.tuples(forms, st.sampled_from([b"{}", b"[]", b"x" * (BODY_MAX + 1), b"\xff"])),
)
further = st.sampled_from(
    [
        (),
        ("Connection: keep-alive",),
        ("Connection: close",),
        ("Expect: 100-continue",),
        ("Connect-Protocol-Version: 2",),
        ("Connect-Timeout-Ms: soon",),
        ("Content-Encoding: br",),
        ("Origin: http://evil.example",),
        ("Authorization: Bearer wrong",),
        ("Content-Type: text/plain",),
        ("X-Padding: " + "x" * 300,),
        ("Content-Length: 0",),
        ("Host: evil.example",),
        ("X-Folded: a\r\n b",),
    ]
)
usual = bodies.map(lambda x: request(*x))
unusual = st.one_of(
    st.tuples(bodies, further).map(lambda x: request(*x[0], *x[1])),
    bodies.map(lambda x: chunked(*x)),
    bodies.map(lambda x: request(*x, version="1.0")),
    bodies.map(lambda x: request(*x, token="wrong")),
    bodies.map(lambda x: request(x[0], gzip.compress(x[1]), "Content-Encoding: gzip")),
    bodies.map(lambda x: request(*x).replace(b"\r\n", b"\n", 3)),
    bodies.map(lambda x: request(*x).replace(x[0].path.encode(), x[0].path.encode() + b"?a=b")),
    bodies.map(lambda x: b"\r\n" + request(*x)),
    st.sampled_from([get("/healthz"), get("/v1/nodes/x"), get(OWN), b"\r\n", b"NONSENSE\r\n\r\n"]),
)


def is_parsed(data: bytes) -> bool:
    """Return whether the parser accepts a request."""
    try:
        httptools.HttpRequestParser(object()).feed_data(data)
    except httptools.HttpParserError:
        return False
    return True


@st.composite
def reads(draw: st.DrawFn) -> list[tuple[bytes, bool]]:
    """Draw what one connection brings, read by read, and where it waits for the replies."""
    found: list[bytes] = []
    requests = draw(st.lists(st.one_of(usual, usual, unusual), min_size=1, max_size=8))
    for data in requests:
        how = draw(st.sampled_from(["alone", "alone", "alone", "split", "joined"]))
        if how == "split":
            at = draw(st.integers(0, len(data)))
            found += [data[:at], data[at:]]
        elif how == "joined" and found:
            found[-1] += data
        else:
            found.append(data)
    # Bytes that cannot be parsed reject the request before them too, unless it is answered already;
    # the direct way answers it sooner.
    may_hurry = all(map(is_parsed, requests))
    waits = st.sampled_from([True, True, True, False]) if may_hurry else st.just(True)
    return [(data, draw(waits)) for data in found if data]


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        with connections_closed():
            await asyncio.wait_for(story(), 30)

    asyncio.run(main())


async def world(
    token: str | None = TOKEN, *, authenticator: Authenticator | None = None
) -> LocalApi:
    local = build_local_api(
        token=token, limits=HttpLimits(body_bytes_max=BODY_MAX), authenticator=authenticator
    )
    for name in NODES:
        await local.register(name)
    return local


async def outcome(arrived: Sequence[tuple[bytes, bool]], *, direct: bool) -> tuple[list[Any], int]:
    """Return what one connection does and leaves behind, and how many answers were direct."""
    local = await world()
    connection = HttpConnection(local.app, direct=direct)
    for data, waits in arrived:
        await connection.send(data, settle=waits)
    await connection.settle()
    replies = bytes(connection.transport.written)
    closed = connection.transport.is_closed
    connection.close()
    await connection.settle()
    local.desk.flush()
    left = [local.columns.metrics(NodeId(name)) for name in NODES]
    answered = getattr(connection.protocol, "answered", 0)
    return [replies, closed, local.desk.received, left], answered


def compare(arrived: list[tuple[bytes, bool]]) -> None:
    """Send the same bytes both ways; compare the replies and what is left."""

    async def story() -> None:
        direct, _ = await outcome(arrived, direct=True)
        ordinary, none = await outcome(arrived, direct=False)
        assert direct == ordinary
        assert none == 0

    run(story)
