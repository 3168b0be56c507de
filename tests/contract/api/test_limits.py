"""Sizes above the limits: rejected over every protocol, and harmless where they are stored."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from tests.support.local_api import (
    H100,
    AppResponse,
    LocalApi,
    build_local_api,
    call_app,
    serve_local_api,
)

from navarch.client.connect import connect_fleet
from navarch.config import ConfigError, parse_config
from navarch.core.errors import InvalidError, NotPossibleError
from navarch.core.fleet import Change
from navarch.core.ids import JobName, PoolName
from navarch.core.limits import JOBS_WAITING, NODES_PER_POOL_MAX, TASKS_PER_JOB_MAX, TASKS_WAITING
from navarch.core.records import evolve
from navarch.fleet.jobs.cluster import scheduled_jobs
from navarch.ports.api import Capacity, FleetApi, JobApi, JobRequest, PoolSpec
from navarch.service.jobs import PRIORITY_MAX
from navarch.testing.worlds import a_job, a_pool
from navarch.wire.reference import navarch_pb2 as pb

PROTOCOLS = ("in-process", "http", "grpc")
TRAINING = PoolName("training")
SPEC = PoolSpec(name=TRAINING, offerings=(H100,), nodes_min=0, nodes_max=3)
HUGE = a_pool(size=0, nodes_max=2**53, nodes_wanted=10**9, offerings=(H100,))
NOTE = "paused: 1000000000 nodes are above the limit of 100000 nodes per pool"


def run_story(protocol: str, story: Callable[[FleetApi, LocalApi], Awaitable[None]]) -> None:
    async def run() -> None:
        local = build_local_api()
        if protocol == "in-process":
            await story(local.fleet, local)
            return
        async with serve_local_api(local, http=protocol == "http", grpc=protocol == "grpc"):
            client = connect_fleet(local.http_url or local.grpc_url, None, 10.0)
            try:
                await story(client, local)
            finally:
                await client.close()

    asyncio.run(asyncio.wait_for(run(), 30))


async def store(local: LocalApi, **change: object) -> None:
    """Store records that an older version may have written."""
    revision = local.store.fleet().revision
    await local.store.commit(Change(**change), based_on=revision)  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes_max": NODES_PER_POOL_MAX + 1},
        {"nodes_max": 2**53},
        {"nodes_min": 10**9, "nodes_max": 10**9},
        {"nodes_max": 10**9, "nodes_wanted": 10**9},
    ],
)
def test_no_protocol_puts_a_pool_above_the_limit(protocol: str, wrong: dict[str, int]) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        await fleet.put_pool(SPEC, reason="")
        before = local.store.fleet()
        for name in (TRAINING, PoolName("other")):
            spec = replace(SPEC, name=name, **wrong)  # type: ignore[arg-type]
            with pytest.raises(InvalidError, match="above the limit of 100000 nodes per pool"):
                await fleet.put_pool(spec, reason="")
        assert local.store.fleet() is before

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_protocol_scales_a_pool_above_the_limit(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        await store(local, pools=[evolve(HUGE, nodes_wanted=4)])
        before = local.store.fleet()
        for nodes in (NODES_PER_POOL_MAX + 1, 10**9, 2**53):
            with pytest.raises(InvalidError, match="above the limit of 100000 nodes per pool"):
                await fleet.scale(TRAINING, nodes, reason="")
        with pytest.raises(InvalidError):
            await fleet.scale(TRAINING, -1, reason="")
        assert local.store.fleet() is before

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_protocol_requests_more_gpus_than_one_pool_holds(protocol: str) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        for wish in (
            Capacity(name=TRAINING, gpus=8 * NODES_PER_POOL_MAX + 1, gpu_type="h100"),
            Capacity(name=TRAINING, gpus=8, gpu_type="h100", gang=2**53),
        ):
            with pytest.raises(InvalidError, match="above the limit of 100000 nodes per pool"):
                await fleet.up(wish)
        assert local.store.fleet().revision == 0

    run_story(protocol, story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stored_pool_above_the_limit_is_paused_until_it_is_scaled_down(
    protocol: str,
) -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        await store(local, pools=[HUGE])
        assert (await fleet.get_pool(TRAINING)).note.startswith(NOTE)
        assert [pool.note[: len(NOTE)] for pool in (await fleet.status()).pools] == [NOTE]
        scaled = await fleet.scale(TRAINING, 2, reason="as meant")
        assert (scaled.size, scaled.note) == (2, "2 to be requested")

    run_story(protocol, story)


async def send(local: LocalApi, method: str, path: str, body: str) -> AppResponse:
    return await call_app(local.app, method, path, body.encode(), content_type="application/json")


@pytest.mark.parametrize("nodes", ["-1", "true", "2.5", "NaN", "Infinity", '"2"', "null", "1e400"])
def test_an_invalid_number_of_nodes_is_rejected_and_changes_nothing(nodes: str) -> None:
    async def story(_fleet: FleetApi, local: LocalApi) -> None:
        await local.fleet.put_pool(SPEC, reason="")
        before = local.store.fleet()
        offering = '{"provider":"sim","instance_type":"h100-8x"}'
        sizes = f'"nodes_min":0,"nodes_max":{nodes}'
        spec = f'{{"name":"training",{sizes},"offerings":[{offering}]}}'
        put = await send(local, "PUT", "/v1/pools/training", spec)
        scaled = await send(local, "POST", "/v1/pools/training:scale", f'{{"nodes":{nodes}}}')
        assert (put.status, scaled.status) == (400, 400), (put.body, scaled.body)
        assert local.store.fleet() is before

    run_story("in-process", story)


def test_a_job_above_the_limit_is_refused_over_http() -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        assert isinstance(fleet, JobApi)
        for tasks in (TASKS_PER_JOB_MAX + 1, 2**53):
            with pytest.raises(InvalidError, match=f"tasks: must be 1 to 10000, not {tasks}"):
                await fleet.submit_job(JobRequest(name=JobName("huge"), tasks=tasks))
        assert not local.store.fleet().jobs

    run_story("http", story)


def test_a_stored_job_above_the_limit_is_listed_and_explained_over_http() -> None:
    async def story(fleet: FleetApi, local: LocalApi) -> None:
        assert isinstance(fleet, JobApi)
        await store(local, jobs=[a_job("huge", tasks=10**9)])
        (job,) = await fleet.list_jobs()
        assert job.reason.startswith("1000000000 tasks are above the limit of 10000 tasks per job")
        assert job.reason in (await fleet.explain_job(job.name)).summary

    run_story("http", story)


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


def test_the_go_protocol_works_beside_a_stored_pool_above_the_limit() -> None:
    async def story(_fleet: FleetApi, local: LocalApi) -> None:
        await store(local, pools=[HUGE])
        await local.register("gpu-1")
        for method, key in (("ListNodes", "nodes"), ("ListInstances", None)):
            path = f"/navarch.ControlPlaneService/{method}"
            answer = await send(local, "POST", path, "{}")
            assert answer.status == 200
            assert key is None or len(json.loads(answer.body)[key]) == 1

    run_story("in-process", story)


def test_the_limit_of_the_file_is_the_limit_of_the_api() -> None:
    text = (
        "providers: {c: {type: fake}}\n"
        "pools: {p: {provider: c, instance_type: h100-8x, max_nodes: %d}}\n"
    )
    assert parse_config(text % NODES_PER_POOL_MAX).pools["p"].max_nodes == NODES_PER_POOL_MAX
    with pytest.raises(ConfigError, match="at most 100000"):
        parse_config(text % (NODES_PER_POOL_MAX + 1))


@pytest.mark.parametrize("tasks", [1, TASKS_PER_JOB_MAX])
def test_more_waiting_jobs_or_tasks_than_the_limit_are_refused_over_http(tasks: int) -> None:
    async def story(client: FleetApi, local: LocalApi) -> None:
        assert isinstance(client, JobApi)
        room = min(JOBS_WAITING.most, TASKS_WAITING.most // tasks)
        waiting = [a_job(f"stored-{i}", tasks=tasks, gpus=1) for i in range(room - 1)]
        await store(local, jobs=waiting)
        await client.submit_job(JobRequest(name=JobName("last"), tasks=tasks, gpus=1))
        with pytest.raises(NotPossibleError, match=r"above the limit of .*submit more when some"):
            await client.submit_job(JobRequest(name=JobName("more"), tasks=tasks, gpus=1))
        await client.cancel_job(JobName("last"), reason="")
        await client.submit_job(JobRequest(name=JobName("more"), tasks=tasks, gpus=1))

    run_story("http", story)


@pytest.mark.parametrize("tasks", [1, TASKS_PER_JOB_MAX])
def test_of_stored_jobs_above_the_limit_the_first_are_scheduled(tasks: int) -> None:
    async def story(client: FleetApi, local: LocalApi) -> None:
        assert isinstance(client, JobApi)
        room = min(JOBS_WAITING.most, TASKS_WAITING.most // tasks)
        jobs = [a_job(f"stored-{i:05}", tasks=tasks, gpus=1) for i in range(room + 2)]
        jobs[-1] = evolve(jobs[-1], priority=PRIORITY_MAX)
        await store(local, jobs=jobs)
        scheduled = [job.name for job in scheduled_jobs(local.store.fleet().jobs.values())]
        assert scheduled == [job.name for job in (*jobs[: room - 1], jobs[-1])]
        why = await client.explain_job(jobs[-2].name)
        assert f"{room} jobs are scheduled first" in why.summary

    run_story("http", story)
