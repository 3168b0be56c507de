"""The heartbeats of many nodes in one request."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc.aio
import pytest
from tests.support.heartbeats import GpuLoad, SampleBeat, packed
from tests.support.local_api import LocalApi, build_local_api, call_app, serve_local_api

from navarch.core.ids import NodeId
from navarch.core.limits import HEARTBEATS_PER_BATCH
from navarch.core.recovery import CommandKind
from navarch.wire.v1.agent_pb2 import HeartbeatBatchRequest, HeartbeatBatchResponse
from navarch.wire.v1.heartbeat_wire_pb2 import HeartbeatBatchWire

PATH = "/v1/agent/heartbeats"
PROTO = "application/proto"


def run_story(story: Callable[[LocalApi], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(build_local_api()), 20))


def batch(*beats: bytes) -> bytes:
    return HeartbeatBatchWire(heartbeats=beats).SerializeToString()


async def post(local: LocalApi, body: bytes) -> HeartbeatBatchResponse:
    answer = await call_app(local.app, "POST", PATH, body, content_type=PROTO)
    assert answer.status == 200, answer.body
    return HeartbeatBatchResponse.FromString(answer.body)


def test_each_heartbeat_of_a_batch_counts() -> None:
    async def story(local: LocalApi) -> None:
        names = [await local.register(f"n-{number}") for number in range(20)]
        beats = [
            packed(SampleBeat(node=name, gpus=[GpuLoad(temperature_c=place)]))
            for place, name in enumerate(names)
        ]
        message = HeartbeatBatchRequest.FromString(batch(*beats))
        reply = await post(local, message.SerializeToString())
        assert (reply.accepted, len(reply.results)) == (20, 0)
        local.desk.flush()
        for place, name in enumerate(names):
            kept = local.columns.metrics(name)
            assert kept is not None
            assert kept.gpus[0].temperature_c == place

    run_story(story)


def test_a_bad_heartbeat_does_not_affect_the_others() -> None:
    async def story(local: LocalApi) -> None:
        for name in ("a", "b"):
            await local.register(name)
        command = await local.fleet.issue(NodeId("b"), CommandKind.RUN_DIAGNOSTIC, {"level": "2"})
        good = [packed(SampleBeat(node=name)) for name in ("a", "b")]
        unequal = packed(SampleBeat(node="a", gpus=[])) + b"\x32\x04\0\0\0\0"
        sent = [b"\xff", good[0], packed(SampleBeat(node="x")), unequal, b"", good[1]]
        reply = await post(local, batch(*sent))
        assert reply.accepted == 2
        assert [(result.index, result.error.code) for result in reply.results] == [
            (0, "invalid_argument"),
            (2, "not_found"),
            (3, "invalid_argument"),
            (4, "invalid_argument"),
            (5, ""),
        ]
        assert reply.results[1].error.message == "node not found: x"
        (delivered,) = reply.results[-1].commands
        assert (delivered.command_id, dict(delivered.parameters)) == (command.id, {"level": "2"})
        assert local.desk.received == 2

    run_story(story)


def test_a_batch_above_the_limit_is_refused_as_a_whole() -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        beat = packed(SampleBeat(node="a", gpus=[]))
        full = await post(local, batch(*[beat] * HEARTBEATS_PER_BATCH.most))
        assert full.accepted == HEARTBEATS_PER_BATCH.most
        for body in (batch(*[beat] * (HEARTBEATS_PER_BATCH.most + 1)), b"\xff"):
            refused = await call_app(local.app, "POST", PATH, body, content_type=PROTO)
            assert (refused.status, refused.json["code"]) == (400, "invalid_argument")
        assert local.desk.received == HEARTBEATS_PER_BATCH.most

    run_story(story)


@pytest.mark.parametrize(
    ("method", "kind", "status"), [("POST", "application/json", 415), ("GET", PROTO, 405)]
)
def test_a_batch_of_another_form_is_refused(method: str, kind: str, status: int) -> None:
    async def story(local: LocalApi) -> None:
        answer = await call_app(local.app, method, PATH, b"{}", content_type=kind)
        assert answer.status == status

    run_story(story)


def test_grpc_takes_the_same_batch() -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a")
        body = batch(packed(SampleBeat(node="a")), b"\xff")
        over_http = await post(local, body)
        async with (
            serve_local_api(local, http=False),
            grpc.aio.insecure_channel(local.grpc_url.removeprefix("grpc://")) as channel,
        ):
            call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
            call = channel.unary_unary("/navarch.v1.AgentService/HeartbeatBatch")
            assert HeartbeatBatchResponse.FromString(await call(body)) == over_http
        assert local.desk.received == 2

    run_story(story)
