"""Ten thousand hostile requests: no traceback, no 5xx, and what is refused changes nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from hostile import Generator, Hostile
from tests.support.local_api import H100, LocalApi, build_local_api, call_app, serve_local_api

from navarch.core.ids import PoolName
from navarch.ports.api import PoolSpec

TOKEN = "t0ken"
REQUESTS, STREAMS, CALLS, NOISES = 7000, 1500, 1000, 500


@pytest.fixture(autouse=True)
def prompt_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer wrong tokens at once: thousands of them come from one address here."""
    monkeypatch.setattr("navarch.api.logins.DELAY_S", 0.0)


def run_story(
    story: Callable[[LocalApi], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    """Run a story; anything that reaches the event loop or an error log is a failure."""
    escaped: list[dict[str, Any]] = []

    def note(_loop: object, what: dict[str, Any]) -> None:
        # grpc.aio complains of the loops of earlier tests, which are closed as they should be.
        if "PollerCompletionQueue" not in what["message"]:
            escaped.append(what)

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(note)
        local = build_local_api(token=TOKEN)
        await local.register("a")
        spec = PoolSpec(name=PoolName("training"), offerings=(H100,), nodes_min=0, nodes_max=4)
        await local.fleet.put_pool(spec, reason="")
        await story(local)

    with caplog.at_level(logging.ERROR):
        asyncio.run(asyncio.wait_for(run(), 240))
    assert not escaped
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_hostile_requests_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def story(local: LocalApi) -> None:
        generator = Generator(1, TOKEN)
        refused = 0
        while refused < REQUESTS:
            hostile = generator.request()
            before = local.store.fleet()
            answer = await call_app(
                local.app,
                hostile.method,
                hostile.path,
                hostile.body,
                content_type=hostile.content_type,
                authorization=f"Bearer {hostile.token}",
            )
            assert answer.status < 500, (hostile, answer.body)
            assert b"Traceback" not in answer.body
            if answer.status >= 400:
                refused += 1
                assert local.store.fleet() is before, hostile
            else:
                assert _has_right(hostile), hostile
        local.desk.flush()

    run_story(story, caplog)


def _has_right(hostile: Hostile) -> bool:
    return hostile.token == TOKEN or hostile.path in ("/healthz", "/readyz", "/metrics")


def test_damaged_streams_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def story(local: LocalApi) -> None:
        generator = Generator(2, TOKEN)
        async with serve_local_api(local, grpc=False):
            host, port = local.http_url.removeprefix("http://").split(":")
            for _ in range(STREAMS):
                before = local.store.fleet()
                raw = generator.raw()
                answer = await _exchange(host, int(port), raw)
                assert not answer.startswith(b"HTTP/1.1 5"), (raw, answer)
                assert b"Traceback" not in answer
                if not answer.startswith(b"HTTP/1.1 2"):
                    assert local.store.fleet() is before, raw

    run_story(story, caplog)


async def _exchange(host: str, port: int, raw: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(raw)
        writer.write_eof()
        async with asyncio.timeout(0.2):
            return await reader.read(65536)
    except (TimeoutError, ConnectionError):
        return b""  # It waits for the rest, which will not come, and will be cut off.
    finally:
        writer.close()


GOOD = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}


def test_hostile_calls_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def story(local: LocalApi) -> None:
        generator = Generator(3, TOKEN)
        async with (
            serve_local_api(local, http=False),
            grpc.aio.insecure_channel(local.grpc_url.removeprefix("grpc://")) as channel,
        ):
            refused = 0
            while refused < CALLS:
                path, body = generator.grpc()
                right = generator.chance.random() < 0.9
                before = local.store.fleet()
                code = await _call(channel, path, body, TOKEN if right else "wrong")
                if code is grpc.StatusCode.OK:
                    assert right
                    continue
                refused += 1
                assert code in GOOD, (path, body, code)
                assert local.store.fleet() is before, (path, body)

    run_story(story, caplog)


async def _call(channel: grpc.aio.Channel, path: str, body: bytes, token: str) -> grpc.StatusCode:
    metadata = (("authorization", f"Bearer {token}"),)
    if path.endswith("/Watch"):
        watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
        stream = watch(body, metadata=metadata, timeout=0.05, wait_for_ready=True)
        return await stream.code()
    ask_one: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    call = ask_one(body, metadata=metadata, timeout=5.0, wait_for_ready=True)
    return await call.code()


def test_noise_on_the_grpc_port_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def story(local: LocalApi) -> None:
        generator = Generator(4, TOKEN)
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)
        async with serve_local_api(local, http=False):
            host, port = local.grpc_url.removeprefix("grpc://").split(":")
            before = local.store.fleet()
            for _ in range(NOISES):
                await _exchange(host, int(port), generator.damaged(preface + bytes(32)))
            assert local.store.fleet() is before
            async with grpc.aio.insecure_channel(f"{host}:{port}") as channel:
                code = await _call(channel, "/navarch.v1.FleetService/Status", b"", TOKEN)
            assert code is grpc.StatusCode.OK

    run_story(story, caplog)
