"""Every pair of a role and an operation, on every door, against the one table."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import grpc
import pytest
from tests.support.local_api import LocalApi, build_local_api, call_app, serve_local_api

from navarch.api.auth import Credentials
from navarch.api.connect.handler import PREFIX, ConnectHandler
from navarch.api.connect.methods import ReferenceMethods
from navarch.api.grpc.server import OPERATIONS as GRPC_OPERATIONS
from navarch.api.guard import GuardedAgents, guarded
from navarch.api.http.route import Route
from navarch.clock import SystemClock, SystemEntropy
from navarch.core.access import (
    FLEET_WIDE,
    OPERATIONS,
    Grant,
    Identity,
    Role,
    Scope,
    acting_as,
    scope_of,
)
from navarch.core.errors import PermissionDeniedError, UnauthenticatedError
from navarch.core.ids import NodeId, PoolName
from navarch.ports.access import AccessApi
from navarch.ports.adoption import AdoptionApi
from navarch.ports.agents import AgentApi, BootDesk, JoinApi
from navarch.ports.alerts import AlertApi
from navarch.ports.api import DetailedFleet, JobApi
from navarch.ports.evidence import EvidenceApi, EvidenceDesk
from navarch.ports.fleet_health import FleetHealthApi, HeldApi
from navarch.ports.policies import PolicyApi
from navarch.ports.shell import BringUpApi
from navarch.ports.tokens import TokenApi
from navarch.wire.v1 import agent_pb2, fleet_pb2

PORTS = (
    DetailedFleet,
    JobApi,
    AlertApi,
    EvidenceApi,
    EvidenceDesk,
    BootDesk,
    HeldApi,
    BringUpApi,
    JoinApi,
    FleetHealthApi,
    PolicyApi,
    AccessApi,
    AdoptionApi,
    AgentApi,
    TokenApi,
)
NO_METHOD = {"read_openapi", "read_metrics"}
"""Operations of a door itself, behind which there is no port."""


class NamesItsRole:
    """Accepts every bearer token as an identity with the role of that name."""

    def authenticate(self, credentials: Credentials) -> Identity | None:
        shown = credentials.bearer
        if shown is None:
            return None
        if shown not in set(Role):
            raise UnauthenticatedError("no such role")
        return Identity(subject=f"a {shown}", grants=(Grant(role=Role(shown)),))


def run_story(story: Callable[[LocalApi], Awaitable[None]]) -> None:
    async def run() -> None:
        await story(build_local_api(authenticator=NamesItsRole()))

    asyncio.run(asyncio.wait_for(run(), 60))


def methods(port: type) -> list[str]:
    return [x for x in dir(port) if not x.startswith("_") and callable(getattr(port, x))]


def routes_of(local: LocalApi) -> tuple[Route, ...]:
    return local.app.routes


def test_every_method_of_a_port_for_callers_has_one_row_in_the_table() -> None:
    named = [name for port in PORTS for name in methods(port)]
    assert sorted({*named, *NO_METHOD}) == sorted(OPERATIONS)
    assert len(named) == len(set(named)), "two methods must not share a row by accident"
    assert set(OPERATIONS) > FLEET_WIDE


@pytest.mark.parametrize("role", Role)
def test_every_route_obeys_the_table(role: Role) -> None:
    async def story(local: LocalApi) -> None:
        assert len(routes_of(local)) > 50
        for route in routes_of(local):
            if route.stream is not None and role in OPERATIONS[route.operation]:
                continue  # It would not end; the streams below are.
            path = route.path.replace("{code}", "79")
            for name in (
                "node",
                "pool",
                "instance",
                "command",
                "incident",
                "kind",
                "name",
                "token",
            ):
                path = path.replace(f"{{{name}}}", "x")
            path = path.replace("{job}", "x").replace("{silence}", "x").replace("{channel}", "x")
            bad = b'{"nonsense": '
            answer = await call_app(
                local.app,
                route.method,
                path,
                bad,
                content_type="application/json",
                authorization=f"Bearer {role}",
            )
            allowed = role in OPERATIONS[route.operation]
            assert (answer.status == 403) is not allowed, (route.name, role, answer.body)
            assert answer.status != 401, route.name

    run_story(story)


@pytest.mark.parametrize("body", [b"{}", b'{"nodeId": "x"}'])
@pytest.mark.parametrize("role", Role)
def test_every_call_of_connect_obeys_the_table(role: Role, body: bytes) -> None:
    async def story(local: LocalApi) -> None:
        clock = SystemClock()
        reference = ReferenceMethods(clock, SystemEntropy(), local.fleet, local.guarded_agents)
        calls = ConnectHandler(reference, local.calls).operations
        assert len(calls) == 9
        for name, operation in calls.items():
            answer = await call_app(
                local.app,
                "POST",
                f"{PREFIX}{name}",
                body,
                content_type="application/json",
                authorization=f"Bearer {role}",
            )
            allowed = role in OPERATIONS[operation]
            assert (answer.status == 403) is not allowed, (name, role, answer.body)

    run_story(story)


@pytest.mark.parametrize("role", Role)
def test_every_call_of_grpc_obeys_the_table(role: Role) -> None:
    async def story(local: LocalApi) -> None:
        async with (
            serve_local_api(local, http=False),
            grpc.aio.insecure_channel(local.grpc_url.removeprefix("grpc://")) as channel,
        ):
            for path, operation in GRPC_OPERATIONS.items():
                code = await code_of_call(channel, path, f"Bearer {role}")
                allowed = role in OPERATIONS[operation]
                assert (code is grpc.StatusCode.PERMISSION_DENIED) is not allowed, (
                    path,
                    role,
                    code,
                )
                assert code is not grpc.StatusCode.UNAUTHENTICATED
            path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
            code = await code_of_call(channel, path, f"Bearer {role}")
            assert (code is grpc.StatusCode.PERMISSION_DENIED) is (role is Role.AGENT)

    run_story(story)


async def code_of_call(
    channel: grpc.aio.Channel, path: str, authorization: str
) -> grpc.StatusCode | None:
    metadata = (("authorization", authorization),)
    if path.endswith(("/Attach", "/ServerReflectionInfo")):
        both: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(path)
        stream = both(metadata=metadata)
        try:
            await stream.write(b"")
            await stream.read()
        except grpc.aio.AioRpcError as error:
            return error.code()
        finally:
            stream.cancel()
        return None
    if path.endswith("/Watch"):
        watch: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
        updates = watch(b"\x08\x63", metadata=metadata)  # From a revision in the future.
        try:
            await updates.read()
        except grpc.aio.AioRpcError as error:
            return error.code()
        return None
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    try:
        await call(b"", metadata=metadata, wait_for_ready=True)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return None


def test_every_call_of_our_grpc_services_has_an_operation() -> None:
    offered = {
        f"/{service.full_name}/{name}"
        for module in (fleet_pb2, agent_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
        for name in service.methods_by_name
    }
    assert offered == set(GRPC_OPERATIONS)


class Recording:
    """A service that notes which of its methods were called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., str]:
        def method(*_: object, **__: object) -> str:
            self.called.append(name)
            return name

        return method


