"""Every encoding of a heartbeat has the same effect and the same refusals."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
import grpc.aio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.heartbeats import (
    FORMS,
    MIB,
    Form,
    GpuLoad,
    SampleBeat,
    packed,
)
from tests.support.local_api import H100, LocalApi, build_local_api, call_app, serve_local_api

from navarch.api.heartbeats import GPUS_MAX
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.instance import NodeMetrics
from navarch.core.launch import Launch
from navarch.core.node import Phase
from navarch.core.records import evolve
from navarch.wire.v1 import agent_pb2 as pb

UNARY = "grpc"
STREAM = "grpc-stream"
ENCODINGS = (*(form.name for form in FORMS), UNARY, STREAM)
NODE = NodeId("gpu-1")

gpu_loads = st.builds(
    GpuLoad,
    temperature_c=st.integers(0, 120),
    power_w=st.integers(0, 1500),
    utilization_pct=st.floats(0, 100, width=32),
    memory_used_mib=st.integers(0, 200_000),
)
beats = st.builds(
    SampleBeat,
    node=st.just(NODE),
    gpus=st.lists(gpu_loads, max_size=16),
    cpu_pct=st.floats(0, 100, width=32),
    memory_pct=st.floats(0, 100, width=32),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the sender of a heartbeat is told."""

    code: str = "ok"
    message: str = ""


Send = Callable[[SampleBeat], Awaitable[Outcome]]


@asynccontextmanager
async def sender(local: LocalApi, encoding: str) -> AsyncIterator[Send]:
    """Yield what sends a heartbeat in one encoding."""
    form = next((form for form in FORMS if form.name == encoding), None)
    if form is not None:
        yield _over_http(local, form)
        return
    async with (
        serve_local_api(local, http=False),
        grpc.aio.insecure_channel(local.grpc_url.removeprefix("grpc://")) as channel,
    ):
        if encoding == UNARY:
            yield _over_grpc(channel)
            return
        attach: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
        attach = channel.stream_stream("/navarch.v1.AgentService/Attach")
        stream = attach()
        yield _over_stream(stream)
        await stream.done_writing()


def _over_http(local: LocalApi, form: Form) -> Send:
    async def send(beat: SampleBeat) -> Outcome:
        answer = await call_app(
            local.app, "POST", form.path, form.encode(beat), content_type=form.content_type
        )
        if answer.status == 200:
            assert answer.headers["content-type"] == form.content_type
            return Outcome()
        return Outcome(**answer.json)

    return send


def _over_grpc(channel: grpc.aio.Channel) -> Send:
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
    call = channel.unary_unary("/navarch.v1.AgentService/Heartbeat")

    async def send(beat: SampleBeat) -> Outcome:
        try:
            await call(packed(beat))
        except grpc.aio.AioRpcError as error:
            return Outcome(code=error.code().name.lower(), message=error.details() or "")
        return Outcome()

    return send


def _over_stream(stream: "grpc.aio.StreamStreamCall[bytes, bytes]") -> Send:
    async def send(beat: SampleBeat) -> Outcome:
        message = pb.AgentMessage(number=1)
        message.heartbeat.ParseFromString(packed(beat))
        await stream.write(message.SerializeToString())
        reply = await stream.read()
        assert isinstance(reply, bytes)
        answer = pb.ControlMessage.FromString(reply)
        if answer.WhichOneof("answer") == "heartbeat":
            return Outcome()
        return Outcome(code=answer.error.code, message=answer.error.message)

    return send


async def effect(encoding: str, sent: list[SampleBeat]) -> NodeMetrics | None:
    """Return the readings of the node after it has sent heartbeats in one encoding."""
    local = build_local_api()
    await local.register(NODE)
    before = local.columns.last_heartbeat(NODE)
    async with sender(local, encoding) as send:
        for beat in sent:
            assert await send(beat) == Outcome()
    assert local.desk.received == len(sent)
    local.desk.flush()
    heard = local.columns.last_heartbeat(NODE)
    assert before is not None
    assert heard is not None
    assert heard > before
    return local.columns.metrics(NODE)


