"""Jobs are moved to make room for others."""

from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.cycle import CycleResult, run_cycle
from navarch.scheduler.model.cluster import Cluster
from navarch.scheduler.worlds import a_cluster, a_job, a_node, ask, placed, promised, stopped


def consolidate(cluster: Cluster, victims: int | None = 16) -> CycleResult:
    parameters = Parameters(max_consolidation_victims=victims)
    return run_cycle(cluster, SchedulerConfig(actions=("consolidation",), parameters=parameters))


def fragmented(*, preemptible: bool = True) -> Cluster:
    return a_cluster(
        nodes={"a": 2, "b": 2},
        jobs=[
            a_job("one", on="a", age=2),
            a_job("two", on="b", age=1),
            a_job("big", gpus=2, preemptible=preemptible),
        ],
    )


def test_a_job_is_moved_to_make_room() -> None:
    result = consolidate(fragmented())

    assert stopped(result) == ["two-0"]
    assert promised(result) == {"two-0": "a", "big-0": "b"}


def test_a_job_without_another_place_is_not_moved() -> None:
    """Two GPUs are free, but the job to be moved needs more than what would be left."""
    cluster = a_cluster(
        nodes={"a": 3, "b": 3},
        jobs=[a_job("one", gpus=2, on="a"), a_job("two", gpus=2, on="b"), a_job("big", gpus=2)],
    )

    assert stopped(consolidate(cluster)) == []


def test_no_job_is_moved_for_a_non_preemptible_job() -> None:
    assert stopped(consolidate(fragmented(preemptible=False))) == []


def test_a_maximum_of_no_victims_turns_consolidation_off() -> None:
    assert stopped(consolidate(fragmented(), victims=0)) == []


def test_at_most_the_configured_number_of_jobs_is_considered() -> None:
    """The limit is exact, and the first victims in order are the candidates."""
    jobs = [a_job(f"job{i}", on="a", age=9 - i) for i in range(3)]
    jobs += [a_job("young", on="b", age=1), a_job("big", gpus=3)]
    cluster = a_cluster(nodes={"a": 4, "b": 3}, jobs=jobs)

    assert promised(consolidate(cluster, victims=1)) == {"young-0": "a", "big-0": "b"}
    # Only the youngest of the three on `a` is considered, and it does not free enough.
    older = a_cluster(
        nodes={"a": 4, "b": 3}, jobs=[*jobs[:3], a_job("young", on="b", age=99), jobs[4]]
    )
    assert promised(consolidate(older, victims=1)) == {}
    assert promised(consolidate(older, victims=2)) == {"job2-0": "b", "job1-0": "b", "big-0": "a"}


def test_all_tasks_of_a_shared_gpu_are_moved_to_free_it() -> None:
    cluster = a_cluster(
        nodes=[a_node("a", 2)],
        jobs=[
            a_job("one", request=ask(0.3), on="a", groups=["x"], age=2),
            a_job("two", request=ask(0.4), on="a", groups=["y"], age=1),
            a_job("whole", gpus=1),
        ],
    )

    result = consolidate(cluster)

    assert stopped(result) == ["two-0"]
    assert promised(result) == {"two-0": "a", "whole-0": "a"}
    assert placed(result) == {}
