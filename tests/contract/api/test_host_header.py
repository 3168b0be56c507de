"""The Host headers that a server without a token serves, over real sockets on every path."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.local_api import LocalApi, build_local_api, serve_local_api

from navarch.agent.transport import open_link
from navarch.api.connect.handler import PREFIX
from navarch.api.http.app import OPENAPI, PROBES
from navarch.api.http.heartbeats import PATH as HEARTBEAT
from navarch.client.connect import connect_fleet
from navarch.core.errors import NavarchError, UnreachableError
from navarch.core.ids import NodeId
from navarch.wire.reference import navarch_pb2
from navarch.wire.v1 import agent_pb2

JSON, PROTO = "application/json", "application/proto"
EVIL = "Host: evil.example:51200"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One request that the server serves for a loopback host."""

    method: str
    path: str
    body: bytes = b""
    kind: str = JSON
    accept: str = "*/*"

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.kind} {self.accept}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int
    kind: str
    body: bytes


def a_beat() -> bytes:
    return agent_pb2.HeartbeatRequest(node_id="a").SerializeToString()


ROUTES = (
    Route(method="GET", path="/v1/status"),
    Route(method="GET", path="/v1/nodes/a"),
    Route(method="POST", path="/v1/nodes/a:cordon", body=b'{"reason": "x"}'),
    Route(method="POST", path="/v1/up", body=b'{"name": "p", "gpus": 8, "gpu_type": "h100"}'),
    Route(method="GET", path="/v1/watch?after_revision=0"),
    Route(method="GET", path="/v1/watch?after_revision=0", accept="text/event-stream"),
    Route(method="POST", path=HEARTBEAT, body=b'{"node": "a"}'),
    Route(method="POST", path=HEARTBEAT, body=a_beat(), kind=PROTO),
    Route(method="POST", path=f"{PREFIX}ListNodes", body=b"{}"),
    Route(method="POST", path=f"{PREFIX}ListNodes", kind=PROTO),
    Route(method="POST", path=f"{PREFIX}GetNode", body=b'{"nodeId": "a"}'),
    Route(method="GET", path=OPENAPI),
    *(Route(method="GET", path=path) for path in PROBES),
)

LOOPBACK = (
    "localhost",
    "localhost:50051",
    "LocalHost:1",
    "localhost.",
    "localhost.:50051",
    "127.0.0.1",
    "127.0.0.1:",
    "127.0.0.1:65535",
    "127.255.255.254:8080",
    "[::1]",
    "[::1]:50051",
)

FOREIGN = (
    "evil.example",
    "evil.example:51200",
    "",
    ":50051",
    "localhost.evil.example",
    "evil.localhost",
    "localhost..",
    "localhost:80:80",
    "localhost:x",
    "localhost/",
    "127.0.0.1.evil.example",
    "127.0.0.1.",
    "127.0.0.1@evil.example",
    "evil.example@127.0.0.1",
    "127.0.0.1, evil.example",
    "127.0.0.1 evil.example",
    "127.0.0.256",
    "127.0.0.01",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "128.0.0.1",
    "0.0.0.0:50051",
    "10.0.0.5:50051",
    "::1",
    "[::]",
    "[::2]",
    "[::1",
    "[::ffff:127.0.0.1]",
    "[127.0.0.1]",
    "l\xf6calhost",
)

REFUSED_HEADS = (
    (),
    *((f"Host: {host}",) for host in FOREIGN),
    ("Host: 127.0.0.1", "Host: 127.0.0.1"),
    ("Host: 127.0.0.1", EVIL),
    (EVIL, "Host: 127.0.0.1"),
    (EVIL, "Origin: http://evil.example:51200"),
    (EVIL, "X-Forwarded-Host: localhost", "Forwarded: host=localhost"),
)


Story = Callable[[LocalApi, int], Awaitable[None]]
RunStory = Callable[[Story], None]


