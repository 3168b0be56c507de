"""Stored tokens: shown once, hashed, expiring, rotating, revocable."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from tests.support.local_api import LocalApi, build_local_api, call_app, serve_local_api

from navarch.client.connect import connect_fleet
from navarch.client.http import HttpFleetClient
from navarch.core.access import ADMIN, Grant, Identity, Role, acting_as
from navarch.core.access_token import PREFIX
from navarch.core.errors import (
    InvalidError,
    NotFoundError,
    NotPossibleError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from navarch.core.ids import PoolName, TokenName
from navarch.core.ownership import Cluster
from navarch.ports.api import Capacity
from navarch.ports.tokens import TokenRequest
from navarch.service.tokens import USE_EVERY, TokenService, TokenUses
from navarch.sim.kernel.clock import SeededEntropy
from navarch.stores.memory import MemoryStore

ROOT = "the-operators-token"
CI = TokenName("ci")
OPERATOR = Grant(role=Role.OPERATOR)


class SetClock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    async def sleep(self, _seconds: float) -> None:
        return None


class Desk:
    """A token service with a clock of its own."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.store = MemoryStore(Cluster(id="test", secret=bytes(32)))
        self.uses = TokenUses(self.clock, self.store)
        self.tokens = TokenService(self.clock, SeededEntropy("1"), self.store, self.uses)

    async def create(self, span: timedelta | None = timedelta(days=1)) -> str:
        asked = TokenRequest(name=CI, grant=OPERATOR, expires_in=span)
        return (await self.tokens.create_token(asked)).token

    def accepts(self, shown: str) -> bool:
        try:
            self.tokens.recognize_token(shown)
        except UnauthenticatedError:
            return False
        return True


def run(story: Callable[[Desk], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(Desk()), 20))


def test_a_token_is_accepted_until_it_expires() -> None:
    async def story(desk: Desk) -> None:
        shown = await desk.create(timedelta(days=1))
        assert desk.tokens.recognize_token(shown).grants == (OPERATOR,)
        desk.clock.time += timedelta(days=1, microseconds=-1)
        assert desk.accepts(shown)
        desk.clock.time += timedelta(microseconds=1)
        assert not desk.accepts(shown)
        (view,) = await desk.tokens.list_tokens()
        assert view.expired

    run(story)


def test_a_token_without_an_end_does_not_expire() -> None:
    async def story(desk: Desk) -> None:
        shown = await desk.create(None)
        desk.clock.time += timedelta(days=10_000)
        assert desk.accepts(shown)

    run(story)


@pytest.mark.parametrize("change", [lambda x: x[:-1], lambda x: x + "0", str.upper, lambda _: ""])
def test_another_secret_is_refused(change: Callable[[str], str]) -> None:
    async def story(desk: Desk) -> None:
        shown = await desk.create()
        assert not desk.accepts(change(shown))
        assert not desk.accepts(shown.replace("ci.", "cd."))
        assert not desk.accepts(f"{PREFIX}ci.")

    run(story)


def test_neither_the_store_nor_the_journal_holds_a_secret() -> None:
    async def story(desk: Desk) -> None:
        first = await desk.create()
        second = (await desk.tokens.rotate_token(CI)).token
        kept = msgspec.json.encode(
            [*desk.store.fleet().access_tokens.values(), *await desk.store.events()]
        )
        listed = msgspec.json.encode(await desk.tokens.list_tokens())
        for shown in (first, second):
            secret = shown.rpartition(".")[2]
            assert len(secret) == 64
            assert secret.encode() not in kept + listed
        assert b"sha256" not in listed

    run(story)


def test_after_a_rotation_both_secrets_are_accepted_until_the_overlap_ends() -> None:
    async def story(desk: Desk) -> None:
        old = await desk.create(timedelta(days=30))
        new = (await desk.tokens.rotate_token(CI, overlap=timedelta(hours=2))).token
        assert desk.accepts(old)
        assert desk.accepts(new)
        desk.clock.time += timedelta(hours=2)
        assert not desk.accepts(old)
        assert desk.accepts(new)

    run(story)


def test_an_overlap_does_not_extend_a_secret() -> None:
    async def story(desk: Desk) -> None:
        old = await desk.create(timedelta(hours=1))
        await desk.tokens.rotate_token(CI, overlap=timedelta(days=5))
        desk.clock.time += timedelta(hours=1)
        assert not desk.accepts(old)

    run(story)


