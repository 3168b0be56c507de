"""Scores choose among possible nodes and GPUs."""

import pytest

from navarch.scheduler.config import DEFAULT_PLUGINS, PluginConfig, SchedulerConfig
from navarch.scheduler.cycle import CycleResult, run_cycle
from navarch.scheduler.framework.decision import Bind
from navarch.scheduler.model.cluster import JobSpec, NodeSpec, PodSetSpec, SubGroupSpec, TaskSpec
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.worlds import NOW, a_cluster, a_job, a_node, ask, placed


def allocate(
    nodes: list[NodeSpec], *jobs: JobSpec, plugins: list[PluginConfig] | None = None
) -> CycleResult:
    chosen = DEFAULT_PLUGINS if plugins is None else tuple(plugins)
    config = SchedulerConfig(actions=("allocate",), plugins=chosen)
    return run_cycle(a_cluster(nodes=nodes, jobs=jobs), config)


def leaving(name: str, node: str, gpus: int) -> JobSpec:
    task = TaskSpec(uid=f"{name}-0", status=TaskStatus.RELEASING, node=node, request=ask(gpus))
    root = SubGroupSpec(pod_sets=(PodSetSpec(name="default"),))
    return JobSpec(name=name, queue="queue", created_at=NOW, tasks=(task,), root=root)


def groups(result: CycleResult) -> dict[str, tuple[str, ...]]:
    return {d.task: d.gpu_groups for d in result.decisions if isinstance(d, Bind)}


def test_a_node_where_the_task_starts_immediately_beats_a_fuller_one() -> None:
    """Node `a` is fuller, counting what is being released, but nothing on it is idle."""
    nodes = [a_node("a", 2), a_node("b", 8)]

    result = allocate(nodes, leaving("gone", "a", 2), a_job("job"))

    assert placed(result) == {"job-0": "b"}


def test_tasks_without_gpus_go_to_nodes_without_gpus() -> None:
    """Although packing prefers the node with the fewest cores left."""
    nodes = [a_node("gpu", 8, cpu_milli=5_000), a_node("plain", 0, cpu_milli=90_000)]

    result = allocate(nodes, a_job("job", request=ask(cpu_milli=1_000)))

    assert placed(result) == {"job-0": "plain"}


def test_a_fraction_goes_to_the_node_with_a_shared_gpu_that_has_room() -> None:
    """Although the other node is fuller."""
    nodes = [a_node("full", 4), a_node("shared", 8)]
    jobs = [
        a_job("held", gpus=3, on="full"),
        a_job("half", request=ask(0.5), on="shared", groups=["x"]),
        a_job("job", request=ask(0.5)),
    ]

    result = allocate(nodes, *jobs)

    assert placed(result) == {"job-0": "shared"}
    assert groups(result) == {"job-0": ("x",)}


def test_a_fraction_does_not_prefer_a_node_with_a_full_shared_gpu() -> None:
    nodes = [a_node("full", 4), a_node("shared", 8)]
    jobs = [
        a_job("held", gpus=3, on="full"),
        a_job("most", request=ask(0.8), on="shared", groups=["x"]),
        a_job("job", request=ask(0.5)),
    ]

    assert placed(allocate(nodes, *jobs)) == {"job-0": "full"}


@pytest.mark.parametrize(("strategy", "node"), [("binpack", "fuller"), ("spread", "emptier")])
def test_gpus_are_packed_or_spread_as_configured(strategy: str, node: str) -> None:
    plugin = PluginConfig(name="nodeplacement", arguments={"gpu": strategy})
    nodes = [a_node("emptier", 8), a_node("fuller", 8)]

    result = allocate(nodes, a_job("held", on="fuller"), a_job("job"), plugins=[plugin])

    assert placed(result) == {"job-0": node}


@pytest.mark.parametrize(("strategy", "node"), [("binpack", "fuller"), ("spread", "emptier")])
def test_cores_are_packed_or_spread_as_configured(strategy: str, node: str) -> None:
    plugin = PluginConfig(name="nodeplacement", arguments={"cpu": strategy, "gpu": "binpack"})
    nodes = [a_node("emptier", 0, cpu_milli=9_000), a_node("fuller", 0, cpu_milli=9_000)]
    request = ask(cpu_milli=1_000)

    result = allocate(
        nodes,
        a_job("held", request=request, on="fuller"),
        a_job("job", request=request),
        plugins=[plugin],
    )

    assert placed(result) == {"job-0": node}


@pytest.mark.parametrize(("plugin", "expected"), [("gpupack", "y"), ("gpuspread", "x")])
def test_shared_gpus_are_packed_or_spread_as_configured(plugin: str, expected: str) -> None:
    jobs = [
        a_job("some", request=ask(0.2), on="a", groups=["x"]),
        a_job("more", request=ask(0.4), on="a", groups=["y"]),
        a_job("job", request=ask(0.3)),
    ]

    result = allocate([a_node("a", 2)], *jobs, plugins=[PluginConfig(name=plugin)])

    assert groups(result) == {"job-0": (expected,)}


def test_spreading_uses_an_unused_gpu_while_there_is_one() -> None:
    jobs = [a_job("some", request=ask(0.2), on="a", groups=["x"]), a_job("job", request=ask(0.3))]

    result = allocate([a_node("a", 2)], *jobs, plugins=[PluginConfig(name="gpuspread")])

    assert groups(result)["job-0"] != ("x",)


def test_several_devices_are_different_gpus() -> None:
    result = allocate([a_node("a", 2)], a_job("job", request=ask(0.5, devices=2)))

    chosen = groups(result)["job-0"]
    assert len(set(chosen)) == 2
    assert placed(allocate([a_node("a", 1)], a_job("job", request=ask(0.5, devices=2)))) == {}


def test_a_task_returns_to_its_nominated_node() -> None:
    nodes = [a_node("a", 8), a_node("b", 8)]
    job = a_job("job", task={"nominated_node": "b"})

    assert placed(allocate(nodes, a_job("held", on="a"), job)) == {"job-0": "b"}


def test_equal_nodes_are_used_in_order_of_name() -> None:
    nodes = [a_node(name, 1) for name in ("c", "a", "b")]

    assert placed(allocate(nodes, a_job("job"))) == {"job-0": "a"}


def test_memory_of_a_shared_gpu_is_not_exceeded() -> None:
    node = a_node("a", 1, gpu_memory_mib=1000)
    jobs = [a_job(f"job{i}", request=ask(memory_mib=400), age=9 - i) for i in range(3)]

    assert sorted(placed(allocate([node], *jobs))) == ["job0-0", "job1-0"]


def test_a_fraction_of_29_hundredths_is_29_hundredths() -> None:
    """0.29 * 100 is a little less than 29 in binary fractions."""
    jobs = [a_job("a0", request=ask(0.29), age=3), a_job("a1", request=ask(0.71), age=2)]
    jobs.append(a_job("a2", request=ask(0.01)))

    assert sorted(placed(allocate([a_node("a", 1)], *jobs))) == ["a0-0", "a1-0"]
