"""The agents' token: a host may make the calls of an agent for its own node, and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.support.local_api import LocalApi, build_local_api, serve_local_api

from navarch.agent.transport import open_link
from navarch.client.connect import connect_fleet
from navarch.client.grpc_link import grpc_link
from navarch.core.errors import NavarchError, NotPossibleError, UnauthenticatedError
from navarch.core.fleet import Change
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import InstanceId, NodeId
from navarch.core.instance import Gpu, Inventory
from navarch.core.node import NodeStatus, Phase
from navarch.core.ownership import host_credential
from navarch.core.records import evolve
from navarch.fleet import lifecycle
from navarch.ports.agents import Link, Registration, UnauthorizedError
from navarch.testing.worlds import NOW, a_node, a_pool

OPERATORS, AGENTS = "the-token-of-operators", "the-token-of-agents-here"
HOST = NodeId("rack-7")
SICK = HealthReport(results=(CheckResult(check="gpu", health=Health.UNHEALTHY, fatal=True),))
PROTOCOLS = ("http", "grpc")

LinkTo = Callable[..., Link]


def run_story(
    protocol: str,
    story: Callable[[LocalApi, LinkTo], Awaitable[None]],
    *,
    agent_token: str | None = AGENTS,
) -> None:
    async def run() -> None:
        local = build_local_api(token=OPERATORS, agent_token=agent_token)
        async with serve_local_api(local), links(local, protocol) as link_to:
            await story(local, link_to)

    asyncio.run(asyncio.wait_for(run(), 60))


@asynccontextmanager
async def links(local: LocalApi, protocol: str) -> AsyncIterator[LinkTo]:
    opened: list[Link] = []

    def link_to(node: NodeId = HOST, *, key: str = "key", token: str = AGENTS) -> Link:
        shown = host_credential(node, token, key)
        found: Link = (
            open_link(local.http_url, token=lambda: shown)
            if protocol == "http"
            else grpc_link(local.grpc_url, lambda: shown)
        )
        opened.append(found)
        return found

    try:
        yield link_to
    finally:
        for each in opened:
            await each.close()


def a_registration(node: NodeId = HOST) -> Registration:
    return Registration(node=node, inventory=Inventory(gpus=(Gpu(index=0, uuid="GPU-0"),)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_host_registers_and_reports_its_own_node(protocol: str) -> None:
    async def story(local: LocalApi, link_to: LinkTo) -> None:
        link = link_to()
        assert (await link.register(a_registration())).node == HOST
        assert local.store.fleet().nodes[HOST].machine
        await link.heartbeat(HOST, None)
        assert await link.report_health(HOST, SICK) is NodeStatus.UNHEALTHY
        assert (await link.register(a_registration())).node == HOST, "after a restart"

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_host_reports_no_other_node_and_takes_none_over(protocol: str) -> None:
    async def story(local: LocalApi, link_to: LinkTo) -> None:
        await link_to().register(a_registration())
        other = NodeId("rack-8")
        thief = link_to(other, key="another key")
        await thief.register(a_registration(other))
        before = local.store.fleet()
        calls: tuple[Callable[[Link], Awaitable[object]], ...] = (
            lambda link: link.register(a_registration()),
            lambda link: link.heartbeat(HOST, None),
            lambda link: link.report_health(HOST, SICK),
        )
        for call in calls:
            for link in (thief, link_to(HOST, key="another key")):
                with pytest.raises((UnauthorizedError, NotPossibleError)):
                    await call(link)
        assert local.store.fleet() is before

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", ["training-0", "i-1234"])
def test_a_host_cannot_register_as_a_machine_that_was_bought(protocol: str, name: str) -> None:
    async def story(local: LocalApi, link_to: LinkTo) -> None:
        node = a_node("training-0", phase=Phase.BOOTING)
        assert node.launch is not None
        launch = evolve(node.launch, instance=InstanceId("i-1234"))
        change = Change(pools=[a_pool()], nodes=[evolve(node, launch=launch)])
        await local.store.commit(change, based_on=0)
        before = local.store.fleet()
        link = link_to(NodeId(name))
        with pytest.raises((UnauthorizedError, NotPossibleError)):
            await link.register(a_registration(NodeId(name)))
        assert local.store.fleet() is before

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("configured", "shown"), [(AGENTS, OPERATORS), (AGENTS, "wrong"), (None, AGENTS), (None, "")]
)
def test_a_wrong_token_is_refused(protocol: str, configured: str | None, shown: str) -> None:
    async def story(local: LocalApi, link_to: LinkTo) -> None:
        with pytest.raises(UnauthorizedError):
            await link_to(token=shown).register(a_registration())
        assert not local.store.fleet().nodes

    run_story(protocol, story, agent_token=configured)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("shown", [AGENTS, host_credential(HOST, AGENTS, "key")])
def test_the_agents_token_makes_no_call_of_an_operator(protocol: str, shown: str) -> None:
    async def story(local: LocalApi, _link_to: LinkTo) -> None:
        fleet = connect_fleet(local.http_url if protocol == "http" else local.grpc_url, shown)
        with pytest.raises(NavarchError) as refused:
            await fleet.status()
        assert isinstance(refused.value, UnauthenticatedError | NotPossibleError) or (
            "token" in str(refused.value)
        )
        await fleet.close()

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_host_that_was_forgotten_registers_anew_and_an_earlier_one_is_bound(
    protocol: str,
) -> None:
    async def story(local: LocalApi, link_to: LinkTo) -> None:
        await local.register(HOST)  # With the operators' token, before there was one for agents.
        assert not local.store.fleet().nodes[HOST].machine
        await link_to().register(a_registration())
        assert local.store.fleet().nodes[HOST].machine
        gone, event = lifecycle.forgotten(local.store.fleet().nodes[HOST], "silent", now=NOW)
        change = Change(nodes=[gone], events=[event])
        await local.store.commit(change, based_on=local.store.fleet().revision)
        await link_to(key="a new installation").register(a_registration())
        node = local.store.fleet().nodes[HOST]
        assert node.machine
        assert not node.gone

    run_story(protocol, story)
