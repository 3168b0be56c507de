"""One suite for FleetApi: in-process, over HTTP and over gRPC it must be the same fleet."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from tests.support.local_api import H100, LocalApi, build_local_api, serve_local_api

from navarch.client.connect import connect_fleet
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import about
from navarch.core.fleet import Change
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import CommandId, IncidentId, NodeId, PoolName
from navarch.core.incident import IncidentKind
from navarch.core.instance import GpuMetrics, NodeMetrics
from navarch.core.node import NodeStatus
from navarch.core.records import evolve
from navarch.core.recovery import CommandKind, CommandStatus
from navarch.fleet import lifecycle
from navarch.ports.api import Capacity, FailingController, FleetApi, PoolSpec, Query, Update

Story = Callable[[FleetApi, LocalApi], Awaitable[None]]

PROTOCOLS = ("in-process", "http", "grpc")
TOKEN = "a token"
TRAINING = PoolName("training")
SPEC = PoolSpec(
    name=TRAINING,
    offerings=(H100, evolve(H100, spot=True, zone="", gpus=4)),
    nodes_min=0,
    nodes_max=3,
    labels={"team": "ml"},
    ssh_keys=("ssh-ed25519 AAAA",),
    user_data="#!/bin/sh\necho 'ü'\n",
    auto_replace=False,
    unhealthy_after=1,
    boot_deadline=timedelta(minutes=7, microseconds=5),
)

FAILING = (
    FailingController(
        name="observation/sim",
        error="the credentials were refused",
        times=3,
        since=datetime(2026, 3, 1, tzinfo=UTC),
        retry_at=datetime(2026, 3, 1, 0, 5, tzinfo=UTC),
    ),
)


def run_story(protocol: str, story: Story) -> None:
    async def run() -> None:
        local = build_local_api(token=TOKEN, failing=FAILING)
        if protocol == "in-process":
            await story(local.fleet, local)
            return
        async with serve_local_api(local, http=protocol == "http", grpc=protocol == "grpc"):
            client = connect_fleet(local.http_url or local.grpc_url, TOKEN, 10.0)
            try:
                await story(client, local)
            finally:
                await client.close()

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pool_is_returned_as_it_was_put(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        put = await fleet.put_pool(SPEC, reason="we need GPUs")

        assert put.spec == SPEC
        assert put == await fleet.get_pool(TRAINING) == await local.fleet.get_pool(TRAINING)
        assert list(await fleet.list_pools()) == [put]
        (entry,) = await fleet.events()
        assert entry.event.reason == "we need GPUs"

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pool_is_scaled_within_its_bounds_only(protocol: str) -> None:
    async def story(fleet: FleetApi, _doors: LocalApi) -> None:
        await fleet.put_pool(SPEC, reason="")
        assert (await fleet.scale(TRAINING, 2, reason="more")).size == 2
        with pytest.raises(InvalidError, match="0 to 3 nodes, not 4"):
            await fleet.scale(TRAINING, 4, reason="greed")
        with pytest.raises(NotFoundError, match="pool not found: other"):
            await fleet.scale(PoolName("other"), 1, reason="")

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_deleted_pool_is_gone(protocol: str) -> None:
    async def story(fleet: FleetApi, _doors: LocalApi) -> None:
        await fleet.put_pool(SPEC, reason="")
        await fleet.delete_pool(TRAINING, reason="no longer needed")
        with pytest.raises(NotFoundError):
            await fleet.get_pool(TRAINING)
        assert list(await fleet.list_pools()) == []

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_for_gpus_creates_a_pool(protocol: str) -> None:
    async def story(fleet: FleetApi, _doors: LocalApi) -> None:
        wish = Capacity(name=TRAINING, gpus=12, gpu_type="h100", own_key="ssh-rsa AAAA me")
        pool = await fleet.up(wish)
        assert pool.size == 2
        assert pool.spec.offerings[0].gpu_type == "h100"
        assert pool.spec.ssh_keys == ("ssh-rsa AAAA me",)
        pool = await fleet.up(replace(wish, ssh_keys=("laptop", "desktop")))
        assert pool.spec.ssh_keys == ("laptop", "desktop")

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_node_is_cordoned_and_uncordoned(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        node = await local.register("a")
        cordoned = await fleet.cordon(node, reason="looks odd: ü/%")
        assert (cordoned.status, cordoned.cordoned) == (NodeStatus.CORDONED, "looks odd: ü/%")
        assert (await fleet.uncordon(node)).status is NodeStatus.ACTIVE
        with pytest.raises(NotPossibleError, match="is not cordoned"):
            await fleet.uncordon(node)
        with pytest.raises(NotFoundError, match="node not found: b"):
            await fleet.cordon(NodeId("b"), reason="")

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_findings_of_agents_become_incidents(protocol: str) -> None:
    def found(code: int, gpu: str, health: Health, **facts: str) -> HealthReport:
        known = {"code": str(code), "gpu": gpu, "class": "hardware", **facts}
        result = CheckResult(
            check=f"xid/{code}/{gpu}",
            health=health,
            reason=f"XID {code}: ü",
            lasting=True,
            action="reset_gpu",
            facts=known,
        )
        return HealthReport(results=(result,))

    async def story(fleet: FleetApi, local: LocalApi) -> None:
        sick, sound = await local.register("a"), await local.register("b")
        await local.agents.report_health(sick, found(48, "GPU-a-0", Health.UNHEALTHY))
        app = found(31, "GPU-b-1", Health.HEALTHY, pid="7", **{"class": "app"})
        await local.agents.report_health(sound, app)

        crash, broken = await fleet.list_incidents()
        assert (broken.node, broken.code, broken.kind) == (sick, "48", IncidentKind.HARDWARE)
        assert (crash.node, crash.pid, crash.kind) == (sound, "7", IncidentKind.APPLICATION)
        assert list(await fleet.list_incidents(node=sick, only_open=True)) == [broken]
        assert list(await fleet.list_incidents(limit=1)) == [crash]
        assert await fleet.get_incident(broken.id) == broken
        assert broken == local.store.fleet().incidents[broken.id]
        with pytest.raises(NotFoundError, match="incident not found: other"):
            await fleet.get_incident(IncidentId("other"))
        with pytest.raises(InvalidError):
            await fleet.list_incidents(limit=0)

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_node_is_drained_and_overridden(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        node = await local.register("a")
        assert (await fleet.drain(node, reason="upgrade")).status is NodeStatus.DRAINING
        assert (await fleet.uncordon(node)).status is NodeStatus.ACTIVE
        assert (await fleet.drain(node, reason="upgrade")).status is NodeStatus.DRAINING
        with pytest.raises(InvalidError, match="needs a reason"):
            await fleet.declare_healthy(node, reason=" ")
        assert (await fleet.declare_healthy(node, reason="I looked")).health is Health.HEALTHY
        with pytest.raises(NotPossibleError, match="was not bought by Navarch"):
            await fleet.retire(node, reason="")

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_node_is_returned_with_all_its_details(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        node = await local.register("rack 7/slot:3", gpus=2)
        readings = GpuMetrics(temperature_c=61.5, power_w=500.0, memory_used_bytes=1024.0)
        local.agents.heartbeat(node, NodeMetrics(cpu_pct=12.5, gpus=(readings, readings)))
        sick = CheckResult(check="gpu", health=Health.DEGRADED, reason="hot")
        await local.agents.report_health(node, HealthReport(results=(sick,)))
        await fleet.issue(node, CommandKind.RUN_DIAGNOSTIC, {"level": "3"})

        detail = await fleet.get_node(node)

        assert detail == await local.fleet.get_node(node)
        assert detail.metrics is not None
        assert detail.metrics.gpus == (readings, readings)
        assert detail.inventory is not None
        assert [gpu.index for gpu in detail.inventory.gpus] == [0, 1]
        assert [c.reason for c in detail.node.conditions] == ["hot"]
        assert detail.commands[0].parameters == {"level": "3"}

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_command_can_be_followed(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        node = await local.register("a")
        command = await fleet.issue(node, CommandKind.RUN_DIAGNOSTIC)
        assert command.status is CommandStatus.PENDING
        await local.agents.finish(node, command.id, succeeded=False, result="no tool")
        after = await fleet.get_command(command.id)
        assert (after.status, after.result) == (CommandStatus.FAILED, "no tool")
        with pytest.raises(NotFoundError):
            await fleet.get_command(CommandId("other"))

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lists_are_paged_filtered_and_ordered(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        for number in range(12):
            await local.register(f"n-{number}")
        await fleet.cordon(NodeId("n-3"), reason="x")

        seen = []
        query = Query(page_size=5, order_by="-name")
        while True:
            page = await fleet.list_nodes(query)
            seen += [node.id for node in page.items]
            assert page.total == 12
            if not page.next_page_token:
                break
            query = replace(query, page_token=page.next_page_token)
        cordoned = await fleet.list_nodes(Query(status=NodeStatus.CORDONED))
        labelled = await fleet.list_nodes(Query(labels={"team": "a=b&c"}))

        assert seen == [f"n-{number}" for number in reversed(range(12))]
        assert [node.id for node in cordoned.items] == ["n-3"]
        assert labelled.items == ()
        with pytest.raises(InvalidError, match="page_size"):
            await fleet.list_nodes(Query(page_size=0))
        with pytest.raises(InvalidError, match="order_by"):
            await fleet.list_nodes(Query(order_by="colour"))
        with pytest.raises(InvalidError, match="page_token"):
            await fleet.list_nodes(Query(page_token="made up"))

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_machines_are_listed(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        await fleet.put_pool(SPEC, reason="")
        page = await fleet.list_instances(Query(pool=TRAINING))
        assert page == await local.fleet.list_instances(Query(pool=TRAINING))
        with pytest.raises(NotFoundError, match="instance not found: i-1"):
            await fleet.get_instance("i-1")

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_status_is_the_same_over_every_protocol(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        node = await local.register("a")
        await fleet.put_pool(SPEC, reason="")
        fault = CheckResult(check="gpu", health=Health.DEGRADED, reason="row remapped")
        await local.agents.report_health(node, HealthReport(results=(fault,)))
        seen = await fleet.status()
        assert (seen.nodes_by_health, seen.open_incidents) == ({"degraded": 1}, 1)
        assert seen.failing == FAILING
        assert seen.store is not None
        assert seen.store.kind == "memory"
        # How fast the store answers differs from call to call.
        assert seen == replace(await local.fleet.status(), now=seen.now, store=seen.store)

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_journal_is_read_in_parts(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        for name in ("a", "b", "c"):
            await local.register(name)
        everything = await fleet.events()
        assert list(await fleet.events(after=1, limit=1)) == [everything[1]]
        assert list(await fleet.events(about=about("node", "c"))) == [everything[2]]
        assert list(await fleet.events(before=2)) == [everything[0]]
        newest = await fleet.events(newest_first=True, limit=2)
        assert list(newest) == [everything[2], everything[1]]
        assert list(await fleet.events(newest_first=True, before=2)) == [everything[0]]
        with pytest.raises(InvalidError):
            await fleet.events(limit=0)

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_why_returns_the_reasons(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        node = await local.register("a")
        command = await fleet.issue(node, CommandKind.RUN_DIAGNOSTIC)
        subject = about("command", command.id)
        why = await fleet.why(subject)
        assert why == await local.fleet.why(subject)
        assert why.steps[0].because[0].about == "node/a"
        with pytest.raises(NotFoundError):
            await fleet.why(about("node", "b"))

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_fault_can_be_injected(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        node = await local.register("a")
        fault = CheckResult(check="xid", health=Health.UNHEALTHY, reason="79", fatal=True)
        await fleet.inject(node, fault)
        assert local.injected == [(node, fault)]
        with pytest.raises(NotFoundError):
            await fleet.inject(NodeId("b"), fault)
        before = local.store.fleet()
        ended = lifecycle.gone(before.nodes[node], "ended", now=before.nodes[node].since)
        await local.store.commit(Change(nodes=[ended]), based_on=before.revision)
        with pytest.raises(NotPossibleError, match="node a is gone"):
            await fleet.inject(node, fault)

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_watch_resumes_and_never_skips(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        for number in range(5):
            await local.register(f"n-{number}")

        first = await take(fleet.watch(after_revision=0), 3)
        second = await take(fleet.watch(after_revision=first[-1].revision), 2)

        assert [update.revision for update in first + second] == [1, 2, 3, 4, 5]
        assert second[-1].nodes[0].id == "n-4"
        assert second[-1].events == tuple(await local.store.events(after=4))

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_watch_receives_later_changes(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        await local.register("a")

        async def change() -> None:
            for number in range(20):
                await local.register(f"n-{number}")
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(take(fleet.watch(after_revision=1), 20))
            tasks.create_task(change())

        assert [update.revision for update in watching.result()] == list(range(2, 22))

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_watch_from_an_unknown_revision_is_rejected(protocol: str) -> None:
    async def story(fleet: FleetApi, _doors: LocalApi) -> None:
        with pytest.raises(NotPossibleError, match="in the future"):
            await take(fleet.watch(after_revision=99), 1)

    run_story(protocol, story)


async def take(updates: AsyncIterator[Update], count: int) -> list[Update]:
    taken = []
    async with aclosing(cast("Any", updates)):
        async for update in updates:
            taken.append(update)
            if len(taken) == count:
                break
    return taken
