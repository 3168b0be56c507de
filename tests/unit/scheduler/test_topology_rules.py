"""Topology constraints keep the tasks of a job together."""

# ruff: noqa: ANN401 - the facts of a made-up world can be anything

from typing import Any

import pytest

from navarch.scheduler.config import SchedulerConfig
from navarch.scheduler.cycle import CycleResult, run_cycle
from navarch.scheduler.model.cluster import (
    JobSpec,
    NodeSpec,
    PodSetSpec,
    SubGroupSpec,
    TaskSpec,
    Topology,
    TopologyConstraint,
)
from navarch.scheduler.worlds import NOW, a_cluster, a_job, a_node, ask, placed

TREE = Topology(name="tree", levels=("zone", "rack"))


def node(name: str, gpus: int = 2) -> NodeSpec:
    """Return a node in the zone and rack of its name, such as `z1r2a`."""
    return a_node(name, gpus, labels={"zone": name[:2], "rack": name[2:4]})


def near(required: str = "", preferred: str = "") -> TopologyConstraint:
    return TopologyConstraint(topology="tree", required_level=required, preferred_level=preferred)


def allocate(nodes: list[NodeSpec], *jobs: JobSpec, **facts: Any) -> CycleResult:
    config = SchedulerConfig(actions=("allocate",))
    return run_cycle(a_cluster(nodes=nodes, jobs=jobs, topologies=(TREE,), **facts), config)


def domains(result: CycleResult, letters: int) -> set[str]:
    return {name[:letters] for name in placed(result).values()}


def test_a_required_level_keeps_all_tasks_in_one_domain() -> None:
    nodes = [node("z1r1a"), node("z1r2a"), node("z1r2b"), node("z2r1a")]

    result = allocate(nodes, a_job("gang", tasks=4, topology=near("rack")))

    assert domains(result, 4) == {"z1r2"}


def test_a_job_that_no_domain_can_hold_stays_pending_with_a_reason() -> None:
    result = allocate([node("z1r1a"), node("z1r2a")], a_job("gang", tasks=4, topology=near("rack")))

    assert placed(result) == {}
    (refusal,) = result.unschedulable_jobs["gang"]
    assert refusal.details[0] == (
        "z1.r1",
        "node-group z1.r1 can allocate only 2 of 4 required pods.",
    )


def test_the_fullest_domain_that_fits_is_tried_first() -> None:
    nodes = [node("z1r1a", 8), node("z2r1a", 4)]

    assert domains(allocate(nodes, a_job("gang", tasks=2, topology=near("rack"))), 2) == {"z2"}


def test_after_a_failure_in_one_domain_the_next_is_tried() -> None:
    """The fullest rack has room for the tasks, but not for the one that needs type b."""
    tight = a_node("z1r1a", 2, labels={"zone": "z1", "rack": "r1"})
    loose = a_node("z1r2a", 8, labels={"zone": "z1", "rack": "r2", "kai.scheduler/type": "b"})
    job = a_job("gang", tasks=2, topology=near("rack"), task={"node_affinity_in": ("b",)})

    assert domains(allocate([tight, loose], job), 4) == {"z1r2"}


def test_a_preferred_level_is_tried_before_wider_ones() -> None:
    nodes = [node("z1r1a"), node("z1r1b"), node("z1r2a", 8), node("z2r1a")]

    result = allocate(nodes, a_job("gang", tasks=4, topology=near(preferred="rack")))

    assert domains(result, 4) == {"z1r1"}


def test_a_preferred_level_that_does_not_fit_is_ignored() -> None:
    nodes = [node("z1r1a"), node("z1r2a"), node("z2r1a")]

    result = allocate(nodes, a_job("gang", tasks=4, topology=near("zone", "rack")))

    assert domains(result, 2) == {"z1"}
    assert len(placed(result)) == 4


def test_new_tasks_join_the_domain_of_running_ones() -> None:
    """The other rack is fuller, but two tasks of the job run in this one."""
    nodes = [node("z1r1a", 8), node("z1r2a", 1)]
    job = a_job("gang", tasks=3, minimum=1, on=["z1r1a", "z1r1a", None], topology=near("rack"))

    assert domains(allocate(nodes, job), 4) == {"z1r1"}


def test_new_tasks_stay_pending_if_their_domain_is_full() -> None:
    nodes = [node("z1r1a", 2), node("z1r2a", 8)]
    job = a_job("gang", tasks=3, minimum=1, on=["z1r1a", "z1r1a", None], topology=near("rack"))

    assert placed(allocate(nodes, job)) == {}


def test_nodes_without_a_label_for_every_level_are_excluded() -> None:
    nodes = [a_node("outside", 8, labels={"zone": "z1"}), node("z1r1a")]

    assert set(placed(allocate(nodes, a_job("job", topology=near("zone")))).values()) == {"z1r1a"}


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (
            TopologyConstraint(topology="none", required_level="rack"),
            "topology none does not exist",
        ),
        (TopologyConstraint(topology="tree", required_level="hall"), "no level hall"),
    ],
)
def test_an_unknown_topology_or_level_is_a_reason(
    constraint: TopologyConstraint, text: str
) -> None:
    result = allocate([node("z1r1a")], a_job("job", topology=constraint))

    assert placed(result) == {}
    assert text in result.unschedulable_jobs["job"][0].summary


def test_each_group_gets_its_own_domain_within_that_of_the_job() -> None:
    nodes = [node(f"z{z}r{r}a") for z in (1, 2) for r in (1, 2)]
    root = SubGroupSpec(
        topology=near("zone"),
        pod_sets=tuple(
            PodSetSpec(name=name, min_available=2, topology=near("rack")) for name in "ab"
        ),
    )
    tasks = tuple(
        TaskSpec(uid=f"{name}{i}", sub_group=name, request=ask(1)) for name in "ab" for i in (0, 1)
    )
    job = JobSpec(name="job", queue="queue", created_at=NOW, root=root, tasks=tasks)

    result = allocate(nodes, job)

    assert domains(result, 2) == {"z1"}
    assert placed(result)["a0"] == placed(result)["a1"]
    assert placed(result)["b0"] == placed(result)["b1"]
    assert placed(result)["a0"] != placed(result)["b0"]
