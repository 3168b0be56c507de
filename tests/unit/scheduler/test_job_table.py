"""Jobs of one running task are materialised when they are read, all others at once."""

from dataclasses import replace
from typing import Any

import pytest
from bench.scheduler_workloads import random_cluster

from navarch.scheduler.cycle import open_session
from navarch.scheduler.model.cluster import (
    AffinityTerm,
    ClaimUse,
    JobSpec,
    PodSetSpec,
    SubGroupSpec,
    TopologyConstraint,
)
from navarch.scheduler.model.jobs import is_steady
from navarch.scheduler.model.status import ALLOCATED_MASK, TaskStatus
from navarch.scheduler.worlds import NOW, a_cluster, a_job, ask

NEAR = TopologyConstraint(topology="network", required_level="rack")


def running(name: str = "runs", tasks: int = 1, **facts: object) -> JobSpec:
    """Return a job whose tasks run on node `n`."""
    job = a_job(name, tasks=tasks)
    given: dict[str, Any] = {"status": TaskStatus.RUNNING, "node": "n", **facts}
    places = [replace(each, **given) for each in job.tasks]
    return replace(job, tasks=tuple(places))


def test_a_job_whose_only_task_runs_is_materialised_when_it_is_read() -> None:
    session = open_session(a_cluster(nodes={"n": 8}, jobs=[running(), a_job("waits")]))

    assert [spec.name for spec in session.jobs.steady] == ["runs"]
    assert [job.name for job in session.jobs.made()] == ["waits"]
    assert session.jobs["runs"] is session.jobs["runs"]
    assert session.jobs["runs"].tasks["runs-0"].node == "n"
    assert [job.name for job in session.jobs.made()] == ["runs", "waits"]


def test_the_tasks_of_a_node_include_those_of_jobs_that_were_never_read() -> None:
    session = open_session(a_cluster(nodes={"n": 8}, jobs=[running(), a_job("waits")]))

    assert list(session.nodes["n"].tasks) == ["runs-0"]


@pytest.mark.parametrize(
    "spec",
    [
        a_job("j"),
        running(tasks=2),
        running(status=TaskStatus.RELEASING),
        running(request=ask(0.5)),
        running(claims=(ClaimUse(claim="c"),)),
        running(anti_affinity=(AffinityTerm(topology_key="host", labels={}),)),
        replace(running(), stale_since=NOW),
        replace(
            running(), root=SubGroupSpec(pod_sets=(PodSetSpec(name="default", min_available=2),))
        ),
        replace(
            running(), root=SubGroupSpec(pod_sets=(PodSetSpec(name="default", topology=NEAR),))
        ),
        replace(
            running(), root=SubGroupSpec(topology=NEAR, pod_sets=(PodSetSpec(name="default"),))
        ),
    ],
    ids=[
        "it waits",
        "it has two tasks",
        "it leaves",
        "it shares a GPU",
        "it has a claim",
        "it shuns others",
        "it is stale",
        "it lacks members",
        "its tasks are confined",
        "it is confined",
    ],
)
def test_a_job_that_rules_look_at_is_not_steady(spec: JobSpec) -> None:
    assert is_steady(running())
    assert not is_steady(spec)


@pytest.mark.parametrize("seed", range(20))
def test_no_steady_job_waits_or_is_stale(seed: int) -> None:
    session = open_session(random_cluster(seed))

    for spec in session.jobs.steady:
        job = session.jobs[spec.name]
        assert not job.has_pending
        assert not job.stale
        assert job.has_any(ALLOCATED_MASK)
        assert job.satisfied
