"""Crash sweeps at Google Cloud and Lambda: a crash before and after every external call."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import pairwise

import pytest
from tests.support.compute_server import PROJECT, LocalCompute, local_compute
from tests.support.lambda_server import KEY, LocalLambda, local_lambda

from navarch.core.ids import ProviderName
from navarch.core.launch import Offering
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.ports.clock import Clock, Offload
from navarch.ports.provider import Provider
from navarch.providers.gcp.client import ComputeClient, anonymous
from navarch.providers.gcp.provider import GcpCloud
from navarch.providers.gcp.translation import GcpSettings
from navarch.providers.lambdalabs.account import LambdaAccount, lambda_rate_limits
from navarch.providers.lambdalabs.provider import LambdaCloud
from navarch.service.views import pool_spec
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.sim.world.leader import CrashPoint
from navarch.stores.memory import MemoryStore
from navarch.testing.adapter_sweep import POOL, Build, SweptFleet, live_through, sweep_once
from navarch.testing.loopback_server import LOSE_ANSWER, Fault, HttpRequest

CHUNKS = 8
A_FEW = 8
MACHINES = 3
"""How many machines the story needs. More are duplicates; machines alive at its end are leaks."""

AT_GCP = Offering(
    provider=ProviderName("gcp"),
    instance_type="a3-highgpu-8g",
    region="us-central1",
    zone="us-central1-a",
    gpus=8,
)
AT_LAMBDA = Offering(
    provider=ProviderName("lambda"),
    instance_type="gpu_8x_h100_sxm5",
    region="us-east-1",
    gpus=8,
)


def now_and_then() -> Callable[[HttpRequest], Fault]:
    """Return a fault that loses every seventh response to a call with side effects."""
    count = 0

    def fault(request: HttpRequest) -> Fault:
        nonlocal count
        count += request.method != "GET"
        return LOSE_ANSWER if request.method != "GET" and count % 7 == 3 else None

    return fault


def build_gcp(
    local: LocalCompute, clock: Clock, offload: Offload, *, machines_per_call: int = 1
) -> Provider:
    local.now_s = asyncio.get_running_loop().time
    client = ComputeClient(offload, project=PROJECT, endpoint=local.url, credentials=anonymous)
    settings = GcpSettings(name="gcp", project=PROJECT, machines_per_call=machines_per_call)
    return GcpCloud(clock, client, settings)


def at_gcp(wire: CrashPoint) -> tuple[SweptFleet, int, int]:
    """Run one life at Compute Engine; return the fleet, the machines alive and those ever made."""
    with local_compute(lag_s=20.0) as local:
        local.wire.fault = now_and_then()
        swept = sweep_once(
            partial(build_gcp, local),
            AT_GCP,
            alive=lambda: {f"{machine.zone}/{machine.name}" for machine in local.alive()},
            wire=wire,
        )
        return swept, len(local.alive()), len(local.machines)


def at_gcp_in_bulk(wire: CrashPoint) -> tuple[SweptFleet, int, int]:
    """The same with calls for many machines in three zones, the first of which is sold out."""
    zones = [evolve(AT_GCP, zone=f"us-central1-{letter}") for letter in "abc"]
    with local_compute(lag_s=20.0) as local:
        local.stock = {"us-central1-a": 0, "us-central1-b": 1}
        local.wire.fault = now_and_then()
        swept = sweep_once(
            partial(build_gcp, local, machines_per_call=16),
            *zones,
            alive=lambda: {f"{machine.zone}/{machine.name}" for machine in local.alive()},
            wire=wire,
        )
        return swept, len(local.alive()), len(local.machines)


def build_lambda(local: LocalLambda, clock: Clock, offload: Offload) -> Provider:
    local.now_s = asyncio.get_running_loop().time
    account = LambdaAccount(
        clock,
        offload,
        lambda_rate_limits(clock.monotonic()),
        api_key=KEY,
        endpoint=local.url,
        within_s=5.0,
    )
    return LambdaCloud(clock, account, name="lambda", ssh_key="laptop")


def at_lambda(wire: CrashPoint) -> tuple[SweptFleet, int, int]:
    """Run one life at Lambda; return the fleet, the machines alive and those ever made."""
    with local_lambda(lag_s=20.0) as local:
        local.wire.fault = now_and_then()
        swept = sweep_once(
            partial(build_lambda, local),
            AT_LAMBDA,
            alive=lambda: {machine.id for machine in local.alive()},
            wire=wire,
        )
        assert least_gap(local.launches_s) >= 12.0, "launches of two lives came too close"
        assert least_gap(local.calls_s) >= 1.0, "calls of two lives came too close"
        return swept, len(local.alive()), len(local.machines)


def least_gap(moments_s: Sequence[float]) -> float:
    return min(later - sooner for sooner, later in pairwise(moments_s)) + 1e-6


CLOUDS = {"gcp": at_gcp, "gcp in bulk": at_gcp_in_bulk, "lambda": at_lambda}


def untouched(cloud: str) -> CrashPoint:
    wire = CrashPoint()
    swept, alive, made = CLOUDS[cloud](wire)
    assert (swept.crashes, alive, made) == (0, 0, MACHINES)
    return wire


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_story_calls_the_cloud_and_commits_to_the_store(cloud: str) -> None:
    log = untouched(cloud).log
    assert log.count("call") >= 2 * MACHINES
    assert any(what.startswith("commit") for what in log)


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_crash_at_a_sampled_call_leaks_nothing_and_buys_nothing_twice(
    cloud: str, after: bool
) -> None:
    calls = untouched(cloud).calls
    for at in range(int(after), calls, calls // A_FEW):
        crash(cloud, CrashPoint(at=at, after=after))


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_crash_at_any_call_leaks_nothing_and_buys_nothing_twice(
    cloud: str, after: bool, chunk: int
) -> None:
    calls = untouched(cloud).calls
    for at in range(chunk, calls, CHUNKS):
        crash(cloud, CrashPoint(at=at, after=after))


def crash(cloud: str, wire: CrashPoint) -> None:
    """Run one life with a crash; fail if a machine leaks or is bought twice."""
    at = wire.at
    swept, alive, made = CLOUDS[cloud](wire)
    assert swept.crashes == 1, f"no crash at call {at}"
    assert alive == 0, f"{alive} machines leaked by a crash at call {at}"
    assert made == MACHINES, f"{made} machines for {MACHINES} after a crash at call {at}"


def test_many_launches_at_lambda_run_at_its_rate_limit() -> None:
    wanted = 20
    with local_lambda() as local, asyncio.Runner(loop_factory=SimLoop) as runner:
        alive = lambda: {machine.id for machine in local.alive()}  # noqa: E731
        runner.run(fill(partial(build_lambda, local), alive, (AT_LAMBDA,), wanted))
    assert len(local.machines) == len(local.launches_s) == wanted
    took_s = local.launches_s[-1] - local.launches_s[0]
    assert took_s <= 1.15 * 12.0 * (wanted - 1)


def test_a_new_leader_keeps_the_rate_limits_that_its_predecessor_used() -> None:
    """The predecessor crashes at a launch; a moment later an operator scales up."""
    with local_lambda() as local:

        async def story(swept: SweptFleet) -> None:
            pool = Pool(
                name=POOL,
                offerings=(AT_LAMBDA,),
                nodes_min=0,
                nodes_max=2,
                boot_deadline=timedelta(days=30),
            )
            await swept.submit(lambda plane: plane.fleet.put_pool(pool_spec(pool), reason="begin"))
            await swept.submit(lambda plane: plane.fleet.scale(POOL, 1, reason="begin"))
            while not swept.crashes:
                await swept.clock.sleep(0.1)
            await swept.submit(lambda plane: plane.fleet.scale(POOL, 2, reason="more"))
            await swept.until(2)

        wire = CrashPoint(after=True)

        def die_at_the_first_launch(request: HttpRequest) -> Fault:
            if request.path.endswith("/launch") and wire.at is None:
                wire.at = wire.calls - 1
            return None

        local.wire.fault = die_at_the_first_launch
        live_through(
            story,
            partial(build_lambda, local),
            alive=lambda: {machine.id for machine in local.alive()},
            wire=wire,
        )
    assert len(local.machines) == len(local.launches_s) == 2
    assert 12.0 <= least_gap(local.launches_s) < 20.0
    assert least_gap(local.calls_s) >= 1.0


def test_a_stock_out_in_one_zone_is_retried_in_the_next_within_two_seconds() -> None:
    elsewhere = evolve(AT_GCP, zone="us-central1-b")
    with local_compute() as local, asyncio.Runner(loop_factory=SimLoop) as runner:
        local.sold_out.add(AT_GCP.zone)
        alive = lambda: {f"{machine.zone}/{machine.name}" for machine in local.alive()}  # noqa: E731
        runner.run(fill(partial(build_gcp, local), alive, (AT_GCP, elsewhere), 1))
    refused, bought = [x for x in local.operations.values() if x.scope.startswith("zones/")][:2]
    assert bought.begun_s - refused.done_s <= 2.0


async def fill(
    build: Build, alive: Callable[[], set[str]], offerings: tuple[Offering, ...], wanted: int
) -> None:
    """Let the control plane fill a pool of `wanted` nodes."""
    cluster = Cluster(id="many", secret=b"the sweep's secret")
    swept = SweptFleet(SimClock(), MemoryStore(cluster), build, alive, CrashPoint())
    pool = Pool(
        name=POOL,
        offerings=offerings,
        nodes_min=0,
        nodes_max=wanted,
        boot_deadline=timedelta(days=30),
    )
    async with asyncio.TaskGroup() as tasks:
        life = tasks.create_task(swept.live())
        await swept.submit(lambda plane: plane.fleet.put_pool(pool_spec(pool), reason="begin"))
        await swept.submit(lambda plane: plane.fleet.scale(POOL, wanted, reason="begin"))
        await swept.until(wanted)
        life.cancel()