@contextmanager
def running(token: str | None = None) -> Iterator[RunStory]:
    """Serve until the block ends; starting and stopping a server takes longer than a story."""

    async def serve(up: asyncio.Future[LocalApi], done: asyncio.Event) -> None:
        local = build_local_api(token=token)
        await local.register("a")
        async with serve_local_api(local, grpc=False):
            up.set_result(local)
            await done.wait()

    async def main(story: Story) -> None:
        local = await up
        async with asyncio.timeout(30):
            await story(local, int(local.http_url.rpartition(":")[2]))

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        up, done = loop.create_future(), asyncio.Event()
        serving = loop.create_task(serve(up, done))
        yield lambda story: runner.run(main(story))
        done.set()
        loop.run_until_complete(serving)


@pytest.fixture(scope="module")
def run_story() -> Iterator[RunStory]:
    with running() as run:
        yield run


@pytest.fixture(scope="module")
def run_story_with_token() -> Iterator[RunStory]:
    with running(token="s3cret") as run:
        yield run


async def send(
    port: int, route: Route, *head: str, target: str | None = None, version: str = "1.1"
) -> Response:
    """Send one request verbatim, and return the response."""
    lines = [
        f"{route.method} {target or route.path} HTTP/{version}",
        *head,
        f"Content-Type: {route.kind}",
        f"Accept: {route.accept}",
        f"Content-Length: {len(route.body)}",
    ]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + route.body)
        first, *fields = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        headers = {
            name.lower(): value.strip()
            for name, _, value in (field.partition(":") for field in fields if field)
        }
        if route.method == "HEAD":
            body = b""
        elif route.path == "/metrics" and first.endswith(" 200 OK"):
            body = await reader.readuntil(b"\r\n0\r\n\r\n")
        else:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
    finally:
        writer.close()
    return Response(status=int(first.split()[1]), kind=headers["content-type"], body=body)


def assert_refused(response: Response, port: int) -> None:
    assert (response.status, response.kind) == (421, JSON), response
    problem = json.loads(response.body)
    assert problem["code"] == "permission_denied"
    assert "Host" in problem["message"]
    assert "set NAVARCH_AUTH_TOKEN" in problem["message"]
    assert f"http://127.0.0.1:{port}" in problem["message"]


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_a_loopback_host_is_served_on_every_path(route: Route, run_story: RunStory) -> None:
    async def story(_doors: LocalApi, port: int) -> None:
        for host in LOOPBACK:
            response = await send(port, route, f"Host: {host}")
            assert response.status == 200, (host, response)

    run_story(story)


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_any_other_host_is_rejected_on_every_path_and_changes_nothing(
    route: Route, run_story: RunStory
) -> None:
    async def story(local: LocalApi, port: int) -> None:
        before, received = local.store.fleet(), local.desk.received
        for head in REFUSED_HEADS:
            assert_refused(await send(port, route, *head), port)
        assert_refused(await send(port, route, version="1.0"), port)
        assert local.store.fleet() is before
        assert local.desk.received == received

    run_story(story)


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_the_host_in_an_absolute_target_must_be_the_one_in_the_header(
    route: Route, run_story: RunStory
) -> None:
    async def story(_doors: LocalApi, port: int) -> None:
        own = f"127.0.0.1:{port}"
        for named in ("evil.example", "evil.example:51200", f"x@{own}", "127.0.0.1:1"):
            target = f"http://{named}{route.path}"
            assert_refused(await send(port, route, f"Host: {own}", target=target), port)
        evil = f"http://evil.example:51200{route.path}"
        assert_refused(await send(port, route, EVIL, target=evil), port)
        assert_refused(await send(port, route, target=f"http://{own}{route.path}"), port)
        same = await send(port, route, f"Host: {own}", target=f"HTTP://{own}{route.path}")
        assert same.status == 200

    run_story(story)


