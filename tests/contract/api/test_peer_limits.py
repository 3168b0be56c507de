"""Connections, streams and bodies of one peer are bounded, and the others are served."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.support.local_api import LocalApi, build_local_api, serve_local_api

from navarch.api.http import exchange, server
from navarch.client.connect import connect_fleet
from navarch.core.errors import NotPossibleError
from navarch.core.limits import BODY_BYTES_PER_PEER, HEALTH_WATCHES, WATCHES
from navarch.core.records import evolve
from navarch.service import fleet as fleet_service

MEGABYTE = 2**20


def run_story(
    story: Callable[[LocalApi], Awaitable[None]], *, token: str | None = None, served: bool = True
) -> None:
    async def run() -> None:
        local = build_local_api(token=token)
        if not served:
            await story(local)
            return
        async with serve_local_api(local):
            await story(local)

    asyncio.run(asyncio.wait_for(run(), 60))


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(local: LocalApi) -> Connection:
    host, _, port = local.http_url.removeprefix("http://").partition(":")
    return await asyncio.open_connection(host, int(port))


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - the server offers no event for it
        await asyncio.sleep(0.01)


def test_streams_of_the_health_service_are_bounded_and_checks_are_not() -> None:
    async def story(local: LocalApi) -> None:
        address = local.grpc_url.removeprefix("grpc://")
        async with grpc.aio.insecure_channel(address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            request = health_pb2.HealthCheckRequest()
            streams = [stub.Watch(request) for _ in range(HEALTH_WATCHES.most)]
            for stream in streams:
                assert (await stream.read()).status == health_pb2.HealthCheckResponse.SERVING
            for _ in range(3):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await stub.Watch(request).read()
                assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert (await stub.Check(request)).status
            streams.pop().cancel()
            while True:
                try:
                    await stub.Watch(request).read()
                    break
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.01)
            for stream in streams:
                stream.cancel()

    run_story(story, token="the-token-of-this-test")


@pytest.mark.parametrize("protocol", ["in-process", "http", "grpc"])
def test_more_watches_than_the_limit_are_refused(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_service, "WATCHES", evolve(WATCHES, most=2))

    async def story(local: LocalApi) -> None:
        clients = [
            local.fleet
            if protocol == "in-process"
            else connect_fleet(local.http_url if protocol == "http" else local.grpc_url)
            for _ in range(3)
        ]
        await local.register("a")
        watches = [client.watch(after_revision=0) for client in clients]
        for watch in watches[:2]:
            assert (await anext(watch)).revision == 1
        with pytest.raises(NotPossibleError, match="3 is above the limit of 2 clients that watch"):
            await anext(watches[2])
        for watch in watches:
            await watch.aclose()  # type: ignore[attr-defined]
        await until(lambda: not local.fleet._watches)
        again = clients[2].watch(after_revision=0)
        assert (await anext(again)).revision == 1
        await again.aclose()  # type: ignore[attr-defined]
        for client in clients:
            if protocol != "in-process":
                await client.close()  # type: ignore[union-attr]

    run_story(story, served=protocol != "in-process")


def test_a_peer_with_too_many_connections_gets_no_more_until_it_closes_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "connections_per_peer", lambda: 5)

    async def story(local: LocalApi) -> None:
        opened = [await connect(local) for _ in range(5)]
        for _ in range(3):
            reader, writer = await connect(local)
            assert await ended(reader), "a connection too many was served"
            writer.close()
        for reader, writer in opened:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()
        await until(lambda: not server._connections)
        fleet = connect_fleet(local.http_url)
        await fleet.status()
        await fleet.close()

    run_story(story)


def test_a_process_with_few_files_keeps_half_of_them_from_each_peer() -> None:
    server.connections_per_peer.cache_clear()
    assert 0 < server.connections_per_peer() <= 10_000


def test_bodies_that_are_being_received_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    small = evolve(BODY_BYTES_PER_PEER, most=4 * MEGABYTE)
    monkeypatch.setattr(exchange, "BODY_BYTES_PER_PEER", small)

    async def send(connection: Connection) -> bytes:
        """Send most of a body; return the first line of the answer, if the server gives one."""
        reader, writer = connection
        head = f"POST /v1/agent/health HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MEGABYTE}"
        writer.write(f"{head}\r\n\r\n".encode() + b" " * (MEGABYTE - 10_000))
        try:
            async with asyncio.timeout(2):
                return await reader.readline()
        except TimeoutError:
            return b""

    async def story(local: LocalApi) -> None:
        connections = [await connect(local) for _ in range(10)]
        lines = await asyncio.gather(*map(send, connections))
        refused = [line for line in lines if line]
        assert refused
        assert all(line.startswith(b"HTTP/1.1 503") for line in refused)
        waiting = len(connections) - len(refused)
        assert 3 <= waiting <= 4
        for _, writer in connections:
            writer.close()
        await until(lambda: not local.app._bodies._total)
        fleet = connect_fleet(local.http_url)
        await fleet.status()
        await fleet.close()

    run_story(story)
