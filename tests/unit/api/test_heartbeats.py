"""Packed heartbeats: what comes in as bytes comes out as readings."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from types import NoneType
from typing import TypeVar, cast

import msgspec
import numpy as np
import pytest
from tests.support.local_api import LocalApi, build_local_api, call_app, serve_local_api

from navarch.api.heartbeat_formats import read_packed
from navarch.api.heartbeats import BATCH_MAX, HeartbeatDesk
from navarch.client.connection import ServerConnection, parse_address
from navarch.client.http import JSON
from navarch.core.access import ADMIN, Identity, acting_as
from navarch.core.errors import InvalidError, NotFoundError
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.instance import GpuMetrics, NodeMetrics, Sample
from navarch.core.node import NodeStatus
from navarch.core.records import evolve
from navarch.core.recovery import Command, CommandKind
from navarch.http.message import Response
from navarch.ports.agents import AgentApi, Registration, Welcome
from navarch.wire.bodies import (
    Arrival,
    Beat,
    Findings,
    LateReadings,
    Orders,
    Outcome,
    Standing,
)
from navarch.wire.v1.agent_pb2 import HeartbeatRequest, HeartbeatResponse

T = TypeVar("T")


@pytest.fixture(autouse=True)
def as_an_administrator() -> Iterator[None]:
    with acting_as(Identity(subject="test", grants=ADMIN)):
        yield


def code_in(answer: Response) -> str:
    return msgspec.json.decode(answer.body, type=dict[str, str])["code"]


def run_story(story: Callable[[LocalApi], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(build_local_api()), 20))


def packed(node: str, gpus: int, base: float = 50.0) -> HeartbeatRequest:
    return HeartbeatRequest(
        node_id=node,
        cpu_pct=12.5,
        memory_pct=25.0,
        temperature_c=[base + i for i in range(gpus)],
        power_w=[500.0 + i for i in range(gpus)],
        utilization_pct=[90.0] * gpus,
        memory_used_mib=[2.0] * gpus,
    )


def readings(gpus: int, base: float = 50.0) -> NodeMetrics:
    return NodeMetrics(
        cpu_pct=12.5,
        memory_pct=25.0,
        gpus=tuple(
            GpuMetrics(
                temperature_c=base + i,
                power_w=500.0 + i,
                utilization_pct=90.0,
                memory_used_bytes=2.0 * 2**20,
            )
            for i in range(gpus)
        ),
    )


def test_readings_arrive_with_the_next_tick() -> None:
    async def story(local: LocalApi) -> None:
        for name, gpus in (("a", 8), ("b", 4), ("c", 8), ("d", 16), ("e", 1)):
            await local.register(name)
            assert not local.desk.receive(read_packed(packed(name, gpus).SerializeToString()))
        local.desk.flush()
        for name, gpus in (("a", 8), ("b", 4), ("c", 8), ("d", 16), ("e", 1)):
            assert local.columns.metrics(NodeId(name)) == readings(gpus)

    run_story(story)


def test_the_later_of_two_heartbeats_counts() -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        for base in (40.0, 60.0):
            local.desk.receive(read_packed(packed("a", 8, base).SerializeToString()))
        local.desk.flush()
        assert local.columns.metrics(NodeId("a")) == readings(8, 60.0)

    run_story(story)


def test_unpacked_arrays_are_accepted() -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        loose = b"\x0a\x01a" + np.float32(12.5).tobytes().join((b"\x1d", b""))
        loose += b"\x25" + np.float32(25.0).tobytes()
        for field, name in ((5, "temperature_c"), (6, "power_w"), (7, "utilization_pct")):
            for value in getattr(packed("a", 8), name):
                loose += bytes([field << 3 | 5]) + np.float32(value).tobytes()
        for _ in range(8):
            loose += bytes([8 << 3 | 5]) + np.float32(2.0).tobytes()
        local.desk.receive(read_packed(loose))
        local.desk.flush()
        assert local.columns.metrics(NodeId("a")) == readings(8)

    run_story(story)


def test_impossible_numbers_become_zero() -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        beat = packed("a", 2)
        beat.temperature_c[0] = float("nan")
        beat.power_w[1] = float("inf")
        local.desk.receive(read_packed(beat.SerializeToString()))
        local.desk.flush()
        kept = local.columns.metrics(NodeId("a"))
        assert kept is not None
        assert (kept.gpus[0].temperature_c, kept.gpus[1].power_w) == (0.0, 0.0)

    run_story(story)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf"])
def test_a_reading_that_is_no_number_leaves_the_one_before(number: str) -> None:
    """A busy GPU must not look idle, and its node superfluous, because a sensor fails."""

    async def story(local: LocalApi) -> None:
        await local.register("a")
        local.desk.receive(read_packed(packed("a", 2).SerializeToString()))
        local.desk.flush()
        beat = packed("a", 2)
        beat.utilization_pct[0] = float(number)
        beat.cpu_pct = float(number)
        beat.temperature_c[0] = 99.0
        local.desk.receive(read_packed(beat.SerializeToString()))
        local.desk.flush()
        before, kept = readings(2), local.columns.metrics(NodeId("a"))
        assert kept is not None
        assert kept.cpu_pct == before.cpu_pct
        assert kept.gpus[0].utilization_pct == before.gpus[0].utilization_pct
        assert kept.gpus[0].temperature_c == 99.0

    run_story(story)


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", '"NaN"', "null", "1e999", "1e300"]
)
def test_a_json_reading_that_is_no_number_is_dropped_and_not_the_heartbeat(number: str) -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        first = b'{"node": "a", "metrics": {"cpu_pct": 5, "gpus": [{"utilization_pct": 50}]}}'
        gpu = f'{{"utilization_pct": {number}, "temperature_c": 61}}'
        second = f'{{"node": "a", "metrics": {{"cpu_pct": {number}, "gpus": [{gpu}]}}}}'
        for body in (first, second.encode()):
            answer = await call_app(
                local.app, "POST", "/v1/agent/heartbeat", body, content_type="application/json"
            )
            assert answer.status == 200, answer.body
            local.desk.flush()
        kept = local.columns.metrics(NodeId("a"))
        assert kept is not None
        assert (kept.cpu_pct, kept.gpus[0].utilization_pct, kept.gpus[0].temperature_c) == (
            5,
            50,
            61,
        )

    run_story(story)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"node": "a", "metrics": {"cpu_pct": "much"}}',
        b'{"node": "a", "metrics": NaN}',
        b'{"node": NaN}',
        b'{"node": "a", "metrics": {"gpus": [NaN]}}',
    ],
)
def test_a_json_heartbeat_of_another_shape_is_refused(body: bytes) -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        answer = await call_app(
            local.app, "POST", "/v1/agent/heartbeat", body, content_type="application/json"
        )
        assert (answer.status, answer.json["code"]) == (400, "invalid_argument")

    run_story(story)


def test_a_heartbeat_of_an_unregistered_node_is_not_found() -> None:
    async def story(local: LocalApi) -> None:
        with pytest.raises(NotFoundError, match="node not found: x"):
            local.desk.receive(read_packed(packed("x", 8).SerializeToString()))

    run_story(story)


@pytest.mark.parametrize(
    "change",
    [
        {"power_w": [1.0]},
        {"temperature_c": [1.0] * 9},
        {"temperature_c": [], "power_w": [], "utilization_pct": []},
    ],
)
def test_arrays_of_different_lengths_are_refused(change: dict[str, list[float]]) -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        beat = packed("a", 8)
        for name, values in change.items():
            del getattr(beat, name)[:]
            getattr(beat, name).extend(values)
        with pytest.raises(InvalidError, match="one value per GPU"):
            local.desk.receive(read_packed(beat.SerializeToString()))

    run_story(story)


def test_a_node_deleted_before_the_tick_is_ignored() -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        await local.register("b")
        for name in ("a", "b"):
            local.desk.receive(read_packed(packed(name, 8).SerializeToString()))
        local.columns.forget(NodeId("a"))
        local.desk.flush()
        assert local.columns.metrics(NodeId("a")) is None
        assert local.columns.metrics(NodeId("b")) == readings(8)

    run_story(story)


class JsonAgent:
    """A foreign agent: it posts records as JSON, and heartbeats as packed messages."""

    def __init__(self, url: str) -> None:
        self.connections = ServerConnection(parse_address(url), token=None, timeout_s=5.0)

    async def call(self, name: str, value: object, kind: type[T]) -> T:
        body = msgspec.json.encode(value)
        answer = await self.connections.request("POST", f"/v1/agent/{name}", body, JSON)
        assert 200 <= answer.status < 300, answer.body
        return msgspec.json.decode(answer.body or b"null", type=kind)

    async def packed_heartbeat(self, message: bytes) -> Response:
        path = "/v1/agent/heartbeat"
        return await self.connections.request("POST", path, message, "application/proto")


def test_replies_carry_commands_until_they_are_acknowledged() -> None:
    async def story(local: LocalApi) -> None:
        node = await local.register("a")
        command = await local.fleet.issue(node, CommandKind.RUN_DIAGNOSTIC, {"level": "2"})
        async with serve_local_api(local, grpc=False):
            agent = JsonAgent(local.http_url)
            body = packed("a", 8).SerializeToString()
            for _ in range(2):
                reply = HeartbeatResponse.FromString((await agent.packed_heartbeat(body)).body)
                (delivered,) = reply.commands
                assert (delivered.command_id, delivered.kind) == (command.id, "run_diagnostic")
                assert dict(delivered.parameters) == {"level": "2"}
            await agent.call("acknowledge", Arrival(node=node, command=command.id), NoneType)
            answer = await agent.packed_heartbeat(body)
            assert (answer.status, answer.body) == (200, b"")
            unknown = await agent.packed_heartbeat(packed("x", 8).SerializeToString())
            assert (unknown.status, code_in(unknown)) == (404, "not_found")
            malformed = await agent.packed_heartbeat(b"\xff")
            assert (malformed.status, code_in(malformed)) == (400, "invalid_argument")
            await agent.connections.close()

    run_story(story)


def test_an_agent_can_do_everything_in_json() -> None:
    async def story(local: LocalApi) -> None:
        async with serve_local_api(local, grpc=False):
            agent = JsonAgent(local.http_url)
            node = NodeId("a")
            welcome = await agent.call("register", Registration(node=node), Welcome)
            assert welcome.node == node
            command = await local.fleet.issue(node, CommandKind.RUN_DIAGNOSTIC)
            beat = Beat(node=node, metrics=evolve(readings(8)))
            assert (await agent.call("heartbeat", beat, Orders)).commands == (command,)
            local.desk.flush()
            assert local.columns.metrics(node) == readings(8)
            sample = Sample(at=command.issued_at, metrics=readings(8))
            await agent.call("metrics", LateReadings(node=node, samples=(sample,)), NoneType)
            sick = CheckResult(check="gpu", health=Health.UNHEALTHY)
            report = HealthReport(results=(sick,), stream="s", number=1)
            standing = await agent.call("health", Findings(node=node, report=report), Standing)
            assert standing.status is NodeStatus.UNHEALTHY
            outcome = Outcome(node=node, command=command.id, succeeded=True, result="fine")
            await agent.call("finish", outcome, NoneType)
            assert (await local.fleet.get_command(command.id)).result == "fine"
            await agent.connections.close()

    run_story(story)


class Nowhere:
    """A sink that only counts."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self, nodes: object, hosts: object, readings: np.ndarray) -> None:  # noqa: ARG002
        self.taken += len(readings)


class EveryNode:
    """A control plane in which every node has registered."""

    def heartbeat(self, node: NodeId) -> tuple[Command, ...]:  # noqa: ARG002
        return ()


def test_many_heartbeats_between_two_ticks_are_written_in_batches() -> None:
    sink = Nowhere()
    desk = HeartbeatDesk(cast("AgentApi", EveryNode()), sink)
    for _ in range(2):
        for number in range(BATCH_MAX - 1):
            desk.receive(read_packed(packed(f"n-{number}", 8).SerializeToString()))
    assert sink.taken == 0, "the later heartbeat of a node replaces the earlier"
    desk.receive(read_packed(packed("last", 8).SerializeToString()))
    assert sink.taken == BATCH_MAX
    assert desk.received == 2 * BATCH_MAX - 1
