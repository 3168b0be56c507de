"""A node that has departed: late samples of it are dropped, and every view of it still answers."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from tests.support.local_api import LocalApi, build_local_api, call_app, serve_local_api

from navarch.agent.transport import open_link
from navarch.client.connect import connect_fleet
from navarch.client.grpc_link import grpc_link
from navarch.clock import SystemClock, SystemEntropy
from navarch.core.fleet import Change
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.instance import Gpu, GpuMetrics, Inventory, NodeMetrics, Sample
from navarch.core.node import NodeStatus, Phase
from navarch.core.recovery import Command
from navarch.ports.agents import Link, Registration
from navarch.ports.api import FleetApi, Query, Update
from navarch.service.agents import AgentService
from navarch.service.fleet import FleetService
from navarch.testing.worlds import a_node, a_pool, indexed
from navarch.wire.v1 import agent_pb2 as pb

NODE = NodeId("training-0")
BUSY = NodeMetrics(
    cpu_pct=5.0,
    memory_pct=7.0,
    gpus=(GpuMetrics(temperature_c=60.0, power_w=300.0, utilization_pct=90.0),),
)
LATE = [Sample(at=datetime(2026, 1, 1, tzinfo=UTC), metrics=BUSY)]
REPORT = HealthReport(
    results=(CheckResult(check="gpu", health=Health.UNHEALTHY, reason="off the bus", fatal=True),)
)

Road = Callable[[LocalApi], Awaitable[Any]]


async def departed(local: LocalApi) -> None:
    """Register a bought machine, then terminate it until it is gone."""
    store, born = local.store, a_node(NODE, phase=Phase.BOOTING)
    await store.commit(Change(pools=[a_pool()], nodes=[born]), based_on=0)
    hardware = Inventory(gpus=(Gpu(index=0, uuid="GPU-0"),))
    await local.agents.register(Registration(node=NODE, inventory=hardware))
    local.agents.heartbeat(NODE, BUSY)
    await local.fleet.retire(NODE, reason="too old")
    for phase in (Phase.DRAINING, Phase.TERMINATING, Phase.GONE):
        node = store.fleet().nodes[NODE]
        change = Change(nodes=[node.move_to(phase, at=node.since)])
        await store.commit(change, based_on=store.fleet().revision)
    # The control plane does the same on the commit.
    local.columns.forget(NODE)


async def post(local: LocalApi, path: str, body: object) -> object:
    text = json.dumps(body).encode()
    answer = await call_app(local.app, "POST", path, text, content_type="application/json")
    assert answer.status == 200, answer.body
    return answer.json


@asynccontextmanager
async def http_link(local: LocalApi) -> AsyncIterator[Link]:
    async with serve_local_api(local, grpc=False):
        link = open_link(local.http_url, token=lambda: None)
        try:
            yield link
        finally:
            await link.close()


@asynccontextmanager
async def link_over_grpc(local: LocalApi) -> AsyncIterator[Link]:
    async with serve_local_api(local, http=False):
        link = grpc_link(local.grpc_url, lambda: None)
        try:
            yield link
        finally:
            await link.close()


async def in_process_beat(local: LocalApi) -> Sequence[Command]:
    return local.agents.heartbeat(NODE, BUSY)


async def in_process_samples(local: LocalApi) -> None:
    await local.agents.report_metrics(NODE, LATE)


async def json_beat(local: LocalApi) -> object:
    metrics = {"cpu_pct": 5.0, "memory_pct": 7.0, "gpus": [{"utilization_pct": 90.0}]}
    return await post(local, "/v1/agent/heartbeat", {"node": NODE, "metrics": metrics})


async def connect_beat(local: LocalApi) -> object:
    path = "/navarch.ControlPlaneService/SendHeartbeat"
    return await post(local, path, {"nodeId": NODE, "metrics": {"cpuUsagePercent": 5.0}})


async def packed_beat(local: LocalApi) -> Sequence[Command]:
    async with http_link(local) as link:
        return await link.heartbeat(NODE, BUSY)


async def http_samples(local: LocalApi) -> None:
    async with http_link(local) as link:
        await link.report_metrics(NODE, LATE)


async def grpc_beat(local: LocalApi) -> Sequence[Command]:
    async with link_over_grpc(local) as link:
        return await link.heartbeat(NODE, BUSY)


async def grpc_samples(local: LocalApi) -> None:
    async with link_over_grpc(local) as link:
        await link.report_metrics(NODE, LATE)


async def attached(local: LocalApi) -> None:
    """Send a heartbeat and old samples over one stream."""
    beat = pb.HeartbeatRequest(node_id=NODE, cpu_pct=5.0)
    samples = pb.ReportMetricsRequest(node=NODE)
    samples.samples.add().metrics.cpu_pct = 5.0
    samples.samples[0].at.FromDatetime(LATE[0].at)
    messages = [
        pb.AgentMessage(number=1, heartbeat=beat),
        pb.AgentMessage(number=2, report_metrics=samples),
    ]
    async with (
        serve_local_api(local, http=False),
        grpc.aio.insecure_channel(local.grpc_url.removeprefix("grpc://")) as channel,
    ):
        attach: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            "/navarch.v1.AgentService/Attach"
        )
        stream = attach(iter([message.SerializeToString() for message in messages]))
        answers = [pb.ControlMessage.FromString(body) async for body in stream]
    assert [answer.number for answer in answers] == [1, 2]
    assert not any(answer.HasField("error") for answer in answers), answers


ROADS: dict[str, Road] = {
    "in-process heartbeat": in_process_beat,
    "in-process samples": in_process_samples,
    "JSON heartbeat": json_beat,
    "Connect heartbeat": connect_beat,
    "packed heartbeat": packed_beat,
    "HTTP samples": http_samples,
    "gRPC heartbeat": grpc_beat,
    "gRPC samples": grpc_samples,
    "Attach": attached,
}


@asynccontextmanager
async def seen_through(protocol: str, local: LocalApi) -> AsyncIterator[FleetApi]:
    if protocol == "in-process":
        yield local.fleet
        return
    async with serve_local_api(local, http=protocol == "http", grpc=protocol == "grpc"):
        client = connect_fleet(local.http_url or local.grpc_url, None, 10.0)
        try:
            yield client
        finally:
            await client.close()


async def check_views(fleet: FleetApi) -> None:
    """List, get and watch a fleet with a node that has departed."""
    page = await fleet.list_nodes(Query(include_gone=True))
    assert [(node.id, node.status) for node in page.items] == [(NODE, NodeStatus.TERMINATED)]
    assert page.items[0].last_heartbeat is None
    detail = await fleet.get_node(NODE)
    assert (detail.node.phase, detail.metrics) == (Phase.GONE, None)
    watched: list[Update] = []
    async with aclosing(fleet.watch(after_revision=0)) as updates:  # type: ignore[type-var]
        async for update in updates:
            watched.append(update)
            if update.revision == page.revision:
                break
    assert {node.phase for update in watched for node in update.nodes} == {Phase.GONE}


def run(story: Callable[[LocalApi], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(build_local_api()), 30))


@pytest.mark.parametrize("road", ROADS)
def test_a_late_sample_of_a_departed_node_is_accepted_and_dropped(road: str) -> None:
    async def story(local: LocalApi) -> None:
        await departed(local)
        revision = local.store.fleet().revision

        await ROADS[road](local)
        local.desk.flush()

        assert len(local.columns) == 0
        assert (local.columns.last_heartbeat(NODE), local.columns.metrics(NODE)) == (None, None)
        assert local.store.fleet().revision == revision

    run(story)


@pytest.mark.parametrize("protocol", ["in-process", "http", "grpc"])
def test_a_departed_node_is_listed_shown_and_watched_after_its_late_samples(protocol: str) -> None:
    async def story(local: LocalApi) -> None:
        await departed(local)
        await local.agents.report_metrics(NODE, LATE)
        async with seen_through(protocol, local) as fleet:
            await check_views(fleet)

    run(story)


class Unreadable:
    """A table of readings with unreadable rows."""

    def last_heartbeat(self, node: NodeId) -> datetime | None:
        raise OverflowError(f"{node}: cannot convert float infinity to integer")

    def metrics(self, node: NodeId) -> NodeMetrics | None:
        raise OverflowError(f"{node}: cannot convert float infinity to integer")


def test_a_departed_node_is_listed_shown_and_watched_whatever_the_table_holds_of_it() -> None:
    async def story(local: LocalApi) -> None:
        await departed(local)
        await check_views(FleetService(SystemClock(), SystemEntropy(), local.store, Unreadable()))

    run(story)


class Table:
    """A table of readings that still has a row for every node."""

    def __init__(self) -> None:
        self.written: list[NodeId] = []

    def record_heartbeat(self, node: NodeId, _metrics: NodeMetrics | None) -> None:
        self.written.append(node)

    def record_late_samples(self, node: NodeId, _samples: Sequence[Sample]) -> None:
        self.written.append(node)


def test_a_late_sample_of_a_departed_node_reaches_no_table_of_readings() -> None:
    async def story(local: LocalApi) -> None:
        await departed(local)
        table = Table()
        agents = AgentService(SystemClock(), local.store, indexed(local.store), table)
        agents.heartbeat(NODE, BUSY)
        await agents.report_metrics(NODE, LATE)
        assert table.written == []

    run(story)


def test_a_late_report_of_a_departed_node_is_accepted_and_reaches_no_listener() -> None:
    async def story(local: LocalApi) -> None:
        await departed(local)
        fleet = local.store.fleet()
        reports: list[NodeId] = []
        agents = AgentService(
            SystemClock(),
            local.store,
            indexed(local.store),
            local.columns,
            on_report=lambda node, _report: reports.append(node),
        )
        assert await agents.report_health(NODE, REPORT) is NodeStatus.TERMINATED
        assert reports == []
        assert local.store.fleet() is fleet

    run(story)
