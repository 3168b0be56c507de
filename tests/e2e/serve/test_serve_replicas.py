"""Three servers on one PostgreSQL database: one leads, all of them answer on every door."""

import asyncio
import hashlib
import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from http.client import HTTPConnection

import grpc
import pytest
from tests.support.fleet_process import FleetProcess
from tests.support.heartbeats import FORMS, SampleBeat, packed
from tests.support.postgres_server import PostgresServer, missing_postgres
from tests.support.replicas import ReplicaSite, replica_site

from navarch.agent.evidence import pack
from navarch.agent.transport import open_link
from navarch.client.connect import connect_fleet
from navarch.client.grpc_link import grpc_link
from navarch.core.errors import NavarchError
from navarch.core.ids import NodeId, PoolName
from navarch.core.incident import Evidence, EvidenceNote
from navarch.ports.agents import Link, Registration
from navarch.wire.v1.agent_pb2 import HeartbeatBatchRequest, HeartbeatRequest

pytestmark = pytest.mark.skipif(missing_postgres() is not None, reason=missing_postgres() or "")

TOKEN = "a-token-of-operators"
TRAINING = PoolName("training")
CONFIG = """
server: {heartbeat_interval: 1s, health_check_interval: 1s}
providers:
  fake: {type: fake, boot_min: 100ms, boot_max: 500ms}
pools:
  training: {provider: fake, instance_type: h100-8x, min_nodes: 0, max_nodes: 8}
"""


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> Iterator[ReplicaSite]:
    folder = tmp_path_factory.mktemp("replicas")
    with replica_site(folder, postgres.new_url(), token=TOKEN, config=CONFIG) as site:
        site.leader([site.start()])
        for server in [site.begin(), site.begin()]:
            site.wait(server)
        yield site


def a_bundle(node: NodeId) -> Evidence:
    content = pack({"why": "XID 79", "kernel_log": ["NVRM: Xid"]})
    note = EvidenceNote(
        id="evidence-1",
        node=node,
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        why="XID 79",
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
    )
    return Evidence(note=note, content=content)


Answer = tuple[int, bytes, str | None]


