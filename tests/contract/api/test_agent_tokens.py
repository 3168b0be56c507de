"""Tokens of the role `agent`: they report self-registered machines of their pools only."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from tests.support.local_api import H100, LocalApi, build_local_api, call_app

from navarch.api.auth import Credentials
from navarch.core.access import Grant, Identity, Role, acting_as
from navarch.core.errors import NotPossibleError, PermissionDeniedError
from navarch.core.fleet import Change
from navarch.core.health import HealthReport
from navarch.core.ids import InstanceId, NodeId, Token
from navarch.core.instance import Inventory
from navarch.core.records import evolve
from navarch.ports.agents import Registration
from navarch.testing.worlds import a_node

RACK = Identity(subject="token:rack", grants=(Grant(role=Role.AGENT, pools=("research",)),))


class ShowsRack:
    def authenticate(self, credentials: Credentials) -> Identity | None:
        return None if credentials.bearer is None else RACK


def run(story: Callable[[LocalApi], Awaitable[None]]) -> None:
    async def main() -> None:
        local = build_local_api(authenticator=ShowsRack())
        with acting_as(RACK):
            await story(local)

    asyncio.run(asyncio.wait_for(main(), 20))


def a_host(name: str, pool: str = "research") -> Registration:
    hardware = Inventory(labels={"pool": pool} if pool else {})
    return Registration(node=NodeId(name), place=H100, inventory=hardware)


def test_a_machine_of_its_pool_registers_and_reports() -> None:
    async def story(local: LocalApi) -> None:
        agents = local.guarded_agents
        await agents.register(a_host("rack-7"))
        agents.heartbeat(NodeId("rack-7"))
        await agents.report_health(NodeId("rack-7"), HealthReport(results=()))
        assert not agents.pending(NodeId("rack-7"))
        await agents.register(a_host("rack-7"))

    run(story)


@pytest.mark.parametrize("pool", ["training", ""])
def test_a_machine_of_another_pool_is_refused(pool: str) -> None:
    async def story(local: LocalApi) -> None:
        with pytest.raises(PermissionDeniedError, match="may not report"):
            await local.guarded_agents.register(a_host("rack-7", pool))
        assert not local.store.fleet().nodes
        await local.agents.register(a_host("rack-7", pool))
        with pytest.raises(PermissionDeniedError, match="may not report"):
            local.guarded_agents.heartbeat(NodeId("rack-7"))
        # Nor may the token take the node over by naming its own pool.
        with pytest.raises(PermissionDeniedError, match="may not report"):
            await local.guarded_agents.register(a_host("rack-7", "research"))

    run(story)


def test_a_machine_that_was_bought_is_refused_under_its_name_and_its_id() -> None:
    async def story(local: LocalApi) -> None:
        node = a_node("research-0", pool="research")
        assert node.launch is not None
        node = evolve(node, launch=evolve(node.launch, instance=InstanceId("i-1")))
        await local.store.commit(Change(nodes=[node]), based_on=0)
        for name in ("research-0", "i-1"):
            for call in (
                partial(local.guarded_agents.register, a_host(name)),
                partial(local.guarded_agents.report_health, NodeId(name), HealthReport(results=())),
            ):
                with pytest.raises(NotPossibleError, match="join token"):
                    await call()

    run(story)


def test_the_proof_of_a_launch_is_not_accepted_beside_it() -> None:
    async def story(local: LocalApi) -> None:
        stolen = evolve(a_host("rack-9"), token=Token("t-1"))
        with pytest.raises(PermissionDeniedError, match="registers with its join token"):
            await local.guarded_agents.register(stolen)

    run(story)


def test_it_reads_nothing() -> None:
    async def story(local: LocalApi) -> None:
        for path in ("/v1/status", "/v1/nodes", "/openapi.json", "/v1/events"):
            answer = await call_app(local.app, "GET", path, authorization="Bearer x")
            assert answer.status == 403, path
            assert "only reports" in answer.json["message"]

    run(story)


def test_protected_metrics_need_a_role_for_the_whole_fleet() -> None:
    grants = {
        "viewer": (Grant(role=Role.VIEWER),),
        "team": (Grant(role=Role.ADMIN, teams=("nlp",)),),
        "agent": (Grant(role=Role.AGENT),),
    }

    class Named:
        def authenticate(self, credentials: Credentials) -> Identity | None:
            shown = credentials.bearer
            return None if shown is None else Identity(subject=shown, grants=grants[shown])

    async def main() -> None:
        local = build_local_api(authenticator=Named(), public_metrics=False)
        for name, wanted in {"viewer": 200, "team": 403, "agent": 403}.items():
            answer = await call_app(local.app, "GET", "/metrics", authorization=f"Bearer {name}")
            assert answer.status == wanted, name
        assert (await call_app(local.app, "GET", "/metrics")).status == 401
        assert (await call_app(local.app, "GET", "/healthz")).status == 200

    asyncio.run(asyncio.wait_for(main(), 20))
