"""Authentication of requests."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import pytest
from tests.support.local_api import LocalApi, build_local_api, call_app, serve_local_api

from navarch.api.auth import (
    Anyone,
    BearerToken,
    Binding,
    Bound,
    Certificates,
    Chain,
    ClientCertificate,
    Credentials,
    JoinTokens,
    identify,
)
from navarch.client.connect import connect_fleet
from navarch.core.access import ADMIN, Grant, Identity, Role
from navarch.core.errors import UnauthenticatedError
from navarch.core.ownership import PREFIX, Joiner
from navarch.ports.agents import Registration

TOKEN = "s3cret"


def showing(authorization: bytes) -> Credentials:
    return Credentials(headers={b"authorization": authorization})


def test_the_right_token_is_accepted() -> None:
    identity = BearerToken(TOKEN).authenticate(showing(b"Bearer s3cret"))
    assert identity == Identity(subject="system:authenticated", grants=ADMIN)


def test_a_request_without_credentials_has_no_identity() -> None:
    assert BearerToken(TOKEN).authenticate(Credentials()) is None


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        (b"Bearer wrong", "invalid bearer token"),
        (b"Bearer s3cret ", "invalid bearer token"),
        (b"Bearer ", "malformed authorization header"),
        (b"Basic s3cret", "malformed authorization header"),
        (b"", "malformed authorization header"),
        ("Bearer ü".encode(), "invalid bearer token"),
    ],
)
def test_wrong_credentials_are_an_error(header: bytes, complaint: str) -> None:
    with pytest.raises(UnauthenticatedError, match=complaint):
        BearerToken(TOKEN).authenticate(showing(header))


def test_an_empty_token_accepts_no_request() -> None:
    assert BearerToken("").authenticate(showing(b"Bearer ")) is None


class NoJoins:
    """Recognizes no machine."""

    def recognize(self, token: str) -> Joiner:
        raise UnauthenticatedError(f"unknown join token {token}")

    def check_expected(self, joiner: Joiner) -> None:
        raise UnauthenticatedError(f"node {joiner.node} expects no machine")

    async def admit(self, joiner: Joiner, registration: Registration) -> Registration:
        del joiner
        return registration

    async def bind(self, joiner: Joiner) -> None:
        del joiner


def test_a_caller_without_a_join_token_is_identified_by_the_other_authenticator() -> None:
    alice = Chain([JoinTokens(NoJoins()), BearerToken("a", subject="alice")])
    assert alice.authenticate(showing(b"Bearer a")) == Identity(subject="alice", grants=ADMIN)
    with pytest.raises(UnauthenticatedError, match="invalid bearer token"):
        alice.authenticate(showing(b"Bearer b"))
    assert alice.authenticate(Credentials()) is None
    anyone = Chain([JoinTokens(NoJoins()), Anyone()])
    assert anyone.authenticate(Credentials()) is not None
    with pytest.raises(UnauthenticatedError, match="unknown join token"):
        anyone.authenticate(showing(f"Bearer {PREFIX}x".encode()))


def test_a_wrong_token_is_not_made_up_for_by_a_certificate() -> None:
    certificate = ClientCertificate(common_name="root", names=("root.example",))
    root = Binding(grant=Grant(role=Role.ADMIN), subjects=frozenset({"cert:root.example"}))
    for operators in (BearerToken(TOKEN), Chain([])):
        chain = Chain([operators, Bound(Certificates(), lambda: [root])])
        alone = chain.authenticate(Credentials(certificate=certificate))
        assert alone is not None
        assert alone.grants == (root.grant,)
        for header in (b"Bearer wrong", b"Basic eDp5", b""):
            shown = Credentials(headers={b"authorization": header}, certificate=certificate)
            with pytest.raises(UnauthenticatedError):
                identify(chain, shown)


def test_an_authenticator_may_take_credentials_of_another_scheme() -> None:
    class Basic:
        def authenticate(self, credentials: Credentials) -> Identity | None:
            header = credentials.headers.get(b"authorization", b"")
            return Identity(subject="kim") if header.startswith(b"Basic ") else None

    chain = Chain([JoinTokens(NoJoins()), Basic(), BearerToken(TOKEN)])
    assert chain.authenticate(showing(b"Basic eDp5")) == Identity(subject="kim")
    with pytest.raises(UnauthenticatedError, match="malformed"):
        chain.authenticate(showing(b"Digest x"))


def run_story(story: Callable[[LocalApi], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(build_local_api(token=TOKEN)), 20))


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "nonsense"])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/status"),
        ("GET", "/v1/nothing"),
        ("GET", "/openapi.json"),
        ("GET", "/v1/watch"),
        ("POST", "/v1/agent/heartbeat"),
        ("POST", "/navarch.ControlPlaneService/ListNodes"),
        ("GET", "/%68ealthz"),
    ],
)
def test_every_path_rejects_a_request_without_credentials(
    method: str, path: str, authorization: str | None
) -> None:
    async def story(local: LocalApi) -> None:
        headers = {} if authorization is None else {"authorization": authorization}
        for kind in ("application/proto", "application/json"):
            answer = await call_app(local.app, method, path, b"", content_type=kind, **headers)
            assert (answer.status, answer.body) == (401, b"unauthorized")
            assert answer.headers["www-authenticate"] == 'Bearer realm="navarch"'

    run_story(story)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_need_no_token(path: str) -> None:
    async def story(local: LocalApi) -> None:
        assert (await call_app(local.app, "GET", path)).status == 200

    run_story(story)


def test_an_agent_bundle_needs_no_token_and_is_found_by_its_hash_only() -> None:
    async def story() -> None:
        local = build_local_api(token=TOKEN, bundle={"abc": b"the agent"}.get)
        answer = await call_app(local.app, "GET", "/agent/abc")
        assert (answer.status, answer.body) == (200, b"the agent")
        head = await call_app(local.app, "HEAD", "/agent/abc")
        assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "9")
        assert (await call_app(local.app, "GET", "/agent/abd")).status == 404
        assert (await call_app(local.app, "GET", "/agent/")).status == 404
        assert (await call_app(local.app, "POST", "/agent/abc")).status == 405

    asyncio.run(asyncio.wait_for(story(), 20))


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_client_without_the_right_token_gets_an_error(protocol: str, token: str | None) -> None:
    async def story(local: LocalApi) -> None:
        async with serve_local_api(local, http=protocol == "http", grpc=protocol == "grpc"):
            client = connect_fleet(local.http_url or local.grpc_url, token, 5.0)
            with pytest.raises(UnauthenticatedError):
                await client.status()
            with pytest.raises(UnauthenticatedError):
                async for _ in client.watch(after_revision=0):
                    pass
            await client.close()

    run_story(story)


def test_grpc_health_is_open_and_everything_else_is_not() -> None:
    async def story(local: LocalApi) -> None:
        async with (
            serve_local_api(local, http=False),
            grpc.aio.insecure_channel(local.grpc_url.removeprefix("grpc://")) as channel,
        ):
            check: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                "/grpc.health.v1.Health/Check"
            )
            assert await check(b"", wait_for_ready=True) == b"\x08\x01"
            attach: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
                "/navarch.v1.AgentService/Attach"
            )
            stream = attach()
            assert await stream.code() is grpc.StatusCode.UNAUTHENTICATED
            reflect: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
                "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
            )
            assert await reflect().code() is grpc.StatusCode.UNAUTHENTICATED

    run_story(story)
