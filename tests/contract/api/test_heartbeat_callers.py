"""The callers that may send a heartbeat: alike in every encoding and on both ways of the server.

The direct way answers a repeated request as it is read. Nothing that was decided about the one
before may decide about it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import grpc
import grpc.aio
import pytest
from tests.support.direct_heartbeats import request
from tests.support.heartbeats import FORMS, PROTO, Form, SampleBeat, packed
from tests.support.http_connection import HttpConnection, connections_closed
from tests.support.local_api import H100, LocalApi, build_local_api, serve_local_api
from tests.support.recording_metrics import RecordingMetrics

from navarch.api.auth import Binding, Bound, Certificates, Chain
from navarch.api.http.heartbeats import BATCH_PATH
from navarch.api.large_requests import LARGE_BYTES
from navarch.api.logins import AT_ONCE_MAX
from navarch.app.servers import BearerAuth
from navarch.clock import SystemClock, SystemEntropy
from navarch.core.access import ADMIN, Grant, Identity, Role, acting_as
from navarch.core.fleet import Change
from navarch.core.ids import InstanceId, NodeId, PoolName, Token, TokenName
from navarch.core.instance import Inventory
from navarch.core.launch import Launch
from navarch.core.limits import CONNECT_JSON_VALUES, REQUEST_BYTES, VALUES_PER_REQUEST
from navarch.core.node import Phase
from navarch.core.ownership import host_credential, join_token
from navarch.core.records import evolve
from navarch.ports.agents import Registration
from navarch.ports.tokens import TokenRequest
from navarch.service.tokens import TokenService
from navarch.wire.reference import navarch_pb2 as reference
from navarch.wire.v1 import agent_pb2 as pb
from navarch.wire.v1.heartbeat_wire_pb2 import HeartbeatBatchWire

NODE = NodeId("rack-7")
OTHER = NodeId("rack-8")
TOKEN = "the-operators-token"
AGENTS_TOKEN = "the-agents-token"
KEY = "a-key-of-the-host"
CERTIFICATE = {"subject": ((("commonName", "rack"),),)}
RESEARCH = Grant(role=Role.AGENT, pools=("research",))

each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
both_ways = pytest.mark.parametrize("direct", [True, False], ids=["direct", "ordinary"])


@dataclass(slots=True)
class World:
    """A control plane with two hosts of the pool `research`."""

    local: LocalApi
    auth: BearerAuth
    metrics: RecordingMetrics
    tokens: TokenService
    agents_token: list[str]
    bindings: list[Binding] = field(default_factory=list)

    async def token(self, grant: Grant, name: str = "rack") -> str:
        """Return a new token of a caller with that grant."""
        with acting_as(Identity(subject="test", grants=ADMIN)):
            issued = await self.tokens.create_token(TokenRequest(name=TokenName(name), grant=grant))
        return issued.token

    async def change_node(self, **values: Any) -> None:  # noqa: ANN401 - of fields
        """Change the node, as a controller would."""
        fleet = self.local.store.fleet()
        change = Change(nodes=[evolve(fleet.nodes[NODE], **values)])
        await self.local.store.commit(change, based_on=fleet.revision)

    async def register(self, node: NodeId, pool: str = "research") -> None:
        """Register a host."""
        hardware = Inventory(labels={"pool": pool})
        await self.local.agents.register(Registration(node=node, place=H100, inventory=hardware))

    async def buy(self) -> None:
        """Give the node a machine that was bought."""
        at = self.local.store.fleet().nodes[NODE].created_at
        launch = Launch(
            token=Token("launch-1"),
            node=NODE,
            pool=PoolName("research"),
            offering=H100,
            asked_at=at,
            instance=InstanceId("i-123"),
            launched_at=at,
        )
        await self.change_node(pool=launch.pool, launch=launch, offering=None)


async def build_world() -> World:
    bindings: list[Binding] = []
    auth, metrics = BearerAuth(TOKEN), RecordingMetrics()
    chain = Chain([auth, Bound(Certificates(), lambda: bindings)])
    agents_token = [AGENTS_TOKEN]
    local = build_local_api(
        authenticator=chain, agent_token=lambda: agents_token[0], metrics=metrics
    )
    tokens = TokenService(SystemClock(), SystemEntropy(), local.store)
    world = World(local, auth, metrics, tokens, agents_token, bindings)
    for node in (NODE, OTHER):
        await world.register(node)
    return world


def run(story: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        with connections_closed():
            await asyncio.wait_for(story(await build_world()), 30)

    asyncio.run(main())


def status(reply: bytes) -> int:
    return int(reply[9:12]) if reply else 0


def beat(form: Form, node: str = NODE, *, token: str = TOKEN, lines: tuple[str, ...] = ()) -> bytes:
    return request(form, form.encode(SampleBeat(node=node)), *lines, token=token)


Prepare = Callable[[World], Awaitable[str]]
Step = Callable[[World], Awaitable[None]]


async def operators(_world: World) -> str:
    return TOKEN


async def stored(world: World) -> str:
    return await world.token(RESEARCH)


async def host(_world: World) -> str:
    return host_credential(NODE, AGENTS_TOKEN, KEY)


async def bought(world: World) -> str:
    await world.buy()
    return f"{join_token(world.local.store.cluster, NODE, Token('launch-1'))}.{KEY}"


async def change_token(world: World) -> None:
    world.auth.change("another-token")


async def replace_agents_token(world: World) -> None:
    world.agents_token[0] = "another-token-of-the-agents"


async def revoke(world: World) -> None:
    with acting_as(Identity(subject="test", grants=ADMIN)):
        await world.tokens.revoke_token(TokenName("rack"))


async def expire(world: World) -> None:
    with acting_as(Identity(subject="test", grants=ADMIN)):
        await world.tokens.rotate_token(TokenName("rack"), overlap=timedelta(0))


async def move_to_another_pool(world: World) -> None:
    await world.register(NODE, "training")


async def be_another_machine(world: World) -> None:
    await world.change_node(machine="the key of another machine")


async def forget(world: World) -> None:
    await world.change_node(phase=Phase.GONE)


async def launch_again(world: World) -> None:
    launch = world.local.store.fleet().nodes[NODE].launch
    assert launch is not None
    await world.change_node(launch=evolve(launch, token=Token("launch-2")))


CHANGES: dict[str, tuple[Prepare, Step, int]] = {
    "the operators' token is changed": (operators, change_token, 401),
    "the node is forgotten": (operators, forget, 404),
    "the token is revoked": (stored, revoke, 401),
    "the token expires": (stored, expire, 401),
    "the node moves to another pool": (stored, move_to_another_pool, 403),
    "the node is bound to another machine": (host, be_another_machine, 401),
    "the agents' token is replaced": (host, replace_agents_token, 401),
    "the node gets a machine that is bought": (host, World.buy, 401),
    "the machine that joined is another": (bought, be_another_machine, 401),
    "the node is launched again": (bought, launch_again, 401),
}


@both_ways
@each_form
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_takes_effect_on_the_next_heartbeat_of_a_connection(
    change: str, form: Form, direct: bool
) -> None:
    prepare, step, expected = CHANGES[change]

    async def story(world: World) -> None:
        token = await prepare(world)
        connection = HttpConnection(world.local.app, direct=direct)
        data = beat(form, token=token)
        for _ in range(3):
            assert status(await connection.send(data)) == 200
        assert getattr(connection.protocol, "answered", 0) == (2 if direct else 0)
        await step(world)
        received = world.local.desk.received
        assert status(await connection.send(data)) == expected
        assert status(await connection.send(data)) == expected
        assert world.local.desk.received == received

    run(story)


@both_ways
@each_form
def test_a_client_certificate_has_the_roles_of_its_bindings_at_that_moment(
    form: Form, direct: bool
) -> None:
    async def story(world: World) -> None:
        data = beat(form).replace(f"Authorization: Bearer {TOKEN}\r\n".encode(), b"")
        connection = HttpConnection(world.local.app, direct=direct, certificate=CERTIFICATE)
        assert status(await connection.send(data)) == 403
        world.bindings.append(Binding(grant=RESEARCH, subjects=frozenset({"cert:rack"})))
        for _ in range(3):
            assert status(await connection.send(data)) == 200
        world.bindings.clear()
        assert status(await connection.send(data)) == 403
        assert world.local.desk.received == 3
        without = HttpConnection(world.local.app, direct=direct)
        for _ in range(2):
            assert status(await without.send(data)) == 401
        assert (
            world.metrics.value("navarch_failed_logins_total", protocol="http", reason="missing")
            == 2
        )

    run(story)


@both_ways
@each_form
@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_a_role_that_does_not_report_is_refused_however_often(
    role: Role, form: Form, direct: bool
) -> None:
    async def story(world: World) -> None:
        token = await world.token(Grant(role=role))
        connection = HttpConnection(world.local.app, direct=direct)
        for _ in range(3):
            assert status(await connection.send(beat(form, token=token))) == 403
        assert world.local.desk.received == 0

    run(story)


@both_ways
@each_form
@pytest.mark.parametrize("prepare", [stored, host, bought])
def test_a_token_for_some_nodes_reports_no_other(
    prepare: Prepare, form: Form, direct: bool
) -> None:
    async def story(world: World) -> None:
        token = await prepare(world)
        await world.register(OTHER, "training")
        connection = HttpConnection(world.local.app, direct=direct)
        for _ in range(2):
            assert status(await connection.send(beat(form, token=token))) == 200
        # Of the same length, so that only the body differs.
        for _ in range(2):
            assert status(await connection.send(beat(form, OTHER, token=token))) == 403
        assert status(await connection.send(beat(form, token=token))) == 200
        assert world.local.desk.received == 3

    run(story)


@both_ways
@each_form
def test_a_host_with_the_name_of_a_bought_machine_does_not_report_it(
    form: Form, direct: bool
) -> None:
    async def story(world: World) -> None:
        await world.buy()
        token = host_credential(NodeId("i-123"), AGENTS_TOKEN, KEY)
        connection = HttpConnection(world.local.app, direct=direct)
        for _ in range(3):
            reply = await connection.send(beat(form, "i-123", token=token))
            assert status(reply) == 404
            assert NODE.encode() not in reply, "the name of that node is not revealed"
        assert world.local.desk.received == 0

    run(story)


@both_ways
@each_form
def test_failed_logins_are_counted_and_slowed(form: Form, direct: bool) -> None:
    async def story(world: World) -> None:
        good, bad = beat(form), beat(form, token="a-wrong-token")
        connection = HttpConnection(world.local.app, direct=direct)
        assert status(await connection.send(good)) == 200
        for _ in range(AT_ONCE_MAX):
            assert status(await connection.send(bad)) == 401
        assert await connection.send(bad) == b"", "it is not answered at once"
        counted = {"protocol": "http", "reason": "wrong"}
        assert world.metrics.value("navarch_failed_logins_total", **counted) == AT_ONCE_MAX + 1
        # Valid credentials are, also those of the same peer.
        another = HttpConnection(world.local.app, direct=direct)
        for _ in range(2):
            assert status(await another.send(good)) == 200

    run(story)


@both_ways
@each_form
def test_two_credentials_are_refused(form: Form, direct: bool) -> None:
    async def story(world: World) -> None:
        connection = HttpConnection(world.local.app, direct=direct)
        for line in (f"Authorization: Bearer {TOKEN}", "Authorization: Bearer wrong"):
            for _ in range(2):
                assert status(await connection.send(beat(form, lines=(line,)))) == 401
        assert world.local.desk.received == 0

    run(story)


def with_many_values(form: Form) -> bytes:
    """Return a heartbeat with more values than a request may hold."""
    if form.name == "connect-proto":
        gpus = [reference.GPUMetrics()] * (VALUES_PER_REQUEST.most + 1)
        metrics = reference.NodeMetrics(gpu_metrics=gpus)
        return reference.HeartbeatRequest(node_id=NODE, metrics=metrics).SerializeToString()
    if form.name == "packed":
        # Unpacked, in which each number is a value of its own: tag and float32.
        return packed(SampleBeat(node=NODE, gpus=[])) + b"\x2d\0\0\0\0" * (
            VALUES_PER_REQUEST.most + 1
        )
    limit = CONNECT_JSON_VALUES if form.name == "connect-json" else VALUES_PER_REQUEST
    return form.encode(SampleBeat(node=NODE))[:-1] + b', "x": [0%s]}' % (b",0" * limit.most)


@both_ways
@each_form
def test_a_large_heartbeat_goes_the_ordinary_way_and_is_bounded(form: Form, direct: bool) -> None:
    async def story(world: World) -> None:
        for body, expected in (
            (b"\0" * (REQUEST_BYTES.most + 1), 413),
            (with_many_values(form), 400),
        ):
            connection = HttpConnection(world.local.app, direct=direct)
            assert status(await connection.send(beat(form))) == 200
            assert len(body) > LARGE_BYTES
            reply = await connection.answer(request(form, body))
            assert status(reply) == expected, reply
            if expected == 400:
                assert b"is above the limit of" in reply
            assert getattr(connection.protocol, "answered", 0) == 0

    run(story)


@both_ways
@pytest.mark.parametrize("prepare", [stored, host, bought])
def test_a_batch_takes_only_the_nodes_that_its_sender_may_report(
    prepare: Prepare, direct: bool
) -> None:
    beats = [packed(SampleBeat(node=node)) for node in (NODE, OTHER, NODE)]
    body = HeartbeatBatchWire(heartbeats=beats).SerializeToString()
    form = Form(name="batch", path=BATCH_PATH, content_type=PROTO, encode=lambda _: body)

    async def story(world: World) -> None:
        token = await prepare(world)
        await world.register(OTHER, "training")
        data = request(form, body, token=token)
        connection = HttpConnection(world.local.app, direct=direct)
        for _ in range(2):
            reply = await connection.answer(data)
            assert status(reply) == 200
            answer = pb.HeartbeatBatchResponse.FromString(reply.partition(b"\r\n\r\n")[2])
            assert answer.accepted == 2
            assert [(x.index, x.error.code) for x in answer.results] == [(1, "permission_denied")]
        assert getattr(connection.protocol, "answered", 0) == 0, "a batch may take long"
        assert world.local.desk.received == 4
        reader = await world.token(Grant(role=Role.VIEWER), "reader")
        for token in (reader, "wrong"):
            refused = await connection.send(request(form, body, token=token))
            assert status(refused) == (403 if token == reader else 401)
        assert world.local.desk.received == 4

    run(story)


@pytest.mark.parametrize("call", ["Heartbeat", "Attach"])
def test_grpc_refuses_the_same_callers(call: str) -> None:
    async def send(channel: grpc.aio.Channel, token: str, node: str) -> str:
        metadata = (("authorization", f"Bearer {token}"),)
        body = packed(SampleBeat(node=node))
        try:
            if call == "Heartbeat":
                unary: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
                unary = channel.unary_unary("/navarch.v1.AgentService/Heartbeat")
                await unary(body, metadata=metadata)
                return "ok"
            attach: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
            attach = channel.stream_stream("/navarch.v1.AgentService/Attach")
            stream = attach(metadata=metadata)
            message = pb.AgentMessage(number=1)
            message.heartbeat.ParseFromString(body)
            await stream.write(message.SerializeToString())
            reply = await stream.read()
            assert isinstance(reply, bytes)
            answer = pb.ControlMessage.FromString(reply)
            await stream.done_writing()
        except grpc.aio.AioRpcError as error:
            return error.code().name.lower()
        return answer.error.code or "ok"

    async def story(world: World) -> None:
        rack = await world.token(RESEARCH)
        reader = await world.token(Grant(role=Role.VIEWER), "reader")
        await world.register(OTHER, "training")
        own = await host(world)
        async with (
            serve_local_api(world.local, http=False),
            grpc.aio.insecure_channel(world.local.grpc_url.removeprefix("grpc://")) as channel,
        ):
            for token, node, expected in (
                (rack, NODE, "ok"),
                (rack, OTHER, "permission_denied"),
                (own, NODE, "ok"),
                (own, OTHER, "permission_denied"),
                (reader, NODE, "permission_denied"),
                ("wrong", NODE, "unauthenticated"),
            ):
                assert await send(channel, token, node) == expected, (token, node)
            await revoke(world)
            assert await send(channel, rack, NODE) == "unauthenticated"

    run(story)
