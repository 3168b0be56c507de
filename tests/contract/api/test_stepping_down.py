"""A leader that steps down acknowledges nothing more, and the ports stay open."""

import asyncio
from typing import Any

import grpc
import pytest
from tests.support.heartbeats import SampleBeat, packed
from tests.support.local_api import build_local_api

from navarch.api.grpc.agents import SERVICE
from navarch.api.grpc.server import GrpcPort, LocalCalls
from navarch.wire.v1 import agent_pb2 as pb


def a_message(number: int) -> bytes:
    beat = pb.HeartbeatRequest.FromString(packed(SampleBeat(node="gpu-1")))
    return pb.AgentMessage(number=number, heartbeat=beat).SerializeToString()


class Nothing:
    """Answers no call."""

    def close(self) -> None:
        pass

    async def handler(self, _continuation: object, _details: object) -> None:
        return None


def test_a_stream_of_an_agent_ends_without_an_acknowledgement_when_the_leader_steps_down() -> None:
    async def main() -> None:
        local = build_local_api()
        await local.register("gpu-1")
        calls = LocalCalls(
            local.fleet, local.guarded_agents, auth=local.auth, desk=local.desk, calls=local.calls
        )
        port = GrpcPort(calls, address="127.0.0.1:0")
        async with (
            asyncio.TaskGroup() as tasks,
            grpc.aio.insecure_channel(f"127.0.0.1:{port.port}") as channel,
        ):
            running = tasks.create_task(port.run())
            stream: Any = channel.stream_stream(f"/{SERVICE}/Attach")()
            await stream.write(a_message(1))
            reply = pb.ControlMessage.FromString(await stream.read())
            assert (reply.number, reply.WhichOneof("answer")) == (1, "heartbeat")
            received = local.desk.received

            port.become(Nothing())
            await stream.write(a_message(2))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stream.read()
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert "repeat what was not acknowledged" in (caught.value.details() or "")
            assert local.desk.received == received
            await asyncio.wait_for(calls.ended(), 5)
            running.cancel()

    asyncio.run(asyncio.wait_for(main(), 30))
