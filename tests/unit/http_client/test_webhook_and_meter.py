"""Notifications to a workload system, and queries to Prometheus, over HTTP."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import pytest
from tests.support.http_server import Server, serving

from navarch.clock import SystemClock
from navarch.core.errors import MetricsError, NotifierError
from navarch.core.ids import NodeId, PoolName
from navarch.meters.prometheus import PrometheusMeter, PrometheusQueries
from navarch.notifiers.webhook import WebhookUrls, WebhookWorkloads

NODE = NodeId("gpu-1")
SECRET = {"Authorization": "Bearer secret"}
T = TypeVar("T")


class Inline:
    """Runs a blocking call in place."""

    async def run(self, call: Callable[[], T]) -> T:
        return call()


def response(body: bytes = b"", status: str = "200 OK", header: str = "X: y") -> bytes:
    head = f"HTTP/1.1 {status}\r\n{header}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def webhook(server: Server) -> WebhookWorkloads:
    urls = WebhookUrls(
        cordon=f"http://{server.address}/cordon",
        drain_status=f"http://{server.address}/status?site=a",
        timeout=timedelta(seconds=5),
        headers=SECRET,
    )
    return WebhookWorkloads(SystemClock(), Inline(), urls)


def test_a_notification_is_posted_as_json_with_the_configured_headers() -> None:
    with serving(response()) as server:
        asyncio.run(webhook(server).cordon(NODE, "XID 79"))

    head, body = server.requests[0].split(b"\r\n\r\n")
    assert head.startswith(b"POST /cordon HTTP/1.1\r\n")
    assert b"\r\nAuthorization: Bearer secret" in head
    sent = json.loads(body)
    assert (sent["event"], sent["node_id"], sent["reason"]) == ("cordon", "gpu-1", "XID 79")


def test_a_notification_without_a_url_is_not_sent() -> None:
    with serving(response()) as server:
        asyncio.run(webhook(server).drain(NODE, "XID 79"))

    assert server.requests == []


@pytest.mark.parametrize("drained", [True, False])
def test_the_drain_status_is_read_from_the_response(drained: bool) -> None:
    with serving(response(json.dumps({"drained": drained}).encode())) as server:
        assert asyncio.run(webhook(server).is_drained(NODE)) is drained

    assert server.requests[0].startswith(b"GET /status?site=a&node_id=gpu-1 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (response(b"busy", "503 Unavailable"), "webhook returned 503: busy"),
        (response(b"", "307 Moved", "Location: http://other/"), "has moved to http://other/"),
        (response(b"yes"), "does not state whether the node is drained"),
        (b"", "closed the connection"),
    ],
)
def test_a_failed_query_for_the_drain_status_is_an_error(reply: bytes, words: str) -> None:
    with serving(reply) as server, pytest.raises(NotifierError, match=words):
        asyncio.run(webhook(server).is_drained(NODE))


def test_a_redirect_does_not_carry_the_credentials_elsewhere() -> None:
    with serving(response()) as elsewhere:
        moved = response(b"", "302 Found", f"Location: http://{elsewhere.address}/")
        with serving(moved) as server, pytest.raises(NotifierError, match="has moved to"):
            asyncio.run(webhook(server).cordon(NODE, "XID 79"))

    assert elsewhere.requests == []


def meter(server: Server) -> PrometheusMeter:
    queries = PrometheusQueries(
        url=f"http://{server.address}/", utilization='avg(u{pool="$pool"})', headers=SECRET
    )
    return PrometheusMeter(Inline(), queries)


def test_prometheus_is_queried_for_each_metric_with_a_query() -> None:
    answer = b'{"status":"success","data":{"resultType":"scalar","result":[1.5,"7"]}}'
    with serving(response(answer)) as server:
        metrics = asyncio.run(meter(server).pool_metrics(PoolName("a")))

    assert (metrics.utilization, metrics.pending_jobs) == (7.0, 0)
    (request,) = server.requests
    assert request.startswith(
        b"GET /api/v1/query?query=avg%28u%7Bpool%3D%22a%22%7D%29 HTTP/1.1\r\n"
    )
    assert b"Authorization: Bearer secret" in request


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (response(b'{"status":"error","error":"parse error"}', "400 Bad"), "parse error"),
        (response(b"", "302 Found", "Location: http://other/"), "has moved to http://other/"),
        (b"", "closed the connection"),
    ],
)
def test_a_failed_query_to_prometheus_is_an_error(reply: bytes, words: str) -> None:
    with serving(reply) as server, pytest.raises(MetricsError, match=words):
        asyncio.run(meter(server).pool_metrics(PoolName("a")))