def every_road(document: dict[str, Any]) -> Iterator[Route]:
    """Yield every operation of the API description, and the routes that it omits."""
    for path, operations in document["paths"].items():
        for method in operations:
            for kind in (JSON, PROTO):
                plain = path.replace("{", "").replace("}", "")
                yield Route(method=method.upper(), path=plain, kind=kind)
    service = navarch_pb2.DESCRIPTOR.services_by_name["ControlPlaneService"]
    for call in service.methods:
        for kind in (JSON, PROTO):
            yield Route(method="POST", path=f"{PREFIX}{call.name}", kind=kind)
    for path in (*PROBES, OPENAPI, "/", "/nowhere", "/v1/nowhere", f"{PREFIX}Nowhere"):
        for method in ("GET", "HEAD", "POST", "OPTIONS"):
            yield Route(method=method, path=path)


def test_every_route_checks_the_host(run_story: RunStory) -> None:
    async def story(local: LocalApi, port: int) -> None:
        described = await send(port, Route(method="GET", path=OPENAPI), "Host: localhost")
        routes = list(every_road(json.loads(described.body)))
        assert len(routes) > 100
        before, received = local.store.fleet(), local.desk.received
        for route in routes:
            response = await send(port, route, EVIL)
            assert response.status == 421, route
            if route.method != "HEAD":
                assert_refused(response, port)
        assert local.store.fleet() is before
        assert local.desk.received == received

    run_story(story)


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_a_server_with_a_token_serves_every_host(
    route: Route, run_story_with_token: RunStory
) -> None:
    async def story(_doors: LocalApi, port: int) -> None:
        token = "Authorization: Bearer s3cret"
        for host in ("navarch.example.com", "10.0.0.5:50051", "localhost"):
            assert (await send(port, route, token, f"Host: {host}")).status == 200
        target = f"http://navarch.example.com{route.path}"
        served = await send(port, route, token, "Host: navarch.example.com", target=target)
        assert served.status == 200

    run_story_with_token(story)


def test_a_connection_with_a_rejected_request_still_serves_loopback(run_story: RunStory) -> None:
    async def story(_doors: LocalApi, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for host, status in (("evil.example", b"421"), ("localhost", b"200")):
            writer.write(f"GET /v1/status HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.split()[1] == status
            await reader.readexactly(int(head.lower().split(b"content-length:")[1].split()[0]))
        writer.close()

    run_story(story)


def test_clients_and_agents_get_a_remedy_and_agents_retry(run_story: RunStory) -> None:
    async def story(local: LocalApi, port: int) -> None:
        received = local.desk.received
        # The system resolves 127.1 to loopback, as it would resolve a name of an attacker.
        client = connect_fleet(f"http://127.1:{port}", None, 5.0)
        with pytest.raises(NavarchError, match=f"http://127.0.0.1:{port}.*NAVARCH_AUTH_TOKEN"):
            await client.status()
        await client.close()
        link = open_link(f"http://127.1:{port}", token=lambda: "")
        with pytest.raises(UnreachableError, match="NAVARCH_AUTH_TOKEN") as raised:
            await link.heartbeat(NodeId("a"), None)
        assert raised.type is UnreachableError
        await link.close()
        assert local.desk.received == received

    run_story(story)


@pytest.mark.parametrize("kind", ["application/grpc", "application/grpc-web", JSON])
def test_the_grpc_port_serves_no_request_of_a_browser(kind: str) -> None:
    async def story() -> None:
        local = build_local_api()
        node = await local.register("a")
        async with serve_local_api(local, http=False):
            port = int(local.grpc_url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(
                f"POST /navarch.v1.FleetService/Cordon HTTP/1.1\r\n{EVIL}\r\n"
                f"Content-Type: {kind}\r\nContent-Length: 8\r\n\r\n".encode()
                + b"\0\0\0\0\3\x0a\1a"
            )
            answer = await reader.read()
            writer.close()
            assert not answer.startswith(b"HTTP/1.1 2")
        assert local.store.fleet().nodes[node].cordoned is None

    asyncio.run(asyncio.wait_for(story(), 30))