@pytest.mark.parametrize("port", [x for x in PORTS if x is not AgentApi])
def test_a_guarded_service_obeys_the_table_whichever_door_calls_it(port: type) -> None:
    for role in Role:
        for name in methods(port):
            if name == "watch":
                continue
            service = Recording()
            with acting_as(Identity(subject="x", grants=(Grant(role=role),))):
                if role in OPERATIONS[name]:
                    assert getattr(guarded(port, lambda _: service), name)() == name  # noqa: B023
                else:
                    with pytest.raises(PermissionDeniedError):
                        getattr(guarded(port, lambda _: service), name)()  # noqa: B023
            assert service.called == ([name] if role in OPERATIONS[name] else [])


def test_a_call_without_a_caller_is_refused() -> None:
    service = Recording()
    with pytest.raises(PermissionDeniedError, match="no caller"):
        guarded(DetailedFleet, lambda _: service).status()
    with pytest.raises(PermissionDeniedError, match="no caller"):
        GuardedAgents(service).heartbeat(NodeId("n"))  # type: ignore[arg-type]
    assert not service.called


def test_a_port_with_a_method_that_has_no_row_cannot_be_served() -> None:
    class NewApi:
        def launder_money(self) -> None:
            """Do what no table mentions."""

    with pytest.raises(KeyError, match="launder_money"):
        guarded(NewApi, lambda _: NewApi())


def test_a_watch_ends_when_its_credentials_are_revoked() -> None:
    class Endless:
        async def watch(self) -> AsyncIterator[str]:
            for number in range(100):
                yield f"update {number}"

    alice = Identity(subject="alice", grants=(Grant(role=Role.VIEWER),))
    valid = [alice, alice]

    def again() -> Identity:
        if not valid:
            raise UnauthenticatedError("revoked")
        return valid.pop()

    async def follow(seen: list[object]) -> None:
        watching: Any = guarded(DetailedFleet, lambda _: cast("Any", Endless()))
        async for update in watching.watch():
            seen.append(update)  # noqa: PERF401 - what came before the error counts

    async def story() -> None:
        seen: list[object] = []
        with acting_as(alice, again), pytest.raises(UnauthenticatedError, match="revoked"):
            await follow(seen)
        assert len(seen) == 2

    asyncio.run(asyncio.wait_for(story(), 10))


def test_the_scope_of_a_caller_is_that_of_the_grants_that_allow_the_operation() -> None:
    bob = Identity(
        subject="bob",
        grants=(Grant(role=Role.VIEWER), Grant(role=Role.OPERATOR, teams=("nlp",), pools=("p-*",))),
    )
    assert scope_of(bob, "list_nodes").everything
    assert scope_of(bob, "scale") == Scope(pools=("p-*",), teams=("nlp",))
    assert scope_of(bob, "scale").covers_pool(PoolName("p-1"))
    assert not scope_of(bob, "scale").covers_pool(PoolName("q-1"))
    assert not scope_of(bob, "scale").covers_team("")
    with pytest.raises(PermissionDeniedError, match="needs the role admin, and bob has"):
        scope_of(bob, "send_test")


def test_what_belongs_to_no_pool_needs_a_grant_for_the_whole_fleet() -> None:
    carol = Identity(subject="carol", grants=(Grant(role=Role.ADMIN, teams=("nlp",)),))
    for operation in FLEET_WIDE:
        with pytest.raises(PermissionDeniedError, match="concerns the whole fleet"):
            scope_of(carol, operation)


def test_an_identity_without_a_grant_may_do_nothing() -> None:
    nobody = Identity(subject="dave")
    for operation in OPERATIONS:
        with pytest.raises(PermissionDeniedError, match="dave has no role"):
            scope_of(nobody, operation)
