"""Values and their messages have the same fields, and mean the same by them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, get_args, get_origin

import grpc
import pytest
from google.protobuf.descriptor import Descriptor
from tests.support.local_api import build_local_api, serve_local_api

from navarch.client.connect import connect_fleet
from navarch.client.connection import parse_address
from navarch.core.errors import InvalidError, NavarchError, UnreachableError
from navarch.core.health import HealthReport
from navarch.core.ids import NodeId
from navarch.core.records import is_record, record_fields
from navarch.ports.agents import Registration, Welcome
from navarch.wire.bodies import LateReadings
from navarch.wire.fleet import FLEET_CALLS, code_of, error_from, text_of
from navarch.wire.messages import hints_of
from navarch.wire.v1 import agent_pb2 as pb

PAIRS = {
    **{call.returns: call.reply.DESCRIPTOR for call in FLEET_CALLS.values()},
    Registration: pb.Registration.DESCRIPTOR,
    Welcome: pb.Welcome.DESCRIPTOR,
    HealthReport: pb.HealthReport.DESCRIPTOR,
    LateReadings: pb.ReportMetricsRequest.DESCRIPTOR,
}


def dataclasses_in(hint: Any, message: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401
    """Return every dataclass reachable from `hint`, with its message."""
    if is_record(get_origin(hint) or hint):
        return [(hint, message)]
    return [pair for option in get_args(hint) for pair in dataclasses_in(option, message)]


def every_pair() -> dict[Any, Descriptor]:
    found: dict[Any, Descriptor] = {}
    waiting = [
        pair
        for kind, message in PAIRS.items()
        if is_record(get_origin(kind) or kind)
        for pair in dataclasses_in(kind, message)
    ]
    for call in FLEET_CALLS.values():
        for name, hint in call.parameters.items():
            field = call.request.DESCRIPTOR.fields_by_name[name]
            waiting += dataclasses_in(hint, field.message_type)
    while waiting:
        kind, message = waiting.pop()
        if kind in found:
            continue
        found[kind] = message
        for name, hint in hints_of(kind).items():
            field = message.fields_by_name[name]
            waiting += dataclasses_in(hint, field.message_type)
    return found


MESSAGES: Mapping[Any, Any] = every_pair()


@pytest.mark.parametrize(("kind", "message"), MESSAGES.items(), ids=[str(k) for k in MESSAGES])
def test_a_value_and_its_message_have_the_same_fields(kind: Any, message: Any) -> None:  # noqa: ANN401
    assert set(hints_of(kind)) == {field.name for field in message.fields}
    for part in record_fields(get_origin(kind) or kind):
        default = part.default
        field = message.fields_by_name[part.name]
        zero = default in (None, "", 0, False, (), Decimal(0)) or part.name == "status"
        assert zero or field.has_presence, f"{part.name} needs to be optional"


def test_every_enum_member_has_a_number() -> None:
    for kind, message in every_pair().items():
        for name, hint in hints_of(kind).items():
            for option in (hint, *get_args(hint)):
                if isinstance(option, type) and issubclass(option, StrEnum):
                    enum = message.fields_by_name[name].enum_type
                    assert enum is not None
                    prefix = enum.values[0].name.removesuffix("UNSPECIFIED")
                    words = {value.name.removeprefix(prefix) for value in enum.values}
                    assert words == {*option.__members__, "UNSPECIFIED"}


def test_errors_keep_their_class_over_the_wire() -> None:
    kinds = [kind for kind in NavarchError.__subclasses__() if kind.__module__.endswith("errors")]
    for kind in kinds:
        code = code_of(kind("why"))
        back = error_from(code.name, text_of(kind("why"), code))
        if code.name in ("internal", "unavailable"):
            assert isinstance(back, NavarchError)
        else:
            assert type(back) is kind
            assert str(back) == "why"


def test_an_internal_error_reveals_nothing() -> None:
    error = RuntimeError("the password is hunter2")
    assert text_of(error, code_of(error)) == "internal error"


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("localhost", "http://localhost:50051"),
        ("localhost:1234", "http://localhost:1234"),
        ("http://localhost:50051/", "http://localhost:50051"),
        ("https://fleet.example/navarch", "https://fleet.example:443/navarch"),
        ("grpc://[::1]", "grpc://[::1]:50052"),
    ],
)
def test_addresses_get_default_scheme_and_port(url: str, whole: str) -> None:
    assert str(parse_address(url)) == whole


@pytest.mark.parametrize("url", ["", "ftp://x", "http://", "http://x:99999", "http://u@x", "x?y"])
def test_a_malformed_address_is_invalid(url: str) -> None:
    with pytest.raises(InvalidError):
        parse_address(url)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_server_that_is_not_there_is_unreachable(scheme: str) -> None:
    async def story() -> None:
        client = connect_fleet(f"{scheme}://127.0.0.1:1", None, 2.0)
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
            await client.status()
        await client.close()

    asyncio.run(story())


def test_a_server_with_another_protocol_is_unreachable() -> None:
    async def babble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 smtp.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(babble, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            client = connect_fleet(f"http://127.0.0.1:{port}", None, 2.0)
            with pytest.raises(UnreachableError):
                await client.status()
            await client.close()

    asyncio.run(story())


def test_agents_can_make_every_call_over_one_stream() -> None:
    async def story() -> None:
        local = build_local_api()

        async def messages() -> AsyncIterator[bytes]:
            yield pb.AgentMessage(number=1, register=pb.Registration(node="a")).SerializeToString()
            beat = pb.HeartbeatRequest(node_id="a", temperature_c=[1], power_w=[2])
            yield pb.AgentMessage(number=2, heartbeat=beat).SerializeToString()
            beat = pb.HeartbeatRequest(node_id="a")
            yield pb.AgentMessage(number=3, heartbeat=beat).SerializeToString()
            report = pb.HealthReport(results=[pb.CheckResult(check="gpu", health=3)])  # type: ignore[arg-type]
            request = pb.ReportHealthRequest(node="a", report=report)
            yield pb.AgentMessage(number=4, report_health=request).SerializeToString()
            yield b"\xff"
            late = pb.ReportMetricsRequest(node="a", samples=[pb.Sample(metrics=pb.NodeMetrics())])
            yield pb.AgentMessage(number=5, report_metrics=late).SerializeToString()
            late.samples[0].at.FromSeconds(1_700_000_000)
            yield pb.AgentMessage(number=5, report_metrics=late).SerializeToString()
            yield pb.AgentMessage(number=6).SerializeToString()

        async with (
            serve_local_api(local, http=False),
            grpc.aio.insecure_channel(local.grpc_url.removeprefix("grpc://")) as channel,
        ):
            attach: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
                "/navarch.v1.AgentService/Attach"
            )
            answers = [
                pb.ControlMessage.FromString(body)
                async for body in attach(messages(), wait_for_ready=True)
            ]
        kinds = [(answer.number, answer.WhichOneof("answer")) for answer in answers]
        assert kinds == [
            (1, "welcome"),
            (2, "error"),
            (3, "heartbeat"),
            (4, "report_health"),
            (0, "error"),
            (5, "error"),
            (5, "report_metrics"),
            (6, "error"),
        ]
        assert answers[0].welcome.heartbeat_interval.ToTimedelta() == timedelta(seconds=10)
        assert answers[3].report_health.status == "unhealthy"
        assert NodeId("a") in local.store.fleet().nodes

    asyncio.run(asyncio.wait_for(story(), 20))


def test_the_services_can_be_discovered() -> None:
    async def story() -> None:
        from grpc_reflection.v1alpha import reflection_pb2 as rpb

        local = build_local_api()
        async with (
            serve_local_api(local, http=False),
            grpc.aio.insecure_channel(local.grpc_url.removeprefix("grpc://")) as channel,
        ):
            reflect: grpc.aio.StreamStreamMultiCallable[Any, bytes] = channel.stream_stream(
                "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                request_serializer=lambda message: message.SerializeToString(),
            )

            async def questions() -> AsyncIterator[Any]:
                yield rpb.ServerReflectionRequest(list_services="")
                yield rpb.ServerReflectionRequest(file_containing_symbol="navarch.v1.FleetService")

            answers = [
                rpb.ServerReflectionResponse.FromString(body)
                async for body in reflect(questions(), wait_for_ready=True)
            ]
        names = {service.name for service in answers[0].list_services_response.service}
        assert {"navarch.v1.FleetService", "navarch.v1.AgentService"} <= names
        assert answers[1].HasField("file_descriptor_response")

    asyncio.run(asyncio.wait_for(story(), 20))