@settings(max_examples=25, deadline=None)
@given(st.lists(beats, min_size=1, max_size=3))
def test_every_http_encoding_leads_to_the_same_readings(sent: list[SampleBeat]) -> None:
    async def story() -> None:
        found = [await effect(form.name, sent) for form in FORMS]
        assert all(each == found[0] for each in found), found
        assert found[0] is not None
        last = sent[-1]
        assert found[0].cpu_pct == last.cpu_pct
        for gpu, load in zip(found[0].gpus, last.gpus, strict=True):
            assert (gpu.temperature_c, gpu.power_w) == (load.temperature_c, load.power_w)
            assert gpu.utilization_pct == load.utilization_pct
            assert gpu.memory_used_bytes == load.memory_used_mib * MIB

    asyncio.run(story())


def test_grpc_leads_to_the_same_readings() -> None:
    sent = [SampleBeat(node=NODE, gpus=[GpuLoad(temperature_c=t) for t in range(8)])]

    async def story() -> None:
        plain = await effect("json", sent)
        assert plain is not None
        assert [gpu.temperature_c for gpu in plain.gpus] == list(range(8))
        for encoding in (UNARY, STREAM):
            assert await effect(encoding, sent) == plain, encoding

    asyncio.run(asyncio.wait_for(story(), 20))


def run_story(encoding: str, story: Callable[[LocalApi, Send], Awaitable[None]]) -> None:
    async def run() -> None:
        local = build_local_api()
        async with sender(local, encoding) as send:
            await story(local, send)

    asyncio.run(asyncio.wait_for(run(), 20))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    ("node", "code", "message"),
    [
        ("x", "not_found", "node not found: x"),
        ("", "invalid_argument", "node_id is required"),
        ("a\0b", "invalid_argument", "must not contain a NUL - at `$.node`"),
    ],
)
def test_a_node_that_cannot_be_found_is_refused_alike(
    encoding: str, node: str, code: str, message: str
) -> None:
    async def story(local: LocalApi, send: Send) -> None:
        await local.register(NODE)
        assert await send(SampleBeat(node=node)) == Outcome(code=code, message=message)
        assert local.desk.received == 0

    run_story(encoding, story)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_more_gpus_than_any_machine_has_are_refused(encoding: str) -> None:
    async def story(local: LocalApi, send: Send) -> None:
        await local.register(NODE)
        assert await send(SampleBeat(node=NODE, gpus=[GpuLoad()] * GPUS_MAX)) == Outcome()
        refused = await send(SampleBeat(node=NODE, gpus=[GpuLoad()] * (GPUS_MAX + 1)))
        assert refused.code == "invalid_argument"
        assert f"{GPUS_MAX}" in refused.message
        assert "GPU" in refused.message

    run_story(encoding, story)


async def store_as_bought(local: LocalApi, phase: Phase = Phase.READY) -> None:
    """Give the node a machine, as the control loops would have."""
    node = local.store.fleet().nodes[NODE]
    launch = Launch(
        token=Token("launch-1"),
        node=NODE,
        pool=PoolName("training"),
        offering=H100,
        asked_at=node.created_at,
        instance=InstanceId("i-123"),
        launched_at=node.created_at,
    )
    after = evolve(node, pool=launch.pool, launch=launch, offering=None, phase=phase)
    await local.store.commit(Change(nodes=[after]), based_on=local.store.fleet().revision)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_agent_may_go_by_the_name_of_its_machine(encoding: str) -> None:
    async def story(local: LocalApi, send: Send) -> None:
        await local.register(NODE)
        await store_as_bought(local)
        assert await send(SampleBeat(node="i-123")) == Outcome()
        local.desk.flush()
        kept = local.columns.metrics(NODE)
        assert kept is not None
        assert kept.gpus[0].temperature_c == GpuLoad().temperature_c

    run_story(encoding, story)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_heartbeat_of_a_node_that_is_gone_is_accepted_and_dropped(encoding: str) -> None:
    async def story(local: LocalApi, send: Send) -> None:
        await local.register(NODE)
        await store_as_bought(local, phase=Phase.GONE)
        local.columns.forget(NODE)
        assert await send(SampleBeat(node=NODE)) == Outcome()
        local.desk.flush()
        assert local.columns.metrics(NODE) is None

    run_story(encoding, story)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_agent_that_must_register_again_is_refused_once(encoding: str) -> None:
    async def story(local: LocalApi, send: Send) -> None:
        await local.register(NODE)
        local.agents.request_registrations()
        refused = await send(SampleBeat(node=NODE))
        assert refused == Outcome(code="not_found", message=f"node {NODE} must register again")
        assert await send(SampleBeat(node=NODE)) == Outcome()

    run_story(encoding, story)
