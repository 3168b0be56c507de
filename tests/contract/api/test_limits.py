"""Sizes above the limits: refused through every door, and harmless where they are stored."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from navarch.client.connect import connect_fleet
from navarch.config import ConfigError, parse_config
from navarch.core.errors import InvalidError
from navarch.core.evolve import evolve
from navarch.core.fleet import Change
from navarch.core.ids import JobName, PoolName
from navarch.core.limits import NODES_PER_POOL_MAX, TASKS_PER_JOB_MAX
from navarch.ports.api import Capacity, FleetApi, PoolSpec
from navarch.ports.jobs import JobApi, JobRequest
from navarch.testing.doors import H100, Answer, Doors, ask, build_doors, open_doors
from navarch.testing.worlds import a_job, a_pool
from navarch.wire.reference import navarch_pb2 as pb

DOORS = ("in-process", "http", "grpc")
TRAINING = PoolName("training")
SPEC = PoolSpec(name=TRAINING, offerings=(H100,), nodes_min=0, nodes_max=3)
HUGE = a_pool(size=0, nodes_max=2**53, nodes_wanted=10**9, offerings=(H100,))
NOTE = "paused: 1000000000 nodes are above the limit of 100000 nodes per pool"


def tell(door: str, story: Callable[[FleetApi, Doors], Awaitable[None]]) -> None:
    async def run() -> None:
        doors = build_doors()
        if door == "in-process":
            await story(doors.fleet, doors)
            return
        async with open_doors(doors, http=door == "http", grpc=door == "grpc"):
            client = connect_fleet(doors.http_url or doors.grpc_url, None, 10.0)
            try:
                await story(client, doors)
            finally:
                await client.close()

    asyncio.run(asyncio.wait_for(run(), 30))


async def store(doors: Doors, **change: object) -> None:
    """Write what an older version may have left."""
    revision = doors.store.fleet().revision
    await doors.store.commit(Change(**change), based_on=revision)  # type: ignore[arg-type]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes_max": NODES_PER_POOL_MAX + 1},
        {"nodes_max": 2**53},
        {"nodes_min": 10**9, "nodes_max": 10**9},
        {"nodes_max": 10**9, "nodes_wanted": 10**9},
    ],
)
def test_no_door_puts_a_pool_above_the_limit(door: str, wrong: dict[str, int]) -> None:
    async def story(fleet: FleetApi, doors: Doors) -> None:
        await fleet.put_pool(SPEC, reason="")
        before = doors.store.fleet()
        for name in (TRAINING, PoolName("other")):
            spec = replace(SPEC, name=name, **wrong)  # type: ignore[arg-type]
            with pytest.raises(InvalidError, match="above the limit of 100000 nodes per pool"):
                await fleet.put_pool(spec, reason="")
        assert doors.store.fleet() is before

    tell(door, story)


@pytest.mark.parametrize("door", DOORS)
def test_no_door_scales_a_pool_above_the_limit(door: str) -> None:
    async def story(fleet: FleetApi, doors: Doors) -> None:
        await store(doors, pools=[evolve(HUGE, nodes_wanted=4)])
        before = doors.store.fleet()
        for nodes in (NODES_PER_POOL_MAX + 1, 10**9, 2**53):
            with pytest.raises(InvalidError, match="above the limit of 100000 nodes per pool"):
                await fleet.scale(TRAINING, nodes, reason="")
        with pytest.raises(InvalidError):
            await fleet.scale(TRAINING, -1, reason="")
        assert doors.store.fleet() is before

    tell(door, story)


@pytest.mark.parametrize("door", DOORS)
def test_no_door_asks_for_more_gpus_than_one_pool_holds(door: str) -> None:
    async def story(fleet: FleetApi, doors: Doors) -> None:
        for wish in (
            Capacity(name=TRAINING, gpus=8 * NODES_PER_POOL_MAX + 1, gpu_type="h100"),
            Capacity(name=TRAINING, gpus=8, gpu_type="h100", gang=2**53),
        ):
            with pytest.raises(InvalidError, match="above the limit of 100000 nodes per pool"):
                await fleet.up(wish)
        assert doors.store.fleet().revision == 0

    tell(door, story)


@pytest.mark.parametrize("door", DOORS)
def test_a_stored_pool_above_the_limit_is_shown_paused_and_goes_on_after_a_scale_down(
    door: str,
) -> None:
    async def story(fleet: FleetApi, doors: Doors) -> None:
        await store(doors, pools=[HUGE])
        assert (await fleet.get_pool(TRAINING)).note.startswith(NOTE)
        assert [pool.note[: len(NOTE)] for pool in (await fleet.status()).pools] == [NOTE]
        scaled = await fleet.scale(TRAINING, 2, reason="as meant")
        assert (scaled.size, scaled.note) == (2, "2 to be requested")

    tell(door, story)


async def send(doors: Doors, method: str, path: str, body: str) -> Answer:
    return await ask(doors.app, method, path, body.encode(), content_type="application/json")


@pytest.mark.parametrize("nodes", ["-1", "true", "2.5", "NaN", "Infinity", '"2"', "null", "1e400"])
def test_what_is_no_count_of_nodes_is_refused_and_changes_nothing(nodes: str) -> None:
    async def story(_fleet: FleetApi, doors: Doors) -> None:
        await doors.fleet.put_pool(SPEC, reason="")
        before = doors.store.fleet()
        offering = '{"provider":"sim","instance_type":"h100-8x"}'
        sizes = f'"nodes_min":0,"nodes_max":{nodes}'
        spec = f'{{"name":"training",{sizes},"offerings":[{offering}]}}'
        put = await send(doors, "PUT", "/v1/pools/training", spec)
        scaled = await send(doors, "POST", "/v1/pools/training:scale", f'{{"nodes":{nodes}}}')
        assert (put.status, scaled.status) == (400, 400), (put.body, scaled.body)
        assert doors.store.fleet() is before

    tell("in-process", story)


def test_a_job_above_the_limit_is_refused_over_http() -> None:
    async def story(fleet: FleetApi, doors: Doors) -> None:
        assert isinstance(fleet, JobApi)
        for tasks in (TASKS_PER_JOB_MAX + 1, 2**53):
            with pytest.raises(InvalidError, match=f"tasks: must be 1 to 10000, not {tasks}"):
                await fleet.submit_job(JobRequest(name=JobName("huge"), tasks=tasks))
        assert not doors.store.fleet().jobs

    tell("http", story)


def test_a_stored_job_above_the_limit_is_listed_and_explained_over_http() -> None:
    async def story(fleet: FleetApi, doors: Doors) -> None:
        assert isinstance(fleet, JobApi)
        await store(doors, jobs=[a_job("huge", tasks=10**9)])
        (job,) = await fleet.list_jobs()
        assert job.reason.startswith("1000000000 tasks are above the limit of 10000 tasks per job")
        assert job.reason in (await fleet.explain_job(job.name)).summary

    tell("http", story)


def test_the_go_protocol_has_no_call_that_sets_a_size() -> None:
    requests = [each for each in pb.DESCRIPTOR.message_types_by_name if each.endswith("Request")]
    fields = {
        field.name
        for name in requests
        for field in pb.DESCRIPTOR.message_types_by_name[name].fields
    }
    sizes = [
        name for name in fields if {"nodes", "size", "min", "max", "tasks"} & {*name.split("_")}
    ]
    assert len(requests) >= 9
    assert sizes == []


def test_the_go_protocol_answers_beside_a_stored_pool_above_the_limit() -> None:
    async def story(_fleet: FleetApi, doors: Doors) -> None:
        await store(doors, pools=[HUGE])
        await doors.register("gpu-1")
        for method, key in (("ListNodes", "nodes"), ("ListInstances", None)):
            path = f"/navarch.ControlPlaneService/{method}"
            answer = await send(doors, "POST", path, "{}")
            assert answer.status == 200
            assert key is None or len(json.loads(answer.body)[key]) == 1

    tell("in-process", story)


def test_the_limit_of_the_file_is_the_limit_of_the_api() -> None:
    text = (
        "providers: {c: {type: fake}}\n"
        "pools: {p: {provider: c, instance_type: h100-8x, max_nodes: %d}}\n"
    )
    assert parse_config(text % NODES_PER_POOL_MAX).pools["p"].max_nodes == NODES_PER_POOL_MAX
    with pytest.raises(ConfigError, match="at most 100000"):
        parse_config(text % (NODES_PER_POOL_MAX + 1))
