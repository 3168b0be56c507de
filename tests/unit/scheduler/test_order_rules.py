"""The order of jobs, tasks and pod sets."""

from typing import Any

from navarch.scheduler.cycle import open_session
from navarch.scheduler.framework.gang import tasks_to_evict, tasks_to_place
from navarch.scheduler.model.cluster import JobSpec, PodSetSpec, SubGroupSpec, TaskSpec
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.plugins.orders import elasticity
from navarch.scheduler.worlds import NOW, a_cluster, a_job, ask


def first_task(**tasks: dict[str, Any]) -> str:
    """Return which of these tasks is placed first."""
    specs = tuple(TaskSpec(uid=uid, request=ask(1), **facts) for uid, facts in tasks.items())
    root = SubGroupSpec(pod_sets=(PodSetSpec(name="default", min_available=1),))
    job = JobSpec(name="job", queue="queue", created_at=NOW, root=root, tasks=specs)
    session = open_session(a_cluster(nodes={"a": 8}, jobs=[job]))
    return tasks_to_place(session, session.jobs["job"], real=True)[0].uid


def test_the_master_of_a_kubeflow_job_starts_first() -> None:
    role = "training.kubeflow.org/job-role"
    assert first_task(a={"labels": {role: "worker"}}, b={"labels": {role: "master"}}) == "b"
    assert first_task(a={"labels": {role: "worker"}}, b={"labels": {role: "launcher"}}) == "b"


def test_the_head_of_a_ray_cluster_starts_first() -> None:
    kind = "ray.io/node-type"
    assert first_task(a={"labels": {kind: "worker"}}, b={"labels": {kind: "head"}}) == "b"


def test_tasks_start_in_the_order_of_their_numbers() -> None:
    assert first_task(a={"order_priority": "1"}, b={"order_priority": "12"}) == "b"
    assert first_task(a={}, b={"order_priority": "-5"}) == "b"
    assert first_task(a={"order_priority": "first!"}, b={}) == "b"


def test_older_tasks_start_first_then_by_name() -> None:
    assert first_task(b={}, a={}) == "a"
    from datetime import timedelta

    assert first_task(a={}, b={"created_at": NOW - timedelta(minutes=1)}) == "b"


def two_groups(*states: tuple[str, str | None]) -> JobSpec:
    """Return a job with groups `a` and `b`, each needing one task."""
    tasks = tuple(
        TaskSpec(
            uid=f"{group}{i}",
            sub_group=group,
            status=TaskStatus.RUNNING if node else TaskStatus.PENDING,
            node=node,
            request=ask(1),
        )
        for i, (group, node) in enumerate(states)
    )
    root = SubGroupSpec(pod_sets=tuple(PodSetSpec(name=name) for name in "ab"))
    return JobSpec(name="job", queue="queue", created_at=NOW, root=root, tasks=tasks)


def test_pod_sets_below_their_minimum_are_served_first() -> None:
    job = two_groups(("a", None), ("a", None), ("b", None), ("b", None))
    session = open_session(a_cluster(nodes={"n": 8}, jobs=[job]))

    chosen = tasks_to_place(session, session.jobs["job"], real=True)

    assert [task.uid for task in chosen] == ["a0", "b2"]


def test_growth_goes_to_the_pod_set_with_the_fewest_tasks_for_its_minimum() -> None:
    job = two_groups(("a", "n"), ("a", "n"), ("a", None), ("b", "n"), ("b", None))
    session = open_session(a_cluster(nodes={"n": 8}, jobs=[job]))

    chosen = tasks_to_place(session, session.jobs["job"], real=True)

    assert [task.uid for task in chosen] == ["b4"]


def test_tasks_above_the_minimum_are_taken_from_the_fullest_pod_set() -> None:
    job = two_groups(("a", "n"), ("a", "n"), ("b", "n"))
    session = open_session(a_cluster(nodes={"n": 8}, jobs=[job]))

    unit, more = tasks_to_evict(session, session.jobs["job"])

    assert ([task.uid for task in unit], more) == (["a1"], True)


def test_a_job_at_its_minimum_is_evicted_completely() -> None:
    job = two_groups(("a", "n"), ("b", "n"))
    session = open_session(a_cluster(nodes={"n": 8}, jobs=[job]))

    unit, more = tasks_to_evict(session, session.jobs["job"])

    assert (sorted(task.uid for task in unit), more) == (["a0", "b1"], False)


def test_elasticity_distinguishes_jobs_below_at_and_above_their_minimum() -> None:
    jobs = [
        a_job("below", tasks=2, on=["n", None], minimum=2),
        a_job("at", tasks=2, on=["n", None], minimum=1),
        a_job("above", tasks=2, on="n", minimum=1),
    ]
    session = open_session(a_cluster(nodes={"n": 8}, jobs=jobs))

    assert [elasticity(session.jobs[name]) for name in ("below", "at", "above")] == [0, 1, 2]
