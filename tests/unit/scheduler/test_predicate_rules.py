"""Predicates reject nodes on which a task cannot run."""

# ruff: noqa: ANN401 - the facts of a made-up world can be anything

from typing import Any

import pytest

from navarch.scheduler.config import Parameters, PluginConfig, SchedulerConfig
from navarch.scheduler.cycle import CycleResult, run_cycle
from navarch.scheduler.model.cluster import (
    AffinityTerm,
    JobSpec,
    NodeHealth,
    NodeSpec,
    Taint,
    Toleration,
)
from navarch.scheduler.model.request import Request
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.worlds import (
    a_cluster,
    a_job,
    a_node,
    a_queue,
    ask,
    placed,
    promised,
    stopped,
)


def allocate(nodes: list[NodeSpec], *jobs: JobSpec, **facts: Any) -> CycleResult:
    config = SchedulerConfig(actions=("allocate",))
    return run_cycle(a_cluster(nodes=nodes, jobs=jobs, **facts), config)


@pytest.mark.parametrize("trouble", ["cordoned", "draining", "suspect"])
def test_unhealthy_nodes_receive_no_new_tasks(trouble: str) -> None:
    node = a_node("a", health=NodeHealth(**{trouble: True}))

    result = allocate([node], a_job("job"))

    assert placed(result) == {}
    (refusal,) = result.unschedulable_tasks["job"]["job-0"]
    assert trouble in refusal.reason


def test_a_node_that_is_not_ready_receives_no_task() -> None:
    assert placed(allocate([a_node("a", health=NodeHealth(ready=False))], a_job("job"))) == {}


def test_suspect_nodes_can_be_allowed() -> None:
    cluster = a_cluster(nodes=[a_node("a", health=NodeHealth(suspect=True))], jobs=[a_job("job")])
    plugin = PluginConfig(name="predicates", arguments={"suspectNodes": "allow"})

    result = run_cycle(cluster, SchedulerConfig(actions=("allocate",), plugins=(plugin,)))

    assert placed(result) == {"job-0": "a"}


def test_victims_are_not_moved_to_a_draining_node() -> None:
    jobs = [a_job("one", on="a", age=2), a_job("two", on="b", age=1), a_job("big", gpus=2)]
    nodes = [a_node("a", 2), a_node("b", 2), a_node("c", 2, health=NodeHealth(draining=True))]
    config = SchedulerConfig(actions=("consolidation",))

    result = run_cycle(a_cluster(nodes=nodes, jobs=jobs), config)

    assert "c" not in promised(result).values()


def test_every_pod_uses_a_slot() -> None:
    jobs = [a_job(f"job{i}", age=9 - i) for i in range(3)]

    assert len(placed(allocate([a_node("a", 8, pods=2)], *jobs))) == 2


def test_opening_a_shared_gpu_uses_one_more_slot() -> None:
    half = ask(0.5)

    assert placed(allocate([a_node("a", 8, pods=1)], a_job("job", request=half))) == {}
    assert len(placed(allocate([a_node("a", 8, pods=2)], a_job("job", request=half)))) == 1


def test_joining_a_shared_gpu_uses_one_slot() -> None:
    """The pod that reserves the GPU already exists."""
    jobs = [
        a_job("held", request=ask(0.5), on="a", groups=["x"]),
        a_job("job", request=ask(0.5)),
    ]

    assert placed(allocate([a_node("a", 8, pods=2)], *jobs)) == {"job-0": "a"}


def test_slots_for_reservations_made_in_this_session_are_counted() -> None:
    """Two shared GPUs need two slots each; the third pod finds none left."""
    jobs = [a_job(f"job{i}", request=ask(0.9), age=9 - i) for i in range(3)]

    assert len(placed(allocate([a_node("a", 8, pods=5)], *jobs))) == 2


