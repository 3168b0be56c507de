"""Heartbeats that the protocol answers itself, beside the ordinary way for the same bytes."""

import asyncio

import pytest
from hypothesis import given, settings
from tests.support.direct_heartbeats import (
    BY_NAME,
    NODES,
    TOKEN,
    compare,
    get,
    outcome,
    reads,
    request,
    run,
    world,
)
from tests.support.heartbeats import GpuLoad, SampleBeat
from tests.support.http_connection import HttpConnection, connections_closed

from navarch.app.servers import BearerAuth
from navarch.core.ids import NodeId
from navarch.core.recovery import CommandKind

KEEP_ALIVE_S = 75


@settings(max_examples=40, deadline=None)
@given(reads())
def test_the_direct_way_and_the_ordinary_way_give_the_same_bytes_and_the_same_state(
    arrived: list[tuple[bytes, bool]],
) -> None:
    compare(arrived)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(
    "awkward",
    [
        "in a pipeline",
        "behind an unfinished request",
        "behind the end of another",
        "with a line that is folded",
        "with two lengths",
        "with a length in the body",
    ],
)
def test_an_awkward_request_after_a_remembered_head_is_read_as_the_parser_reads_it(
    awkward: str, waits: bool
) -> None:
    form = BY_NAME["packed"]
    body = form.encode(SampleBeat(node=NODES[0]))
    plain = request(form, body)
    arrived = {
        "in a pipeline": [plain, plain + plain, plain],
        "behind an unfinished request": [plain, get("/v1/nodes/x"), plain, plain],
        "behind the end of another": [plain[:-3], plain[-3:] + plain, plain[-3:] + plain],
        "with a line that is folded": [request(form, body, "X-Folded: a\r\n b")] * 3,
        "with two lengths": [request(form, body, "Content-Length: 0"), plain, plain],
        "with a length in the body": [
            request(form, b"\r\nContent-Length: 5\r\n\r\n" + body),
            plain,
            plain + b"\r\n",
            plain,
        ],
    }[awkward]
    compare([(data, waits) for data in arrived])


@pytest.mark.parametrize("name", BY_NAME)
def test_every_heartbeat_but_the_first_of_a_connection_is_answered_directly(name: str) -> None:
    form = BY_NAME[name]
    sent = [
        request(form, form.encode(SampleBeat(node=NODES[i % 2], gpus=[GpuLoad(temperature_c=i)])))
        for i in range(1, 20)
    ]

    async def story() -> None:
        arrived = [(data, True) for data in sent]
        direct, answered = await outcome(arrived, direct=True)
        assert answered == len(sent) - 1
        assert direct == (await outcome(arrived, direct=False))[0]
        assert direct[2] == len(sent)

    run(story)


def test_a_direct_answer_carries_the_commands() -> None:
    async def story() -> None:
        answers = []
        for direct in (True, False):
            local = await world()
            connection = HttpConnection(local.app, direct=direct)
            form = BY_NAME["json"]
            data = request(form, form.encode(SampleBeat(node=NODES[0])))
            await connection.send(data)
            command = await local.fleet.issue(NodeId(NODES[0]), CommandKind.RUN_DIAGNOSTIC)
            reply = await connection.send(data)
            assert command.id.encode() in reply
            answers.append(reply.replace(command.id.encode(), b"").partition(b"issued_at")[0])
        assert answers[0] == answers[1]

    run(story)


def test_a_token_that_is_changed_ends_the_direct_answers() -> None:
    async def story() -> None:
        auth = BearerAuth(TOKEN)
        local = await world(authenticator=auth)
        connection = HttpConnection(local.app, direct=True)
        form = BY_NAME["packed"]
        data = request(form, form.encode(SampleBeat(node=NODES[0])))
        for _ in range(2):
            assert (await connection.send(data)).startswith(b"HTTP/1.1 200 ")
        auth.change("another-token")
        received = local.desk.received
        assert (await connection.send(data)).startswith(b"HTTP/1.1 401 ")
        assert local.desk.received == received

    run(story)


def test_a_foreign_host_is_refused_however_often_it_asks() -> None:
    async def story() -> None:
        local = await world(token=None)
        form = BY_NAME["json"]
        data = request(form, form.encode(SampleBeat(node=NODES[0])))
        evil = data.replace(b"Host: localhost", b"Host: evil.example")
        connection = HttpConnection(local.app, direct=True)
        for _ in range(3):
            assert (await connection.send(evil)).startswith(b"HTTP/1.1 421 ")
        assert local.desk.received == 0

    run(story)


def test_a_client_that_does_not_read_its_replies_waits_for_them() -> None:
    async def story() -> None:
        local = await world()
        connection = HttpConnection(local.app, direct=True)
        form = BY_NAME["packed"]
        data = request(form, form.encode(SampleBeat(node=NODES[0])))
        first = await connection.send(data)
        connection.protocol.pause_writing()
        assert await connection.send(data) == b""
        connection.protocol.resume_writing()
        await connection.settle()
        assert bytes(connection.transport.written) == 2 * first

    run(story)


class SetLoop(asyncio.SelectorEventLoop):
    """An event loop with a time that the test sets."""

    now_s = 1000.0

    def time(self) -> float:
        """Return the time that was set."""
        return self.now_s


def test_a_connection_is_closed_when_it_is_idle_after_a_direct_answer() -> None:
    loop = SetLoop()

    async def story() -> None:
        local = await world()
        connection = HttpConnection(local.app, direct=True, keep_alive_s=KEEP_ALIVE_S)
        form = BY_NAME["packed"]
        data = request(form, form.encode(SampleBeat(node=NODES[0])))
        await connection.send(data)
        for _ in range(5):
            loop.now_s += KEEP_ALIVE_S - 1
            await connection.settle()
            assert (await connection.send(data)).startswith(b"HTTP/1.1 200 ")
        loop.now_s += KEEP_ALIVE_S - 1
        await connection.settle()
        assert not connection.transport.is_closed
        loop.now_s += 2
        await connection.settle()
        assert connection.transport.is_closed

    try:
        with connections_closed():
            loop.run_until_complete(story())
    finally:
        loop.close()
