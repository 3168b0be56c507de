"""Requests with too many values are refused over every protocol, before time is spent on them."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from time import process_time
from typing import Any

import grpc
import msgspec
import pytest
from google.protobuf.message import Message
from tests.support.local_api import LocalApi, build_local_api, call_app, serve_local_api

from navarch.core.limits import REQUEST_BYTES, VALUES_PER_REQUEST
from navarch.wire.reference import navarch_pb2 as reference
from navarch.wire.v1 import agent_pb2 as pb

TEXT = "above the limit of"
EMPTY_RESULTS = REQUEST_BYTES.most // 2 - 100
WITHIN_S = 1.0
"""CPU time, on a busy machine. Without the limits these requests take four seconds and more."""


async def json_facts(local: LocalApi) -> str:
    facts = {f"{i:x}": "" for i in range(95_000)}
    report = {"results": [{"check": "a", "health": "unhealthy", "facts": facts}]}
    return await post(
        local, "/v1/agent/health", msgspec.json.encode({"node": "a", "report": report})
    )


async def json_samples(local: LocalApi) -> str:
    sample = {"at": "2026-01-01T00:00:00Z", "metrics": {"gpus": [{}] * 20}}
    return await post(
        local, "/v1/agent/metrics", msgspec.json.encode({"node": "a", "samples": [sample] * 9000})
    )


async def json_labels(local: LocalApi) -> str:
    labels = {f"{i:x}": "" for i in range(95_000)}
    body = {"node": "b", "inventory": {"labels": labels}}
    return await post(local, "/v1/agent/register", msgspec.json.encode(body))


async def connect_json_results(local: LocalApi) -> str:
    body = json.dumps({"nodeId": "a", "results": [{}] * 200_000}).encode()
    return await post(local, "/navarch.ControlPlaneService/ReportHealth", body)


async def connect_results(local: LocalApi) -> str:
    message = reference.ReportHealthRequest(node_id="a", results=[{}] * EMPTY_RESULTS)
    path, form = "/navarch.ControlPlaneService/ReportHealth", "application/proto"
    return await post(local, path, message.SerializeToString(), form)


async def grpc_results(local: LocalApi) -> str:
    report = pb.HealthReport(results=[pb.CheckResult()] * EMPTY_RESULTS)
    return await call_grpc(local, "ReportHealth", pb.ReportHealthRequest(node="a", report=report))


async def grpc_facts(local: LocalApi) -> str:
    result = pb.CheckResult(facts={f"{i:x}": "" for i in range(95_000)})
    report = pb.HealthReport(results=[result])
    return await call_grpc(local, "ReportHealth", pb.ReportHealthRequest(node="a", report=report))


async def grpc_labels(local: LocalApi) -> str:
    inventory = pb.Inventory(labels={f"{i:x}": "" for i in range(95_000)})
    return await call_grpc(local, "Register", pb.Registration(node="b", inventory=inventory))


async def post(local: LocalApi, path: str, body: bytes, form: str = "application/json") -> str:
    assert len(body) <= REQUEST_BYTES.most
    answer = await call_app(local.app, "POST", path, body, content_type=form)
    assert answer.status == 400, answer.body[:200]
    return str(answer.json["message"])


async def call_grpc(local: LocalApi, name: str, message: Message) -> str:
    body = message.SerializeToString()
    assert len(body) <= REQUEST_BYTES.most
    async with serve_local_api(local, http=False):
        channel = grpc.aio.insecure_channel(local.grpc_url.removeprefix("grpc://"))
        call: Any = channel.unary_unary(f"/navarch.v1.AgentService/{name}")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(body)
        await channel.close()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, refused.value
    return refused.value.details() or ""


@pytest.mark.parametrize(
    "attack",
    [
        json_facts,
        json_samples,
        json_labels,
        connect_json_results,
        connect_results,
        grpc_results,
        grpc_facts,
        grpc_labels,
    ],
)
def test_a_request_with_too_many_values_is_refused_early(
    attack: Callable[[LocalApi], Awaitable[str]],
) -> None:
    async def story() -> None:
        local = build_local_api()
        await local.register("a")
        began = process_time()
        assert TEXT in await attack(local)
        assert process_time() - began < WITHIN_S
        assert list(local.store.fleet().nodes) == ["a"]

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_request_with_the_most_values_is_served() -> None:
    async def story() -> None:
        local = build_local_api()
        await local.register("a")
        count = (VALUES_PER_REQUEST.most - 10) // 8
        results = [{"check": f"c{i}", "health": "healthy"} for i in range(min(count, 2000))]
        body = msgspec.json.encode({"node": "a", "report": {"results": results}})
        answer = await call_app(
            local.app, "POST", "/v1/agent/health", body, content_type="application/json"
        )
        assert answer.status == 200, answer.body

    asyncio.run(story())