def test_slots_of_nominated_pods_are_not_given_again() -> None:
    """A gang waits for GPUs to be released; its future slots are not free for others."""
    gone = a_job("gone", gpus=2, on="a", task={"status": TaskStatus.RELEASING})
    gang = a_job("gang", tasks=2, gpus=2, age=9)
    half = a_job("half", request=ask(0.5))

    result = allocate([a_node("a", 5, pods=3)], gone, gang, half)

    assert sorted(promised(result)) == ["gang-0", "gang-1"]
    assert placed(result) == {}


def test_a_gpu_memory_request_needs_a_node_with_known_gpu_memory() -> None:
    node = a_node("a", 2, gpu_memory_synced=False)

    assert placed(allocate([node], a_job("job", request=ask(memory_mib=10)))) == {}
    assert placed(allocate([node], a_job("job", request=ask(0.5)))) == {"job-0": "a"}


def test_a_task_larger_than_any_node_is_rejected_before_nodes_are_checked() -> None:
    result = allocate([a_node("a", 4), a_node("b", 4)], a_job("job", gpus=5))

    (refusal,) = result.unschedulable_tasks["job"]["job-0"]
    assert refusal.node is None
    assert "no node has that much gpu" in refusal.reason


def test_a_node_must_have_the_labels_that_a_task_selects() -> None:
    nodes = [a_node("a", labels={"disk": "hdd"}), a_node("b", labels={"disk": "ssd"})]

    result = allocate(nodes, a_job("job", task={"node_selector": {"disk": "ssd"}}))

    assert placed(result) == {"job-0": "b"}


def test_a_node_must_be_of_a_type_the_task_names() -> None:
    nodes = [a_node(n, labels={"kai.scheduler/type": n}) for n in ("a", "b")]

    result = allocate(nodes, a_job("job", task={"node_affinity_in": ("b", "c")}))

    assert placed(result) == {"job-0": "b"}


def test_a_taint_keeps_tasks_off_unless_they_tolerate_it() -> None:
    nodes = [a_node("a", taints=(Taint(key="spot"),))]
    tolerant = a_job("job", task={"tolerations": (Toleration(key="spot"),)})

    assert placed(allocate(nodes, a_job("job"))) == {}
    assert placed(allocate(nodes, tolerant)) == {"job-0": "a"}


def test_a_host_port_is_used_once_per_node() -> None:
    jobs = [a_job(f"job{i}", task={"host_ports": (80,)}, age=9 - i) for i in range(3)]

    assert len(placed(allocate([a_node("a"), a_node("b")], *jobs))) == 2


def test_config_maps_must_exist_if_the_cluster_lists_them() -> None:
    job = a_job("job", task={"config_maps": ("settings",)})

    assert placed(allocate([a_node("a")], job, config_maps=())) == {}
    assert placed(allocate([a_node("a")], job, config_maps=("settings",))) == {"job-0": "a"}
    assert placed(allocate([a_node("a")], job)) == {"job-0": "a"}


def test_restricted_scheduling_keeps_gpu_tasks_on_gpu_workers() -> None:
    nodes = [a_node("a"), a_node("b", labels={"node-role.kubernetes.io/gpu-worker": ""})]
    parameters = Parameters(restrict_node_scheduling=True)
    config = SchedulerConfig(actions=("allocate",), parameters=parameters)

    result = run_cycle(a_cluster(nodes=nodes, jobs=[a_job("job")]), config)

    assert placed(result) == {"job-0": "b"}


@pytest.mark.parametrize(
    ("strategy", "request_", "allowed"),
    [
        ("mixed", ask(mig={"nvidia.com/mig-1g.5gb": 1}), True),
        ("mixed", ask(1), False),
        ("mixed", ask(cpu_milli=1), True),
        ("single", ask(1), True),
        ("single", ask(0.5), False),
        (None, ask(mig={"nvidia.com/mig-1g.5gb": 1}), False),
    ],
)
def test_mig_nodes_accept_only_their_kind_of_request(
    strategy: str | None, request_: Request, allowed: bool
) -> None:
    mig = {"nvidia.com/mig-1g.5gb": 2} if strategy == "mixed" else {}
    node = a_node("a", 2, mig_strategy=strategy, mig=mig)

    assert bool(placed(allocate([node], a_job("job", request=request_)))) is allowed


