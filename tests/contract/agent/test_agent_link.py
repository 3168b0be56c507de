"""The contract of every link: one suite, run in-process and over HTTP."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest
from tests.support.direct_link import DirectLink
from tests.support.fake_control_plane import FakeControlPlane, FakeControlPlaneServer
from tests.support.local_api import build_local_api

from navarch.agent.transport import open_link
from navarch.api.auth import BearerToken
from navarch.api.calls import ApiMetrics
from navarch.api.grpc.server import GrpcServer
from navarch.api.heartbeats import Heartbeat, HeartbeatDesk
from navarch.client.grpc_link import grpc_link
from navarch.clock import SystemClock
from navarch.core.errors import (
    ConflictError,
    InvalidError,
    NavarchError,
    NotFoundError,
    NotPossibleError,
    UnreachableError,
)
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import CommandId, NodeId, ProviderName, Token
from navarch.core.instance import Gpu, GpuMetrics, Inventory, NodeMetrics, Sample
from navarch.core.launch import Offering
from navarch.core.node import NodeStatus
from navarch.core.records import evolve
from navarch.core.recovery import Command, CommandKind
from navarch.ports.agents import Link, Registration, UnauthorizedError
from navarch.ports.metrics import NoMetrics

NODE = NodeId("gpu-7")
NOW = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
REGISTRATION = Registration(
    node=NODE,
    token=Token("launch-1"),
    boot_id="b",
    place=Offering(
        provider=ProviderName("p"), instance_type="t", price_per_hour=Decimal("98.32"), spot=True
    ),
    inventory=Inventory(
        gpus=(Gpu(index=0, uuid="GPU-0", memory_bytes=80 * 1024**3),),
        labels={"a": "ü", "pool": "x"},
    ),
)
REPORT = HealthReport(
    results=(
        CheckResult(
            check="xid/79/GPU-0",
            health=Health.UNHEALTHY,
            reason="“gone”",
            fatal=True,
            lasting=True,
            action="reboot_node",
            facts={
                "code": "79",
                "gpu": "GPU-0",
                "pid": "7",
                "process": "ü c",
                "sources": "kmsg,nvml",
            },
        ),
    ),
    stream="s",
    number=3,
    at=NOW,
)

Opener = Callable[[FakeControlPlane], AbstractAsyncContextManager[Link]]


@asynccontextmanager
async def direct(plane: FakeControlPlane) -> AsyncIterator[Link]:
    yield DirectLink(SystemClock(), lambda: plane)


@asynccontextmanager
async def over_http(plane: FakeControlPlane) -> AsyncIterator[Link]:
    server = FakeControlPlaneServer(plane, token="secret")
    await server.start()
    link = open_link(server.url, token=lambda: "secret")
    try:
        yield link
    finally:
        await link.close()
        await server.stop()


class PlainDesk(HeartbeatDesk):
    """A control plane that exposes every sample to the test."""

    def __init__(self, plane: FakeControlPlane) -> None:
        self._plane = plane

    def receive(self, heartbeat: Heartbeat) -> Sequence[Command]:
        values = np.frombuffer(heartbeat.readings or b"", "<f4").reshape(4, -1).T.tolist()
        gpus = tuple(
            GpuMetrics(temperature_c=t, power_w=p, utilization_pct=u, memory_used_bytes=m * 2.0**20)
            for t, p, u, m in values
        )
        cpu, memory = heartbeat.host
        metrics = NodeMetrics(cpu_pct=cpu, memory_pct=memory, gpus=gpus)
        return self._plane.heartbeat(heartbeat.node, metrics)


@asynccontextmanager
async def over_grpc(plane: FakeControlPlane) -> AsyncIterator[Link]:
    fleet = build_local_api().fleet
    server = GrpcServer(
        fleet,
        plane,
        auth=BearerToken("secret"),
        desk=PlainDesk(plane),
        address="127.0.0.1:0",
        calls=ApiMetrics(SystemClock(), NoMetrics()),
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.run())
        link = grpc_link(f"grpc://127.0.0.1:{server.port}", lambda: "secret")
        try:
            yield link
        finally:
            await link.close()
            running.cancel()


@pytest.fixture(params=[direct, over_http, over_grpc], ids=["direct", "http", "grpc"])
def opened(request: pytest.FixtureRequest) -> Opener:
    opener: Opener = request.param
    return opener


def run_with_link(
    opened: Opener,
    talk: Callable[[Link, FakeControlPlane], Awaitable[None]],
    *,
    registered: bool = True,
) -> None:
    async def main() -> None:
        plane = FakeControlPlane()
        async with opened(plane) as link:
            if registered:
                await link.register(REGISTRATION)
            await talk(link, plane)

    asyncio.run(main())


def test_a_registration_arrives_unchanged_and_gets_a_reply(opened: Opener) -> None:
    async def talk(link: Link, plane: FakeControlPlane) -> None:
        welcome = await link.register(REGISTRATION)

        assert plane.registrations == [REGISTRATION]
        assert welcome.node == NODE
        assert welcome.heartbeat_interval == timedelta(seconds=10)
        assert welcome.health_check_interval == timedelta(seconds=20)

    run_with_link(opened, talk, registered=False)


def test_a_registration_carries_a_report_and_its_reply_confirms_it(opened: Opener) -> None:
    async def talk(link: Link, plane: FakeControlPlane) -> None:
        with_report = evolve(REGISTRATION, report=REPORT)
        welcome = await link.register(with_report)

        assert plane.registrations == [with_report]
        assert plane.reports == [REPORT]
        assert welcome.status == NodeStatus.ACTIVE

        plane.takes_first_reports = False
        welcome = await link.register(with_report)
        assert welcome.status == ""

    run_with_link(opened, talk, registered=False)


def test_a_heartbeat_carries_its_metrics(opened: Opener) -> None:
    gpus = tuple(
        GpuMetrics(
            temperature_c=40.5 + i,
            power_w=300.25,
            utilization_pct=99.5,
            memory_used_bytes=float(i * 1024**3),
        )
        for i in range(8)
    )
    metrics = NodeMetrics(cpu_pct=12.5, memory_pct=50.0, gpus=gpus)

    async def talk(link: Link, plane: FakeControlPlane) -> None:
        assert list(await link.heartbeat(NODE, metrics, sequence=7)) == []
        assert plane.beats == [(NODE, metrics)]

    run_with_link(opened, talk)


def test_heartbeats_return_commands_until_they_are_acknowledged(opened: Opener) -> None:
    async def talk(link: Link, plane: FakeControlPlane) -> None:
        sent = plane.command(
            CommandKind.DRAIN, name="c1", at=NOW, parameters={"timeout": "300", "why": "ü"}
        )
        for _ in range(2):
            [command] = await link.heartbeat(NODE, None, sequence=1)
            assert (command.id, command.kind) == ("c1", CommandKind.DRAIN)
            assert dict(command.parameters) == dict(sent.parameters)
            assert command.issued_at == NOW
            assert command.expires_at == sent.expires_at
        await link.acknowledge(NODE, CommandId("c1"))
        assert list(await link.heartbeat(NODE, None, sequence=3)) == []
        await link.finish(NODE, CommandId("c1"), succeeded=False, result="no luck")
        assert plane.finished == [("c1", False, "no luck")]

    run_with_link(opened, talk)


def test_a_health_report_arrives_unchanged_and_returns_the_status(opened: Opener) -> None:
    async def talk(link: Link, plane: FakeControlPlane) -> None:
        plane.status = NodeStatus.CORDONED
        assert await link.report_health(NODE, REPORT) is NodeStatus.CORDONED
        assert plane.reports == [REPORT]
        plane.status = None
        assert await link.report_health(NODE, REPORT) is None
        assert plane.repeats == 1

    run_with_link(opened, talk)


def test_an_unknown_node_is_not_found(opened: Opener) -> None:
    async def talk(link: Link, _plane: FakeControlPlane) -> None:
        with pytest.raises(NotFoundError, match="node not found: gpu-7"):
            await link.heartbeat(NODE, None, sequence=1)
        with pytest.raises(NotFoundError, match="node not found: gpu-7"):
            await link.report_health(NODE, REPORT)

    run_with_link(opened, talk, registered=False)


@pytest.mark.parametrize(
    "error",
    [
        InvalidError("a"),
        NotPossibleError("b"),
        NotFoundError("c"),
        UnreachableError("d"),
        ConflictError("e"),
    ],
)
def test_a_refusal_keeps_its_kind_and_its_message(opened: Opener, error: NavarchError) -> None:
    async def talk(link: Link, plane: FakeControlPlane) -> None:
        def refuse(_method: str) -> None:
            # A new error each time: a shared one would keep its traceback's frames alive.
            raise type(error)(*error.args)

        plane.fault = refuse
        with pytest.raises(type(error), match=str(error)):
            await link.acknowledge(NODE, CommandId("c1"))
        with pytest.raises(type(error), match=str(error)):
            await link.heartbeat(NODE, None, sequence=1)
        plane.fault = lambda _method: None
        assert list(await link.heartbeat(NODE, None, sequence=1)) == []

    run_with_link(opened, talk)


def test_buffered_metrics_can_be_delivered(opened: Opener) -> None:
    async def talk(link: Link, _plane: FakeControlPlane) -> None:
        await link.report_metrics(NODE, [Sample(at=NOW, metrics=NodeMetrics(cpu_pct=1.0))])

    run_with_link(opened, talk)


def test_concurrent_calls_do_not_get_each_others_replies(opened: Opener) -> None:
    async def talk(link: Link, plane: FakeControlPlane) -> None:
        async with asyncio.TaskGroup() as tasks:
            beats = [tasks.create_task(link.heartbeat(NODE, None, sequence=i)) for i in range(20)]
            health = [tasks.create_task(link.report_health(NODE, REPORT)) for _ in range(20)]
        assert [list(beat.result()) for beat in beats] == [[]] * 20
        assert {report.result() for report in health} == {NodeStatus.ACTIVE}
        assert len(plane.beats) == 20

    run_with_link(opened, talk)


def test_a_wrong_token_is_unauthorized_and_a_rotated_one_is_used() -> None:
    async def main() -> None:
        server = FakeControlPlaneServer(FakeControlPlane(), token="new")
        await server.start()
        tokens = ["old"]
        link = open_link(server.url, token=lambda: tokens[-1])
        with pytest.raises(UnauthorizedError, match="invalid bearer token"):
            await link.register(REGISTRATION)
        tokens.append("new")
        await link.register(REGISTRATION)
        await link.close()
        await server.stop()

    asyncio.run(main())


def test_one_connection_serves_many_calls_and_is_reopened_when_broken() -> None:
    async def main() -> None:
        server = FakeControlPlaneServer(FakeControlPlane())
        await server.start()
        link = open_link(server.url)
        await link.register(REGISTRATION)
        for number in range(50):
            await link.heartbeat(NODE, None, sequence=number)
        assert server.connections == 1

        server.hang_up()
        await link.heartbeat(NODE, None, sequence=51)
        assert server.connections == 2
        await link.close()
        await server.stop()

    asyncio.run(main())


def test_a_server_that_is_down_is_unreachable_until_it_is_back() -> None:
    async def main() -> None:
        server = FakeControlPlaneServer(FakeControlPlane())
        await server.start()
        port = server.port
        link = open_link(server.url)
        await link.register(REGISTRATION)
        await server.stop()
        with pytest.raises(UnreachableError):
            await link.heartbeat(NODE, None, sequence=1)
        await server.start(port)
        await link.heartbeat(NODE, None, sequence=2)
        await link.close()
        await server.stop()

    asyncio.run(main())


@pytest.mark.parametrize("server", ["", "host:1", "ftp://x", "http://", "http://h:x", "grpc://h:1"])
def test_a_malformed_address_is_refused_at_once(server: str) -> None:
    with pytest.raises(InvalidError):
        open_link(server)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (404, b"no such page", UnreachableError),
        (404, b'{"code": "not_found", "message": "node not found: x"}', NotFoundError),
        (401, b"who are you", UnauthorizedError),
        (403, b"", UnauthorizedError),
        (400, b"", InvalidError),
        (302, b"", UnreachableError),
        (500, b'{"code": "internal", "message": "internal error"}', UnreachableError),
        (502, b"<html>bad gateway</html>", UnreachableError),
        (200, b"<html>sign in here</html>", UnreachableError),
    ],
)
def test_a_proxys_error_is_not_taken_for_the_control_planes(
    status: int, body: bytes, error: type[NavarchError]
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        link = open_link(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(error) as raised:
            await link.register(REGISTRATION)
        assert raised.type is error
        await link.close()
        server.close()

    asyncio.run(main())
