"""The HTTP server: probes, watches, errors and limits."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import aclosing
from datetime import timedelta
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.local_api import LocalApi, build_local_api, call_app, serve_local_api

from navarch.api.fleet_metrics import SLICE
from navarch.api.http.app import HttpLimits
from navarch.api.http.scrape import SCRAPES_MAX
from navarch.api.http.server import listen
from navarch.client.connect import connect_fleet
from navarch.core.errors import UnreachableError
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.instance import GpuMetrics, NodeMetrics
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.ports.store import Committed
from navarch.stores.memory import MemoryStore

JSON = "application/json"


def run_story(story: Callable[[LocalApi], Awaitable[None]], **settings: Any) -> None:  # noqa: ANN401
    asyncio.run(asyncio.wait_for(story(build_local_api(**settings)), 20))


def test_probes_respond_like_the_references() -> None:
    async def story(local: LocalApi) -> None:
        assert (await call_app(local.app, "GET", "/healthz")).body == b"ok"
        assert (await call_app(local.app, "GET", "/readyz")).body == b"ready"
        head = await call_app(local.app, "HEAD", "/healthz")
        assert (head.status, head.body) == (200, b"")
        assert (await call_app(local.app, "POST", "/healthz")).status == 405

    run_story(story)


def test_a_server_that_is_not_ready_returns_the_reason() -> None:
    async def story(local: LocalApi) -> None:
        answer = await call_app(local.app, "GET", "/readyz")
        assert (answer.status, answer.body) == (503, b"database not ready")

    async def missing() -> str | None:
        return "database not ready"

    run_story(story, ready=missing)


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return the samples of an exposition by name and label values."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_count_nodes_and_gpus() -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        await local.register("b", gpus=4)
        odd = evolve(local.store.fleet().nodes[NodeId("b")], id=NodeId('b"\n\\'))
        change = Change(nodes=[odd])  # A name that an earlier version has stored.
        await local.store.commit(change, based_on=local.store.fleet().revision)
        await local.fleet.cordon(NodeId("a"), reason="")
        reply = await call_app(local.app, "GET", "/metrics")
        found = samples(reply.body.decode())
        assert found["navarch_nodes_total", ("active",)] == 2
        assert found["navarch_nodes_total", ("cordoned",)] == 1
        assert found["navarch_nodes_total", ("terminated",)] == 0
        assert found["navarch_gpus_total", ("sim",)] == 16
        assert found["navarch_node_health_status", ("a", "unknown")] == 0
        assert found["navarch_node_health_status", ('b"\n\\', "unknown")] == 0
        assert reply.body.startswith(
            b"# HELP navarch_nodes_total Nodes by status.\n# TYPE navarch_nodes_total gauge\n"
        )

    run_story(story)


async def with_readings(local: LocalApi, nodes: int) -> None:
    """Register nodes that report the readings of eight GPUs."""
    metrics = NodeMetrics(gpus=(GpuMetrics(temperature_c=61.0),) * 8)
    for i in range(nodes):
        local.columns.record_heartbeat(await local.register(f"n-{i}"), metrics)


def test_the_readings_of_single_gpus_can_be_left_out() -> None:
    async def story(local: LocalApi) -> None:
        await with_readings(local, 1)
        text = (await call_app(local.app, "GET", "/metrics")).body.decode()
        kept = ("navarch_node_gpu_count", "navarch_node_health_status")
        assert all(f'{name}{{node_id="n-0"' in text for name in kept)
        assert ('gpu="7"' in text, "gpu_temperature" in text) == (exposed, exposed)

    for exposed in (True, False):
        run_story(story, per_gpu=exposed)


def test_a_scrape_lets_other_requests_run_between_its_slices() -> None:
    async def story(local: LocalApi) -> None:
        await with_readings(local, 3 * SLICE)
        scrape = asyncio.create_task(call_app(local.app, "GET", "/metrics"))
        served = 0
        while not scrape.done():
            await call_app(local.app, "GET", "/healthz")
            await asyncio.sleep(0)
            served += 1
        assert served > 24
        assert (await scrape).body.endswith(b'power_watts{node_id="n-383",gpu="7"} 0\n')

    run_story(story)


def test_a_scrape_too_many_is_refused_and_later_ones_are_not() -> None:
    async def story(local: LocalApi) -> None:
        await with_readings(local, 1)
        replies = await asyncio.gather(
            *(call_app(local.app, "GET", "/metrics") for _ in range(SCRAPES_MAX + 1))
        )
        assert [reply.status for reply in replies] == [200] * SCRAPES_MAX + [503]
        assert (await call_app(local.app, "GET", "/metrics")).status == 200
        assert (await call_app(local.app, "HEAD", "/metrics")).body == b""

    run_story(story)


def test_a_client_that_does_not_read_its_scrape_gets_an_incomplete_reply() -> None:
    async def story(local: LocalApi) -> None:
        await with_readings(local, 40)  # more than two parts
        sent: list[MutableMapping[str, Any]] = []

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)
            if len(sent) > 2:
                await asyncio.get_running_loop().create_future()

        scope = {"type": "http", "method": "GET", "path": "/metrics", "raw_path": b"/metrics"}
        scope["headers"] = [(b"host", b"localhost")]
        await local.app(scope, _never, send)
        assert (sent[0]["status"], sent[-1]["more_body"]) == (200, True)
        assert (await call_app(local.app, "HEAD", "/metrics")).status == 200

    run_story(story, limits=HttpLimits(answer_within=timedelta(seconds=0.05)))


async def _never() -> MutableMapping[str, Any]:
    raise AssertionError("a scrape has no body")


def test_a_scrape_over_a_connection_is_whole() -> None:
    async def story(local: LocalApi) -> None:
        await with_readings(local, 2 * SLICE)
        async with serve_local_api(local, grpc=False):
            port = int(local.http_url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /metrics HTTP/1.0\r\nhost: localhost\r\n\r\n")
            head, _, body = (await reader.read(-1)).partition(b"\r\n\r\n")
            writer.close()
        assert head.startswith(b"HTTP/1.1 200")
        assert body.count(b"navarch_node_gpu_power_watts{") == 2 * SLICE * 8

    run_story(story)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("GET", "/v1/nodes/x", "", 404, "node not found: x"),
        ("GET", "/nowhere", "", 404, "there is nothing at this path; see /openapi.json"),
        ("PATCH", "/v1/pools/a", "", 405, "PATCH is not possible here; use DELETE, GET, PUT"),
        ("POST", "/v1/nodes/a:explode", "{}", 405, None),
        ("GET", "/v1/nodes?colour=red", "", 400, "unknown parameter - at `$.colour`"),
        ("GET", "/v1/nodes?pool=a&pool=b", "", 400, "given twice - at `$.pool`"),
        ("GET", "/v1/nodes?label=a", "", 400, "a label is given as name=value - at `$.label`"),
        ("GET", "/v1/nodes?page_size=x", "", 400, "Expected `int`, got `str` - at `$.page_size`"),
        ("GET", "/v1/nodes?status=busy", "", 400, "Invalid enum value 'busy' - at `$.status`"),
        ("GET", "/v1/nodes/%ff", "", 400, "the path is not UTF-8"),
        ("GET", "/v1/events?limit=0", "", 400, "Expected `int` >= 1 - at `$.limit`"),
        ("GET", f"/v1/events?after={10**30}", "", 400, None),
        ("GET", "/v1/watch?after_revision=99", "", 409, None),
        ("GET", "/v1/pools?x=1", "", 400, None),
        ("POST", "/v1/nodes/a:cordon", '{"reason": 3}', 400, None),
        ("POST", "/v1/nodes/a:cordon", "{", 400, "Input data was truncated"),
        ("POST", "/v1/nodes/a:cordon", "[" * 10_000, 400, None),
        ("POST", "/v1/nodes/a:cordon", '{"reason": "a\\u0000"}', 400, None),
        (
            "PUT",
            "/v1/pools/p",
            '{"name":"p","nodes_min":0,"nodes_max":1,"offerings":[{"provider":"sim"}]}',
            400,
            "Object missing required field `instance_type` - at `$.offerings[0]`",
        ),
        (
            "PUT",
            "/v1/pools/p",
            '{"name":"q","nodes_min":0,"nodes_max":1,"offerings":[]}',
            400,
            "must be the name in the path - at `$.name`",
        ),
        (
            "PUT",
            "/v1/pools/p",
            '{"name":"p","nodes_min":0,"nodes_max":1,'
            '"offerings":[{"provider":"s","instance_type":"t","price_per_hour":"NaN"}]}',
            400,
            "is not a usable amount - at `$.offerings[0].price_per_hour`",
        ),
        (
            "PUT",
            "/v1/pools/p",
            '{"name":"p","nodes_min":0,"nodes_max":1,"boot_deadline":"P99999999D",'
            '"offerings":[{"provider":"s","instance_type":"t"}]}',
            400,
            "must be 0 to 3660 d - at `$.boot_deadline`",
        ),
        ("PUT", "/v1/pools/p", f'{{"name":"p","nodes_min":0,"nodes_max":{10**40}}}', 400, None),
        ("POST", "/v1/agent/register", '{"node":""}', 400, "node_id is required"),
        ("POST", "/v1/agent/heartbeat", '{"node":"x"}', 404, "node not found: x"),
        (
            "POST",
            "/v1/agent/health",
            '{"node":"a","report":{"results":[],"at":"2026-01-01T00:00:00"}}',
            400,
            "needs a time zone - at `$.report.at`",
        ),
    ],
)
def test_an_error_states_the_mistake_and_its_path(
    method: str, path: str, body: str, status: int, message: str | None
) -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        before = local.store.fleet().revision
        answer = await call_app(local.app, method, path, body.encode(), content_type=JSON)
        assert answer.status == status, answer.body
        assert set(answer.json) == {"code", "message"}
        if message is not None:
            assert answer.json["message"] == message
        assert local.store.fleet().revision == before

    run_story(story)


def test_a_body_needs_the_content_type_json() -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        body = b'{"reason":"x"}'
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            answer = await call_app(
                local.app, "POST", "/v1/nodes/a:cordon", body, content_type=kind
            )
            assert answer.status == 415
        assert local.store.fleet().nodes[NodeId("a")].cordoned is None

    run_story(story)


def test_a_page_of_another_site_is_rejected() -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        path = "/v1/nodes/a:cordon"
        evil = await call_app(
            local.app, "POST", path, origin="http://evil.example", host="localhost:50051"
        )
        own = await call_app(
            local.app, "POST", path, origin="http://localhost:50051", host="localhost:50051"
        )
        assert (evil.status, own.status) == (403, 200)

    run_story(story)


def test_a_body_over_the_limit_is_refused() -> None:
    async def story(local: LocalApi) -> None:
        for path in ("/v1/agent/register", "/navarch.ControlPlaneService/GetNode"):
            answer = await call_app(local.app, "POST", path, b" " * 101, content_type=JSON)
            assert answer.status == 413
            assert answer.headers["connection"] == "close"
        packed = await call_app(
            local.app, "POST", "/v1/agent/heartbeat", b" " * 101, content_type="application/proto"
        )
        assert packed.status == 413

    run_story(story, limits=HttpLimits(body_bytes_max=100))


def test_the_api_describes_itself() -> None:
    async def story(local: LocalApi) -> None:
        document = (await call_app(local.app, "GET", "/openapi.json")).json
        assert document["openapi"] == "3.1.0"
        operations = [op for path in document["paths"].values() for op in path.values()]
        names = [operation["operationId"] for operation in operations]
        assert len(names) == len(set(names))
        schemas = document["components"]["schemas"]
        for reference in references(document):
            assert reference.removeprefix("#/components/schemas/") in schemas
        cordon = document["paths"]["/v1/nodes/{node}:cordon"]["post"]
        assert cordon["parameters"][0]["in"] == "path"
        nodes = document["paths"]["/v1/nodes"]["get"]["parameters"]
        status = next(p["schema"] for p in nodes if p["name"] == "status")
        assert "cordoned" in status["enum"]
        assert "application/proto" in str(document["paths"]["/v1/agent/heartbeat"])

    run_story(story)


def references(value: object) -> list[str]:
    if isinstance(value, dict):
        found = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return found + [ref for item in value.values() for ref in references(item)]
    if isinstance(value, list):
        return [ref for item in value for ref in references(item)]
    return []


def test_a_browser_follows_events_and_resumes_after_the_last_one() -> None:
    async def story(local: LocalApi) -> None:
        for name in ("a", "b", "c"):
            await local.register(name)
        async with serve_local_api(local, grpc=False):
            host, port = local.http_url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                b"GET /v1/watch HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
                b"Last-Event-ID: 1\r\n\r\n"
            )
            text = (await reader.readuntil(b"id: 3\n")).decode()
            data = (await reader.readuntil(b"\n")).removeprefix(b"data: ")
            writer.close()
            assert "text/event-stream" in text
            assert "id: 2\n" in text
            assert "id: 1\n" not in text
            assert json.loads(data)["nodes"][0]["id"] == "c"

    run_story(story)


def test_a_server_that_stops_ends_its_watches() -> None:
    async def story(local: LocalApi) -> None:
        async with asyncio.timeout(30):
            async with serve_local_api(local, grpc=False):
                host, port = local.http_url.removeprefix("http://").split(":")
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"GET /v1/watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await reader.readuntil(b"\r\n\r\n")
            assert (await reader.read()).endswith(b"0\r\n\r\n")
            writer.close()

    run_story(story)


def test_an_endless_header_is_cut_off() -> None:
    async def story(local: LocalApi) -> None:
        async with serve_local_api(local, grpc=False):
            host, port = local.http_url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET / HTTP/1.1\r\nX: ")
            for _ in range(64):
                writer.write(b"y" * 2**14)
            answer = await reader.read(12)
            writer.close()
            assert answer == b"HTTP/1.1 431"

    run_story(story)


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        b"GET /v1/status HT",
        b"POST /v1/up HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
    ],
)
def test_a_request_that_does_not_arrive_is_cut_off(beginning: bytes) -> None:
    async def story(local: LocalApi) -> None:
        async with serve_local_api(local, grpc=False, request_within=timedelta(seconds=0.05)):
            host, port = local.http_url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(beginning)
            assert await reader.read() == b""
            writer.close()

    run_story(story)


def test_a_connection_serves_one_request_after_the_other() -> None:
    async def story(local: LocalApi) -> None:
        async with serve_local_api(local, grpc=False):
            host, port = local.http_url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            for _ in range(3):
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert (await reader.readuntil(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200")
            writer.close()

    run_story(story)


class CountingStore(MemoryStore):
    """A store that counts its subscriptions."""

    subscriptions = 0

    def subscribe(self, listener: Callable[[Committed], None]) -> Callable[[], None]:
        end = super().subscribe(listener)
        self.subscriptions += 1

        def end_and_count() -> None:
            self.subscriptions -= 1
            end()

        return end_and_count


def test_a_disconnected_watch_is_unsubscribed() -> None:
    store = CountingStore(Cluster(id="test", secret=bytes(32)))

    async def story(local: LocalApi) -> None:
        before = store.subscriptions
        async with serve_local_api(local):
            for url in (local.http_url, local.grpc_url):
                client = connect_fleet(url, None, 5.0)
                await local.register(f"for {url}")
                async with aclosing(cast("Any", client.watch(after_revision=0))) as updates:
                    await anext(updates)
                    assert store.subscriptions == before + 1
                await client.close()
                while store.subscriptions > before:  # noqa: ASYNC110
                    await asyncio.sleep(0)

    run_story(story, store=store)


def test_a_get_is_repeated_when_the_idle_connection_was_closed() -> None:
    async def story(_local: LocalApi) -> None:
        served = 0

        async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal served
            await reader.readuntil(b"\r\n\r\n")
            served += 1
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n" + b'{"items":[]}')
            # The next request on this connection gets no answer.
            await reader.read(1)
            writer.close()

        server = await asyncio.start_server(once, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            client = connect_fleet(f"http://127.0.0.1:{port}", None, 5.0)
            assert list(await client.list_pools()) == list(await client.list_pools()) == []
            assert served == 2
            with pytest.raises(UnreachableError, match="closed the connection"):
                await client.uncordon(NodeId("a"))
            await client.close()

    run_story(story)


def test_a_request_followed_by_garbage_is_not_carried_out() -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        async with serve_local_api(local, grpc=False):
            host, port = local.http_url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                b'POST /v1/nodes/a:cordon HTTP/1.1\r\nHost: localhost\r\n\r\n{"reason": "x"}'
            )
            assert (await reader.read()).startswith(b"HTTP/1.1 400")
            writer.close()
        assert local.store.fleet().nodes[NodeId("a")].cordoned is None

    run_story(story)


def test_the_body_of_a_response_is_sent_without_delay() -> None:
    listener = listen("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname()):
        listener.setblocking(True)
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