def test_a_second_rotation_ends_the_secret_before_the_last() -> None:
    async def story(desk: Desk) -> None:
        first = await desk.create()
        second = (await desk.tokens.rotate_token(CI)).token
        third = (await desk.tokens.rotate_token(CI)).token
        assert [desk.accepts(each) for each in (first, second, third)] == [False, True, True]

    run(story)


def test_a_revoked_token_is_refused_and_its_name_can_be_used_again() -> None:
    async def story(desk: Desk) -> None:
        first = await desk.create()
        with pytest.raises(NotPossibleError, match="a token named ci exists"):
            await desk.create()
        await desk.tokens.revoke_token(CI, reason="leaked")
        assert not desk.accepts(first)
        with pytest.raises(NotFoundError):
            await desk.tokens.revoke_token(CI)
        second = await desk.create()
        assert not desk.accepts(first)
        assert desk.accepts(second)
        kinds = [(each.event.kind, each.event.reason) for each in await desk.store.events()]
        assert kinds[1] == ("token.revoked", "leaked")

    run(story)


def test_the_last_use_is_recorded_every_few_minutes_and_not_with_each_request() -> None:
    async def story(desk: Desk) -> None:
        shown = await desk.create()
        before = desk.store.fleet().revision
        for _ in range(50):
            desk.accepts(shown)
            await desk.uses.save()
        assert desk.store.fleet().revision == before + 1
        desk.clock.time += USE_EVERY
        desk.accepts(shown)
        (view,) = await desk.tokens.list_tokens()
        assert view.last_used_at == desk.clock.time
        await desk.uses.save()
        assert desk.store.fleet().access_tokens[CI].last_used_at == desk.clock.time

    run(story)


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        (TokenRequest(name=TokenName("Ünde"), grant=OPERATOR), "name: use"),
        (TokenRequest(name=TokenName("a.b"), grant=OPERATOR), "name: use"),
        (TokenRequest(name=CI, grant=OPERATOR, expires_in=timedelta(0)), "expires_in"),
        (TokenRequest(name=CI, grant=OPERATOR, expires_in=timedelta(days=4000)), "expires_in"),
        (TokenRequest(name=CI, grant=Grant(role=Role.VIEWER, teams=("",))), "is empty"),
        (TokenRequest(name=CI, grant=Grant(role=Role.AGENT, teams=("a",))), "not a team"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(request_: TokenRequest, complaint: str) -> None:
    async def story(desk: Desk) -> None:
        with pytest.raises(InvalidError, match=complaint):
            await desk.tokens.create_token(request_)

    run(story)


def serve(story: Callable[[LocalApi, HttpFleetClient], Awaitable[None]]) -> None:
    async def main() -> None:
        local = build_local_api(token=ROOT)
        async with serve_local_api(local):
            client = connect_fleet(local.http_url, ROOT, 10.0)
            assert isinstance(client, HttpFleetClient)
            try:
                await story(local, client)
            finally:
                await client.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_over_http_and_grpc_a_token_opens_what_its_role_allows() -> None:
    async def story(local: LocalApi, root: HttpFleetClient) -> None:
        asked = TokenRequest(name=CI, grant=Grant(role=Role.VIEWER))
        shown = (await root.create_token(asked)).token
        assert [each.name for each in await root.list_tokens()] == [CI]
        for url in (local.http_url, local.grpc_url):
            viewer = connect_fleet(url, shown, 10.0)
            await viewer.status()
            with pytest.raises(PermissionDeniedError, match="up needs the role admin or operator"):
                await viewer.up(Capacity(name=PoolName("p"), gpus=8, gpu_type="h100"))
            await viewer.close()
        viewer = connect_fleet(local.http_url, shown, 10.0)
        assert isinstance(viewer, HttpFleetClient)
        who = await viewer.whoami()
        assert (who.subject, who.grants) == ("token:ci", (Grant(role=Role.VIEWER),))
        with pytest.raises(PermissionDeniedError):
            await viewer.list_tokens()
        await root.revoke_token(CI)
        with pytest.raises(UnauthenticatedError):
            await viewer.status()
        await viewer.close()

    serve(story)


def test_a_secret_sent_to_the_log_or_an_error_is_not_repeated() -> None:
    async def main() -> None:
        local = build_local_api(token=ROOT)
        with acting_as(Identity(subject="x", grants=ADMIN)):
            answer = await call_app(
                local.app, "GET", "/v1/status", authorization="Bearer nvt1.ci.hunter2"
            )
        assert (answer.status, answer.body) == (401, b"unauthorized")

    asyncio.run(main())