def ask(
    server: FleetProcess,
    method: str,
    path: str,
    body: bytes | None = None,
    content_type: str = "application/json",
    token: str | None = TOKEN,
) -> Answer:
    """Return the status, the body and its type as one server answers."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=20)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    if body is not None:
        headers["Content-Type"] = content_type
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return reply.status, reply.read(), reply.getheader("content-type")
    finally:
        connection.close()


def register(server: FleetProcess, name: str) -> NodeId:
    async def main() -> NodeId:
        link: Link = open_link(server.url, token=lambda: TOKEN)
        try:
            await link.register(Registration(node=NodeId(name)))
            return NodeId(name)
        finally:
            await link.close()

    return asyncio.run(main())


def test_every_http_door_answers_the_same_from_each_replica(site: ReplicaSite) -> None:
    node = register(site.servers[1], "doors")
    beat = SampleBeat(node=node)
    batch = HeartbeatBatchRequest(heartbeats=[HeartbeatRequest.FromString(packed(beat))])
    proto = "application/proto"
    questions: list[tuple[str, str, bytes | None, str, str | None]] = [
        *((m, "/v1/pools", None, proto, TOKEN) for m in ("GET", "HEAD", "PUT")),
        ("GET", "/v1/nodes/absent", None, proto, TOKEN),
        ("GET", "/v1/pools", None, proto, None),
        ("GET", "/v1/pools", None, proto, "wrong-but-long-enough"),
        ("GET", "/v1/nodes?status=nonsense", None, proto, TOKEN),
        ("GET", "/openapi.json", None, proto, TOKEN),
        ("GET", "/nowhere", None, proto, TOKEN),
        ("POST", "/v1/pools/training:scale", b"{", "application/json", TOKEN),
        ("POST", "/v1/agent/health", b"x" * (2**20 + 1), "application/json", TOKEN),
        ("POST", "/navarch.ControlPlaneService/ListNodes", b"", proto, TOKEN),
        ("POST", "/navarch.ControlPlaneService/GetNode", b"{}", "application/json", TOKEN),
        ("POST", "/navarch.ControlPlaneService/Nothing", b"{}", "application/json", TOKEN),
        *(("POST", form.path, form.encode(beat), form.content_type, TOKEN) for form in FORMS),
        ("POST", "/v1/agent/heartbeats", batch.SerializeToString(), proto, TOKEN),
    ]
    for method, path, body, kind, token in questions:
        answers = [ask(server, method, path, body, kind, token) for server in site.servers]
        assert answers[0] == answers[1] == answers[2], (method, path)
    received = [ask(x, "POST", FORMS[0].path, packed(beat), proto)[0] for x in site.servers]
    assert received == [200, 200, 200]


def test_every_grpc_call_answers_the_same_from_each_replica(site: ReplicaSite) -> None:
    node = register(site.servers[2], "grpc-doors")

    async def at(server: FleetProcess) -> list[object]:
        url = f"grpc://127.0.0.1:{server.grpc_port}"
        fleet, link = connect_fleet(url, token=TOKEN), grpc_link(url, lambda: TOKEN)
        refused = connect_fleet(url, token="wrong-but-long-enough")
        said: list[object] = []
        try:
            said.append([pool.spec.name for pool in await fleet.list_pools()])
            for call in (fleet.get_node(NodeId("absent")), refused.list_pools()):
                with pytest.raises(NavarchError) as caught:
                    await call
                said.append((type(caught.value), str(caught.value)))
            watch = fleet.watch(after_revision=0)
            said.append((await anext(aiter(watch))).revision)
            await link.report_evidence(a_bundle(node))
        finally:
            await fleet.close()
            await refused.close()
            await link.close()
        return said

    answers = [asyncio.run(at(server)) for server in site.servers]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == ["training"]
    notes = json.loads(ask(site.servers[1], "GET", f"/v1/nodes/{node}/evidence")[1])
    assert [each["id"] for each in notes["items"]] == ["evidence-1"]


def test_a_watch_at_one_replica_shows_a_change_made_at_another(site: ReplicaSite) -> None:
    watching = site.servers[1]
    revision = watching.ask(lambda api: api.status()).revision
    with socket.create_connection(("127.0.0.1", watching.port), timeout=20) as connection:
        connection.sendall(
            f"GET /v1/watch?after_revision={revision} HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {TOKEN}\r\nAccept: text/event-stream\r\n\r\n".encode()
        )
        site.servers[2].ask(lambda api: api.scale(TRAINING, 1, reason="watched"))
        received = b""
        while b"watched" not in received:
            part = connection.recv(65536)
            assert part, received
            received += part
    assert b"text/event-stream" in received
    site.servers[0].ask(lambda api: api.scale(TRAINING, 0, reason="enough"))


def test_the_cli_answers_at_a_replica_and_shows_the_leader(site: ReplicaSite) -> None:
    leader = f"127.0.0.1:{site.servers[0].port}"
    others = [f"127.0.0.1:{each.port} follows" for each in site.servers[1:]]
    site.servers[2].until(
        lambda: all(x in site.servers[2].navarch("status").stdout for x in others)
    )
    for command in ("status", "doctor"):
        shown = site.servers[2].navarch(command).stdout
        assert f"{leader} leads" in shown
        assert f"127.0.0.1:{site.servers[1].port}" in shown


def test_a_replica_shows_its_own_metrics_and_is_ready(site: ReplicaSite) -> None:
    for number, server in enumerate(site.servers):
        status, body, _ = ask(server, "GET", "/metrics", token=None)
        assert status == 200
        assert f"navarch_replica_leads {float(number == 0)}".encode() in body
        assert body.count(b"navarch_replica_up{") == 3
        assert ask(server, "GET", "/readyz", token=None)[:2] == (200, b"ready")
    assert b"navarch_store_revision" not in ask(site.servers[1], "GET", "/metrics", token=None)[1]


@pytest.mark.parametrize("number", [0, 1])
def test_the_header_of_a_stranger_is_ignored(site: ReplicaSite, number: int) -> None:
    """It would let anyone choose the address under which failed logins are counted."""
    forged = "e30.00", "x", "eyJhdCI6MCwib3JpZ2luIjp7InBlZXIiOiIxLjIuMy40In19." + "0" * 64
    for shown in forged:
        connection = HTTPConnection("127.0.0.1", site.servers[number].port, timeout=20)
        headers = {"Authorization": f"Bearer {TOKEN}", "Navarch-Forwarded": shown}
        connection.request("GET", "/v1/pools", headers=headers)
        assert connection.getresponse().status == 200
        connection.close()


def test_grpc_health_is_answered_by_the_replica_itself(site: ReplicaSite) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    for server in site.servers:
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
