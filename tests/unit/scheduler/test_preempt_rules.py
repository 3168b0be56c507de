"""A job preempts others of its own queue."""

from datetime import timedelta

import pytest

from navarch.scheduler.config import DEFAULT_PLUGINS, PluginConfig, SchedulerConfig
from navarch.scheduler.cycle import CycleResult, run_cycle
from navarch.scheduler.model.cluster import Cluster
from navarch.scheduler.worlds import NOW, a_cluster, a_job, a_queue, promised, stopped


def preempt(cluster: Cluster, **min_runtime: str) -> CycleResult:
    plugins = tuple(
        PluginConfig(name=p.name, arguments=min_runtime) if p.name == "minruntime" else p
        for p in DEFAULT_PLUGINS
    )
    return run_cycle(cluster, SchedulerConfig(actions=("preempt",), plugins=plugins))


def test_a_job_preempts_one_of_lower_priority() -> None:
    jobs = [a_job("low", on="a", priority=50), a_job("high", priority=75)]

    result = preempt(a_cluster(nodes={"a": 1}, jobs=jobs))

    assert stopped(result) == ["low-0"]
    assert promised(result) == {"high-0": "a"}


@pytest.mark.parametrize("priority", [50, 49])
def test_a_job_does_not_preempt_one_of_equal_or_higher_priority(priority: int) -> None:
    jobs = [a_job("held", on="a", priority=50), a_job("wants", priority=priority, age=9)]

    assert stopped(preempt(a_cluster(nodes={"a": 1}, jobs=jobs))) == []


def test_a_job_does_not_preempt_jobs_of_another_queue() -> None:
    jobs = [a_job("held", queue="q", on="a"), a_job("wants", queue="p", priority=75)]
    queues = [a_queue("p"), a_queue("q")]

    assert stopped(preempt(a_cluster(nodes={"a": 1}, queues=queues, jobs=jobs))) == []


def test_a_non_preemptible_job_is_not_a_victim() -> None:
    jobs = [a_job("held", on="a", preemptible=False), a_job("wants", priority=75)]

    assert stopped(preempt(a_cluster(nodes={"a": 1}, jobs=jobs))) == []


def test_the_lowest_priority_is_evicted_first_then_the_youngest() -> None:
    jobs = [
        a_job("low-old", on="a", priority=10, age=9),
        a_job("low-young", on="a", priority=10, age=1),
        a_job("mid", on="a", priority=20),
        a_job("high", gpus=2, priority=75),
    ]

    assert stopped(preempt(a_cluster(nodes={"a": 3}, jobs=jobs))) == ["low-young-0", "low-old-0"]


def test_an_elastic_job_loses_only_tasks_above_its_minimum() -> None:
    jobs = [
        a_job("elastic", tasks=3, on="a", minimum=1, priority=10),
        a_job("high", gpus=2, priority=75),
    ]

    assert stopped(preempt(a_cluster(nodes={"a": 3}, jobs=jobs))) == ["elastic-2", "elastic-1"]


def test_a_gang_is_evicted_completely() -> None:
    jobs = [a_job("gang", tasks=3, on="a", priority=10), a_job("high", priority=75)]

    stopped_tasks = stopped(preempt(a_cluster(nodes={"a": 3}, jobs=jobs)))

    assert sorted(stopped_tasks) == ["gang-0", "gang-1", "gang-2"]


def test_a_non_preemptible_preemptor_must_stay_within_quota() -> None:
    jobs = [a_job("low", gpus=2, on="a"), a_job("fixed", gpus=2, priority=125)]
    queues = [a_queue("queue", quota=1)]

    assert stopped(preempt(a_cluster(nodes={"a": 2}, queues=queues, jobs=jobs))) == []


def test_a_job_within_its_minimum_run_time_is_not_evicted() -> None:
    held = a_job("held", on="a", last_start=NOW - timedelta(minutes=5))
    cluster = a_cluster(nodes={"a": 1}, jobs=[held, a_job("high", priority=75)])

    assert stopped(preempt(cluster, defaultPreemptMinRuntime="10m")) == []
    assert stopped(preempt(cluster, defaultPreemptMinRuntime="5m")) == ["held-0"]


def test_a_queue_sets_the_minimum_run_time_of_its_jobs() -> None:
    held = a_job("held", on="a", last_start=NOW - timedelta(minutes=5))
    cluster = a_cluster(
        nodes={"a": 1},
        queues=[
            a_queue("top", preempt_min_runtime=timedelta(hours=1)),
            a_queue("queue", parent="top"),
        ],
        jobs=[held, a_job("high", priority=75)],
    )

    assert stopped(preempt(cluster)) == []


def test_a_protected_job_may_still_lose_tasks_above_its_minimum() -> None:
    held = a_job("held", tasks=2, minimum=1, on="a", last_start=NOW)
    one = a_cluster(nodes={"a": 2}, jobs=[held, a_job("high", priority=75)])
    both = a_cluster(nodes={"a": 2}, jobs=[held, a_job("high", gpus=2, priority=75)])

    assert stopped(preempt(one, defaultPreemptMinRuntime="1h")) == ["held-1"]
    assert stopped(preempt(both, defaultPreemptMinRuntime="1h")) == []


def test_nothing_is_evicted_for_a_job_that_would_not_fit() -> None:
    jobs = [a_job("low", on="a"), a_job("high", gpus=3, priority=75)]

    result = preempt(a_cluster(nodes={"a": 2}, jobs=jobs))

    assert stopped(result) == []


def test_a_gang_is_solved_task_by_task_over_several_nodes() -> None:
    jobs = [
        *(a_job(f"low-{n}", gpus=2, on=n, priority=10) for n in ("a", "b", "c")),
        a_job("high", tasks=2, gpus=2, priority=75),
    ]

    result = preempt(a_cluster(nodes={"a": 2, "b": 2, "c": 2}, jobs=jobs))

    assert len(stopped(result)) == 2
    assert len(promised(result)) == 2
