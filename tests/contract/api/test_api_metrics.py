"""Metrics of calls: each protocol counts its methods and results."""

import asyncio

import pytest
from tests.support.exposition import values_of
from tests.support.local_api import build_local_api, call_app, serve_local_api
from tests.support.recording_metrics import RecordingMetrics

from navarch.agent.transport import open_link
from navarch.api.connect.handler import PREFIX
from navarch.api.metrics import PrometheusMetrics, render_metrics
from navarch.client.connect import connect_fleet
from navarch.client.grpc_link import grpc_link
from navarch.core.errors import NotFoundError
from navarch.core.health import HealthReport
from navarch.core.ids import NodeId

CALLS = "navarch_api_calls_total"
SECONDS = "navarch_api_call_seconds"

METHODS = {"http": "GET /v1/nodes/{node}", "grpc": "navarch.v1.FleetService/GetNode"}


@pytest.mark.parametrize("protocol", METHODS)
def test_calls_of_operators_count_by_method_and_result(protocol: str) -> None:
    async def main() -> None:
        metrics = RecordingMetrics()
        local = build_local_api(metrics=metrics)
        async with serve_local_api(local, http=protocol == "http", grpc=protocol == "grpc"):
            api = connect_fleet(local.http_url or local.grpc_url)
            await api.get_node(await local.register("gpu-1"))
            with pytest.raises(NotFoundError):
                await api.get_node(NodeId("nope"))
            await api.close()

        labels = {"protocol": protocol, "method": METHODS[protocol]}
        assert metrics.value(CALLS, **labels, result="ok") == 1
        assert metrics.value(CALLS, **labels, result="not_found") == 1
        assert len(metrics.observations(SECONDS, **labels)) == 2

    asyncio.run(asyncio.wait_for(main(), 30))


REPORTS = {"http": "POST /v1/agent/health", "grpc": "navarch.v1.AgentService/ReportHealth"}


@pytest.mark.parametrize("protocol", REPORTS)
def test_calls_of_agents_count_on_their_stream_too(protocol: str) -> None:
    async def main() -> None:
        metrics = RecordingMetrics()
        local = build_local_api(metrics=metrics)
        async with serve_local_api(local, http=protocol == "http", grpc=protocol == "grpc"):
            node = await local.register("gpu-1")
            if protocol == "http":
                link = open_link(local.http_url)
            else:
                link = grpc_link(local.grpc_url, lambda: None)
            await link.report_health(node, HealthReport(results=()))
            await link.close()

        labels = {"protocol": protocol, "method": REPORTS[protocol]}
        assert metrics.value(CALLS, **labels, result="ok") == 1

    asyncio.run(asyncio.wait_for(main(), 30))


def test_connect_calls_count_and_paths_that_do_not_exist_create_no_series() -> None:
    async def main() -> None:
        metrics = RecordingMetrics()
        app = build_local_api(metrics=metrics).app
        for body in (b'{"nodeId": "nope"}', b"{", b"{}"):
            await call_app(app, "POST", f"{PREFIX}GetNode", body, content_type="application/json")
        for path in (f"{PREFIX}Nope", "/v1/nope", "/v1/nodes/a/b/c/d"):
            await call_app(app, "POST", path, b"{}", content_type="application/json")

        labels = {"protocol": "connect", "method": "GetNode"}
        assert metrics.value(CALLS, **labels, result="not_found") == 1
        assert metrics.value(CALLS, **labels, result="invalid_argument") == 2
        assert metrics.series(CALLS) == 2

    asyncio.run(asyncio.wait_for(main(), 30))


def test_the_series_of_internal_errors_begin_at_zero() -> None:
    async def main() -> None:
        metrics = PrometheusMetrics()
        async with serve_local_api(build_local_api(metrics=metrics), http=False):
            text = b"".join(render_metrics(metrics.collect())).decode()
        methods = {key[:2] for key in values_of(text, CALLS) if key[2] == "internal"}
        for protocol in ("http", "grpc"):
            assert {(METHODS[protocol], protocol), (REPORTS[protocol], protocol)} <= methods
        assert ("GetNode", "connect") in methods

    asyncio.run(asyncio.wait_for(main(), 30))
