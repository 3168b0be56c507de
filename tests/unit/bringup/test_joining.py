"""A join token admits one machine, as one node, with an agent's permissions."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from test_bringup_policy import a_machine
from tests.support.local_api import build_local_api, serve_local_api

from navarch.agent.settings import machine_key
from navarch.agent.transport.protobuf import heartbeat_bytes
from navarch.api.auth import BearerToken, Chain, JoinTokens
from navarch.api.guard import GuardedAgents
from navarch.api.heartbeats import HeartbeatDesk
from navarch.api.http.app import HttpApp, build_http_app
from navarch.client.connect import connect_fleet
from navarch.client.grpc_link import grpc_link
from navarch.clock import SystemClock, SystemEntropy
from navarch.core.errors import (
    NavarchError,
    NotFoundError,
    NotPossibleError,
    UnauthenticatedError,
)
from navarch.core.fleet import Change
from navarch.core.ids import NodeId, Token
from navarch.core.instance import Inventory
from navarch.core.node import LINK, Phase, Retirement
from navarch.core.ownership import Cluster, join_token, read_join_token, with_machine_key
from navarch.core.records import evolve
from navarch.ports.agents import Registration, UnauthorizedError
from navarch.service.agents import AgentService
from navarch.service.fleet import FleetService
from navarch.service.joining import JoinService
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import H100, a_pool, indexed

CLUSTER = Cluster(id="c-1", secret=b"secret")
NODE, LAUNCH = NodeId("training-0"), Token("t-1")


async def a_store() -> MemoryStore:
    store = MemoryStore(CLUSTER)
    await store.commit(
        Change(pools=[evolve(a_pool(), next_index=1)], nodes=[a_machine()]), based_on=0
    )
    return store


def token(node: NodeId = NODE, launch: Token = LAUNCH, *, key: str = "key-of-machine-a") -> str:
    return with_machine_key(join_token(CLUSTER, node, launch), key)


def test_a_token_names_its_node_and_launch_and_cannot_be_altered() -> None:
    shown = token()
    joiner = read_join_token(CLUSTER, shown)
    assert joiner is not None
    assert (joiner.node, joiner.launch) == (NODE, LAUNCH)
    assert "key-of-machine-a" not in joiner.machine
    other = join_token(CLUSTER, NodeId("training-1"), LAUNCH).split(".")
    forged = ".".join(["nvj1", other[1], *shown.split(".")[2:]])
    assert read_join_token(CLUSTER, forged) is None
    assert read_join_token(replace(CLUSTER, secret=b"other"), shown) is None


def test_a_token_is_not_valid_for_another_launch_of_its_node() -> None:
    shown = token().split(".")
    newer = join_token(CLUSTER, NODE, Token("t-2")).split(".")
    assert read_join_token(CLUSTER, ".".join([*shown[:2], newer[2], *shown[3:]])) is None


@pytest.mark.parametrize("shown", ["", "nvj1.", "nvj1.a.b.c", "nvj1.*.*.*", "nvj1.gA.gA.x.y"])
def test_an_invalid_token_has_no_identity(shown: str) -> None:
    assert read_join_token(CLUSTER, shown) is None


def test_only_the_first_machine_can_use_a_token() -> None:
    async def story() -> None:
        store = await a_store()
        joins = JoinService(SystemClock(), store)
        first, second = joins.recognize(token()), joins.recognize(token(key="key-of-machine-b"))
        await joins.bind(first)
        await joins.bind(first)
        with pytest.raises(UnauthenticatedError, match="used by another machine"):
            joins.recognize(token(key="key-of-machine-b"))
        with pytest.raises(UnauthenticatedError, match="used by another machine"):
            await joins.bind(second)
        assert joins.recognize(token()) == first

    asyncio.run(story())


def test_the_token_of_an_earlier_launch_is_refused() -> None:
    async def story() -> None:
        joins = JoinService(SystemClock(), await a_store())
        for shown in (token(launch=Token("t-0")), token(NodeId("training-7"))):
            with pytest.raises(UnauthenticatedError, match="no longer expected"):
                joins.recognize(shown)
        with pytest.raises(UnauthenticatedError, match="own key"):
            joins.recognize(join_token(CLUSTER, NODE, LAUNCH))

    asyncio.run(story())


def test_the_token_of_a_departed_node_is_refused() -> None:
    async def story() -> None:
        store = await a_store()
        joins = JoinService(SystemClock(), store)
        await joins.bind(joins.recognize(token()))
        for phase in (Phase.TERMINATING, Phase.GONE):
            joins.recognize(token())
            node = evolve(store.fleet().nodes[NODE], phase=phase)
            await store.commit(Change(nodes=[node]), based_on=store.fleet().revision)
        with pytest.raises(UnauthenticatedError, match="no longer expected"):
            joins.recognize(token())

    asyncio.run(story())


def an_app(store: MemoryStore) -> HttpApp:
    clock, columns = SystemClock(), TelemetryTable(SystemClock(), timeout=a_pool().cooldown)
    joins = JoinService(clock, store)
    agents = GuardedAgents(AgentService(clock, store, indexed(store), columns), joins)
    return build_http_app(
        clock,
        SystemEntropy(),
        FleetService(clock, SystemEntropy(), store, columns),
        agents,
        auth=Chain([JoinTokens(joins), BearerToken("the operators' token")]),
        desk=HeartbeatDesk(agents, columns),
        metrics=lambda: iter(()),
        link="10.0.0.5:8080/http",
    )


async def ask(
    app: HttpApp,
    method: str,
    path: str,
    shown: str,
    body: bytes = b"",
    kind: bytes = b"application/json",
) -> int:
    answers: list[Mapping[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Mapping[str, object]) -> None:
        answers.append(message)

    headers = [
        (b"authorization", f"Bearer {shown}".encode()),
        (b"content-type", kind),
    ]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": headers,
    }
    await app(scope, receive, send)
    status = answers[0]["status"]
    assert isinstance(status, int)
    return status


def test_a_machine_joins_with_its_token_and_may_act_only_as_its_node() -> None:
    async def story() -> None:
        store = await a_store()
        app = an_app(store)
        me = b'{"node": "training-0", "boot_id": "b"}'
        assert await ask(app, "POST", "/v1/agent/heartbeat", token(), b'{"node": "x"}') == 403
        assert await ask(app, "POST", "/v1/agent/register", token(), me) == 200
        assert store.fleet().nodes[NODE].registered_at is not None
        assert (
            await ask(app, "POST", "/v1/agent/heartbeat", token(), b'{"node": "training-0"}') == 200
        )
        assert await ask(app, "POST", "/v1/agent/register", token(key="b"), me) == 401
        assert await ask(app, "POST", "/v1/agent/register", token(), b'{"node": "other"}') == 403
        assert await ask(app, "GET", "/v1/nodes", token()) == 403
        packed = heartbeat_bytes(NodeId("training-1"), None, sequence=1)
        path = "/v1/agent/heartbeat"
        assert await ask(app, "POST", path, token(), packed, kind=b"application/proto") == 403
        packed = heartbeat_bytes(NODE, None, sequence=1)
        assert await ask(app, "POST", path, token(), packed, kind=b"application/proto") == 200
        assert await ask(app, "GET", "/v1/nodes", "the operators' token") == 200

    asyncio.run(story())


def test_a_machines_key_file_is_private(tmp_path: Path) -> None:
    first = machine_key(tmp_path / "state", SystemEntropy())
    assert machine_key(tmp_path / "state", SystemEntropy()) == first
    assert machine_key(tmp_path / "other", SystemEntropy()) != first
    assert (tmp_path / "state" / "machine-key").stat().st_mode & 0o077 == 0


def test_an_operator_gets_only_tokens_of_machines_that_have_not_joined() -> None:
    async def story() -> None:
        store = await a_store()
        joins = JoinService(SystemClock(), store)
        assert await joins.issue_join_token(NODE) == join_token(CLUSTER, NODE, LAUNCH)
        with pytest.raises(NotFoundError):
            await joins.issue_join_token(NodeId("training-7"))
        await joins.bind(joins.recognize(token()))
        with pytest.raises(NotPossibleError, match="joined already; with --again"):
            await joins.issue_join_token(NODE)

    asyncio.run(story())


def test_no_token_is_issued_for_a_node_that_is_being_removed() -> None:
    async def story() -> None:
        store = await a_store()
        leaving = evolve(store.fleet().nodes[NODE], retiring=Retirement(reason="not needed"))
        await store.commit(Change(nodes=[leaving]), based_on=store.fleet().revision)
        with pytest.raises(NotPossibleError):
            await JoinService(SystemClock(), store).issue_join_token(NODE)

    asyncio.run(story())


def test_a_reinstalled_machine_can_join_again_and_the_old_key_is_refused() -> None:
    async def story() -> None:
        store = await a_store()
        joins = JoinService(SystemClock(), store)
        await joins.bind(joins.recognize(token()))
        await joins.issue_join_token(NODE, again=True, reason="new disk")
        anew = joins.recognize(token(key="key-of-the-same-installed-anew"))
        await joins.bind(anew)
        with pytest.raises(UnauthenticatedError, match="used by another machine"):
            joins.recognize(token())
        last = [entry.event for entry in await store.events()][-2]
        assert last.kind == "node.join_reopened"
        assert last.reason.endswith("new disk")

    asyncio.run(story())


def test_the_server_records_where_a_machine_registered_whatever_the_machine_claims() -> None:
    async def story() -> None:
        store = await a_store()
        claims = b'{"node": "training-0", "boot_id": "b", "link": "x:1/http"}'
        await ask(an_app(store), "POST", "/v1/agent/register", token(), claims)
        honest = b'{"node": "training-0", "boot_id": "b"}'
        assert await ask(an_app(store), "POST", "/v1/agent/register", token(), honest) == 200
        assert store.fleet().nodes[NODE].traits[LINK].value == "10.0.0.5:8080/http"
        assert not store.fleet().nodes[NODE].traits[LINK].before

    asyncio.run(story())


def test_over_grpc_a_machine_joins_and_may_act_only_as_its_node() -> None:
    async def story() -> None:
        local = build_local_api(token="the-operators-token", store=await a_store())
        async with serve_local_api(local, http=False):
            mine = grpc_link(local.grpc_url, token)
            hardware = Inventory(gpus=(), hostname="machine-a")
            registration = Registration(node=NODE, place=H100, inventory=hardware)
            await mine.register(registration)
            node = local.store.fleet().nodes[NODE]
            assert node.machine
            assert node.phase is Phase.READY
            await mine.heartbeat(NODE, None)
            other = NodeId("training-1")
            with pytest.raises(UnauthorizedError, match="not for node training-1"):
                await mine.register(evolve(registration, node=other))
            with pytest.raises(NavarchError, match="training-1"):
                await mine.heartbeat(other, None)
            thief = grpc_link(local.grpc_url, lambda: token(key="key-of-machine-b"))
            with pytest.raises(UnauthorizedError):
                await thief.register(registration)
            fleet = connect_fleet(local.grpc_url, token=token(), timeout_s=10.0)
            with pytest.raises(NavarchError, match="a token for agents only reports"):
                await fleet.status()
            await fleet.close()
            for link in (mine, thief):
                await link.close()

    asyncio.run(story())


def test_the_command_prints_the_token_and_nothing_else() -> None:
    async def story() -> None:
        local = build_local_api(token="the-operators-token", store=await a_store())
        async with serve_local_api(local, grpc=False):
            ran = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "navarch.cli", "-s", local.http_url),
                *("--token", "the-operators-token", "join-token", NODE),
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await ran.communicate()
            assert output.decode() == join_token(CLUSTER, NODE, LAUNCH) + "\n"

    asyncio.run(story())
