"""Malformed input is refused as the caller's mistake, never an internal error."""

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from tests.support.local_api import LocalApi, build_local_api, call_app, serve_local_api

from navarch.api.heartbeat_formats import read_packed
from navarch.core.errors import InvalidError
from navarch.wire.v1.heartbeat_wire_pb2 import HeartbeatWire

TOKEN = "the-token-of-this-test"
PROTO = "application/x-protobuf"


def heartbeats() -> Iterator[bytes]:
    """Yield heartbeats that no agent sends."""
    yield HeartbeatWire(node_id="a", power_w=bytes(67)).SerializeToString()
    yield HeartbeatWire(node_id="a" * 70).SerializeToString() + b"\x2a"
    for lengths in ((8, 4, 12, 8), (3, 3, 3, 3), (4, 4, 4, 0), (0, 68, 0, 0), (1, 1, 1, 1)):
        temperature, power, use, memory = map(bytes, lengths)
        yield HeartbeatWire(
            node_id="a",
            temperature_c=temperature,
            power_w=power,
            utilization_pct=use,
            memory_used_mib=memory,
        ).SerializeToString()
    yield bytes(100)
    yield b"\xff" * 100


@pytest.mark.parametrize("body", list(heartbeats()))
def test_a_malformed_heartbeat_is_the_senders_mistake_over_http_and_grpc(body: bytes) -> None:
    async def story(local: LocalApi) -> None:
        await local.register("a", gpus=1)
        answer = await call_app(local.app, "POST", "/v1/agent/heartbeat", body, content_type=PROTO)
        assert answer.status in (400, 404), answer.body
        with pytest.raises(InvalidError):
            local.desk.receive(read_packed(body))
        async with serve_local_api(local, http=False):
            channel = grpc.aio.insecure_channel(local.grpc_url.removeprefix("grpc://"))
            call: Any = channel.unary_unary("/navarch.v1.AgentService/Heartbeat")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(body)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            await channel.close()
        local.desk.flush()

    asyncio.run(asyncio.wait_for(story(build_local_api()), 30))


@pytest.mark.parametrize("shown", [[TOKEN, "wrong"], ["wrong", TOKEN], [TOKEN, TOKEN]])
def test_two_credentials_are_refused_whichever_is_valid(shown: list[str]) -> None:
    """A proxy may check one of them, and the server the other."""

    async def story(local: LocalApi) -> None:
        async with serve_local_api(local):
            lines = "".join(f"Authorization: Bearer {each}\r\n" for each in shown)
            host, _, port = local.http_url.removeprefix("http://").partition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"GET /v1/status HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
            assert (await reader.readline()).startswith(b"HTTP/1.1 401")
            writer.close()
            channel = grpc.aio.insecure_channel(local.grpc_url.removeprefix("grpc://"))
            call: Any = channel.unary_unary("/navarch.v1.AgentService/Heartbeat")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(b"", metadata=[("authorization", f"Bearer {each}") for each in shown])
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            await channel.close()

    asyncio.run(asyncio.wait_for(story(build_local_api(token=TOKEN)), 30))
