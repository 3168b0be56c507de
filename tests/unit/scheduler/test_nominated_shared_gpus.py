"""A task does not start immediately on a shared GPU with only nominated tasks."""

import pytest

from navarch.scheduler.config import (
    DEFAULT_PLUGINS,
    Parameters,
    PluginConfig,
    SchedulerConfig,
)
from navarch.scheduler.cycle import CycleResult, open_session, run_cycle
from navarch.scheduler.model.cluster import JobSpec
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.worlds import a_cluster, a_job, a_node, ask, placed, promised

BOTH_PATHS = pytest.mark.parametrize("fast", [True, False], ids=["fast", "plain"])
LEAVING = {"status": TaskStatus.RELEASING}


SPREAD = tuple(
    PluginConfig(name="gpuspread") if plugin.name == "gpupack" else plugin
    for plugin in DEFAULT_PLUGINS
)


def allocate(
    gpus: int, *jobs: JobSpec, pods: int = 110, spread: bool = False, fast: bool
) -> CycleResult:
    config = SchedulerConfig(
        actions=("allocate",),
        plugins=SPREAD if spread else DEFAULT_PLUGINS,
        parameters=Parameters(fast_paths=fast),
    )
    return run_cycle(a_cluster(nodes=[a_node("node0", gpus, pods=pods)], jobs=jobs), config)


@BOTH_PATHS
def test_a_task_on_a_nominated_shared_gpu_is_nominated(*, fast: bool) -> None:
    """Reduced from a random cluster: `b` was started on the GPU that `leaving` still holds."""
    result = allocate(
        1,
        a_job("leaving", on="node0", task=LEAVING, priority=75, age=74),
        a_job("a", gpus=0.5, age=146),
        a_job("b", gpus=0.5, age=126),
        fast=fast,
    )

    assert placed(result) == {}
    assert promised(result) == {"a-0": "node0", "b-0": "node0"}


@BOTH_PATHS
def test_a_task_starts_on_a_nominated_shared_gpu_if_another_gpu_is_idle(*, fast: bool) -> None:
    """Both tasks of the gang wait for the leaving one; one of the two GPUs is idle."""
    result = allocate(
        2,
        a_job("leaving", on="node0", task=LEAVING, priority=75),
        a_job("gang", tasks=2, gpus=0.6, age=9),
        a_job("b", gpus=0.3, age=8),
        a_job("c", gpus=0.3, age=7),
        fast=fast,
    )

    assert placed(result) == {"b-0": "node0"}
    assert promised(result) == {"gang-0": "node0", "gang-1": "node0", "c-0": "node0"}


@BOTH_PATHS
def test_an_idle_gpu_backs_one_nominated_shared_gpu_at_a_time(*, fast: bool) -> None:
    """`two` requests a part of two GPUs, and both shared GPUs with room are nominated."""
    request = ask(0.3, devices=2)
    result = allocate(
        2,
        a_job("leaving", on="node0", task=LEAVING, priority=75),
        a_job("gang", tasks=2, gpus=0.6, age=9),
        a_job("two", request=request, age=8),
        fast=fast,
    )

    assert placed(result) == {}
    assert promised(result) == {"gang-0": "node0", "gang-1": "node0", "two-0": "node0"}


@BOTH_PATHS
def test_a_task_waits_for_the_pod_slot_of_a_nominated_shared_gpu(*, fast: bool) -> None:
    """Both GPUs are idle, but the pod that reserves one needs a slot that `leaving` holds."""
    result = allocate(
        2,
        a_job("leaving", tasks=2, on="node0", task=LEAVING, gpus=0, priority=75),
        a_job("a", gpus=0.5, age=9),
        a_job("b", gpus=0.5, age=8),
        pods=3,
        fast=fast,
    )

    assert placed(result) == {}
    assert promised(result) == {"a-0": "node0", "b-0": "node0"}


@BOTH_PATHS
def test_a_task_is_nominated_if_its_best_shared_gpu_is_nominated(*, fast: bool) -> None:
    """`b` would fit beside `runs` immediately, but the case spreads work over the emptiest GPUs."""
    result = allocate(
        2,
        a_job("leaving", on="node0", task=LEAVING, priority=75),
        a_job("runs", on="node0", gpus=0.5, groups=["shared"], priority=75),
        a_job("a", gpus=0.6, age=9),
        a_job("b", gpus=0.3, age=8),
        spread=True,
        fast=fast,
    )

    assert placed(result) == {}
    assert promised(result) == {"a-0": "node0", "b-0": "node0"}


def test_a_nominated_shared_gpu_does_not_make_a_node_available() -> None:
    jobs = [a_job("leaving", on="node0", task=LEAVING), a_job("a", gpus=0.5), a_job("b", gpus=0.5)]
    session = open_session(a_cluster(nodes={"node0": 1}, jobs=jobs))
    node, waits = session.nodes["node0"], session.jobs["b"].tasks["b-0"]
    with session.attempt() as statement:
        statement.pipeline(session.jobs["a"].tasks["a-0"], node, ("promised",))

        assert node.fits_eventually(waits.request)
        assert not node.fits_now(waits.request)
