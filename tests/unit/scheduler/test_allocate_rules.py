"""How pending jobs are placed."""

# ruff: noqa: ANN401 - the facts of a made-up world can be anything

from typing import Any

from navarch.scheduler.config import SchedulerConfig
from navarch.scheduler.cycle import CycleResult, run_cycle
from navarch.scheduler.framework.decision import MarkStarted
from navarch.scheduler.model.cluster import JobSpec, PodSetSpec, SubGroupSpec, TaskSpec
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.worlds import (
    NOW,
    a_cluster,
    a_job,
    a_node,
    a_queue,
    ask,
    placed,
    promised,
)

ALLOCATE = SchedulerConfig(actions=("allocate",))


def allocate(*jobs: JobSpec, gpus: int = 8, **facts: Any) -> CycleResult:
    return run_cycle(a_cluster(nodes={"a": gpus}, jobs=jobs, **facts), ALLOCATE)


def leaving(name: str, gpus: int = 1) -> JobSpec:
    task = TaskSpec(uid=f"{name}-0", status=TaskStatus.RELEASING, node="a", request=ask(gpus))
    root = SubGroupSpec(pod_sets=(PodSetSpec(name="default"),))
    return JobSpec(name=name, queue="queue", created_at=NOW, tasks=(task,), root=root)


def test_a_gang_is_all_or_nothing() -> None:
    result = allocate(a_job("big", tasks=3, gpus=4, age=1), a_job("small", gpus=4))

    assert placed(result) == {"small-0": "a"}


def test_a_job_of_higher_priority_is_placed_before_an_older_one() -> None:
    result = allocate(a_job("old", age=99), a_job("urgent", priority=60), gpus=1)

    assert placed(result) == {"urgent-0": "a"}


def test_the_older_of_two_jobs_with_equal_priority_is_placed() -> None:
    assert placed(allocate(a_job("new"), a_job("old", age=1), gpus=1)) == {"old-0": "a"}


def test_an_elastic_job_competes_again_for_every_extra_task() -> None:
    result = allocate(a_job("elastic", tasks=4, minimum=1, age=9), a_job("second", tasks=2), gpus=4)

    assert sorted(placed(result)) == ["elastic-0", "elastic-1", "second-0", "second-1"]


def test_a_task_is_nominated_where_another_is_leaving() -> None:
    result = allocate(leaving("gone"), a_job("next"), gpus=1)

    assert placed(result) == {}
    assert promised(result) == {"next-0": "a"}


def test_tasks_that_fit_now_wait_for_the_rest_of_their_gang() -> None:
    result = allocate(leaving("gone"), a_job("gang", tasks=2), gpus=2)

    assert placed(result) == {}
    assert promised(result) == {"gang-0": "a", "gang-1": "a"}


def test_a_nominated_place_is_not_given_to_another_task() -> None:
    result = allocate(leaving("gone"), a_job("first", tasks=2, age=1), a_job("other"), gpus=2)

    assert placed(result) == {}
    assert sorted(promised(result)) == ["first-0", "first-1"]


def test_tasks_above_the_minimum_do_not_delay_the_gang() -> None:
    result = allocate(leaving("gone"), a_job("elastic", tasks=2, minimum=1), gpus=2)

    assert placed(result) == {"elastic-0": "a"}
    assert promised(result) == {"elastic-1": "a"}


def test_a_job_with_fewer_tasks_than_its_minimum_is_not_placed() -> None:
    assert placed(allocate(a_job("few", tasks=2, minimum=3))) == {}


def test_gated_tasks_do_not_count_towards_the_minimum() -> None:
    gated = a_job("gated", tasks=2)
    tasks = (gated.tasks[0], TaskSpec(uid="x", status=TaskStatus.GATED, request=ask(1)))
    job = JobSpec(name="gated", queue="queue", created_at=NOW, root=gated.root, tasks=tasks)

    assert placed(allocate(job)) == {}


def test_the_start_of_a_job_is_recorded_once() -> None:
    result = allocate(a_job("elastic", tasks=3, minimum=1))

    assert [d for d in result.decisions if isinstance(d, MarkStarted)] == [
        MarkStarted(job="elastic", at=NOW)
    ]


def test_a_limit_is_not_exceeded() -> None:
    jobs = [a_job(f"job{i}", age=9 - i) for i in range(3)]

    result = allocate(*jobs, queues=[a_queue("queue", limit=2)])

    assert sorted(placed(result)) == ["job0-0", "job1-0"]
    assert "limit is 2" in result.unschedulable_jobs["job2"][0].summary


def test_the_limit_of_a_parent_applies_to_its_children() -> None:
    jobs = [a_job("one", queue="p"), a_job("two", queue="q")]
    queues = [a_queue("top", limit=1), a_queue("p", parent="top"), a_queue("q", parent="top")]

    assert len(placed(allocate(*jobs, queues=queues))) == 1


def test_non_preemptible_jobs_stay_within_quota() -> None:
    jobs = [a_job("fixed", gpus=2, preemptible=False), a_job("flexible", gpus=2)]

    assert placed(allocate(*jobs, queues=[a_queue("queue", quota=1)])) == {"flexible-0": "a"}


def test_both_groups_of_a_job_are_placed_or_neither() -> None:
    root = SubGroupSpec(
        pod_sets=(
            PodSetSpec(name="left", min_available=1),
            PodSetSpec(name="right", min_available=1),
        )
    )

    def job(right: int) -> JobSpec:
        tasks = (
            TaskSpec(uid="l", sub_group="left", request=ask(1)),
            TaskSpec(uid="r", sub_group="right", request=ask(right)),
        )
        return JobSpec(name="job", queue="queue", created_at=NOW, root=root, tasks=tasks)

    assert placed(allocate(job(1))) == {"l": "a", "r": "a"}
    assert placed(allocate(job(8))) == {}


def test_a_job_without_a_queue_stays_pending_with_a_reason() -> None:
    jobs = [
        a_job("lost", queue="nowhere"),
        a_job("stuck", queue="top"),
        a_job("runs-anyway", queue="nowhere", on="a"),
        a_job("fine", gpus=7),
        a_job("waits", gpus=8, priority=75),
    ]
    queues = [a_queue("top"), a_queue("queue", parent="top")]

    result = run_cycle(a_cluster(nodes={"a": 8}, queues=queues, jobs=jobs))

    assert "fine-0" in placed(result)
    assert result.unschedulable_jobs["lost"][0].summary == "queue 'nowhere' does not exist"
    assert result.unschedulable_jobs["stuck"][0].summary == (
        "queue 'top' has queues in it, so it serves no jobs"
    )


def test_the_order_of_lists_does_not_matter() -> None:
    nodes = [a_node(name, 2) for name in "abc"]
    jobs = [a_job(f"job{i}") for i in range(4)]
    forwards = run_cycle(a_cluster(nodes=nodes, jobs=jobs), ALLOCATE)
    backwards = run_cycle(a_cluster(nodes=nodes[::-1], jobs=jobs[::-1]), ALLOCATE)

    assert forwards.decisions == backwards.decisions