def test_a_capacity_check_counts_every_device() -> None:
    """Two devices of half a GPU each are a whole GPU for the queue."""
    queues = [a_queue("queue", limit=0.5)]
    nodes = [a_node("a", 4)]

    assert placed(allocate(nodes, a_job("job", request=ask(0.5)), queues=queues)) == {"job-0": "a"}
    two = a_job("job", request=ask(0.5, devices=2))
    assert placed(allocate(nodes, two, queues=queues)) == {}


def _near(key: str = "zone", **labels: str) -> tuple[AffinityTerm, ...]:
    return (AffinityTerm(topology_key=key, labels=labels),)


def test_affinity_places_a_task_near_the_selected_tasks() -> None:
    nodes = [a_node("a", labels={"zone": "x"}), a_node("b", labels={"zone": "y"})]
    held = a_job("held", on="b", task={"labels": {"app": "db"}})
    job = a_job("job", task={"affinity": _near(app="db")})

    assert placed(allocate(nodes, held, job)) == {"job-0": "b"}
    assert placed(allocate(nodes, job)) == {}


def test_the_first_task_with_affinity_to_itself_may_go_anywhere() -> None:
    nodes = [a_node("a", labels={"zone": "x"}), a_node("b", labels={"zone": "y"})]
    task = {"labels": {"app": "db"}, "affinity": _near(app="db")}

    result = allocate(nodes, a_job("gang", tasks=2, gpus=8, task=task))
    assert placed(result) == {}  # both need two nodes, and no zone has two

    assert len(set(placed(allocate(nodes, a_job("gang", tasks=2, task=task))).values())) == 1


def test_anti_affinity_places_tasks_in_different_zones() -> None:
    nodes = [a_node("a", labels={"zone": "x"}), a_node("b", labels={"zone": "y"})]
    task = {"labels": {"app": "db"}, "anti_affinity": _near(app="db")}

    result = allocate(nodes, a_job("gang", tasks=2, task=task))

    assert sorted(placed(result).values()) == ["a", "b"]


def test_anti_affinity_of_running_tasks_excludes_new_ones() -> None:
    nodes = [a_node("a", labels={"zone": "x"})]
    held = a_job("held", on="a", task={"anti_affinity": _near(app="db")})

    assert placed(allocate(nodes, held, a_job("job", task={"labels": {"app": "db"}}))) == {}


def test_anti_affinity_of_a_victim_does_not_exclude_the_preemptor() -> None:
    nodes = [a_node("a", 2, labels={"zone": "x"})]
    task = {"labels": {"app": "db"}, "anti_affinity": _near(app="db")}
    jobs = [a_job("low", on="a", task=task), a_job("high", priority=75, task=task)]

    result = run_cycle(a_cluster(nodes=nodes, jobs=jobs), SchedulerConfig(actions=("preempt",)))

    assert stopped(result) == ["low-0"]
    assert promised(result) == {"high-0": "a"}


def test_preferred_affinity_attracts() -> None:
    nodes = [a_node(n, labels={"zone": n}) for n in ("a", "b", "c")]
    term = AffinityTerm(topology_key="zone", labels={"app": "db"}, weight=5)
    away = AffinityTerm(topology_key="zone", labels={"app": "web"}, weight=-5)
    jobs = [
        a_job("db", on="c", task={"labels": {"app": "db"}}),
        a_job("web", on="a", task={"labels": {"app": "web"}}),
    ]
    config = SchedulerConfig(actions=("allocate",), plugins=(PluginConfig(name="podaffinity"),))
    near = a_cluster(nodes=nodes, jobs=[*jobs, a_job("j", task={"preferred_affinity": (term,)})])
    far = a_cluster(nodes=nodes, jobs=[*jobs, a_job("j", task={"preferred_affinity": (away,)})])

    assert placed(run_cycle(near, config)) == {"j-0": "c"}
    assert placed(run_cycle(far, config)) == {"j-0": "b"}
