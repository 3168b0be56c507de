"""Eviction of gangs below their minimum."""

from datetime import timedelta

from navarch.scheduler.config import Parameters, SchedulerConfig
from navarch.scheduler.cycle import CycleResult, run_cycle
from navarch.scheduler.framework.decision import MarkStale
from navarch.scheduler.model.cluster import JobSpec, TaskSpec
from navarch.scheduler.model.status import TaskStatus
from navarch.scheduler.worlds import NOW, a_cluster, a_job, ask, stopped

MINUTE = timedelta(minutes=1)


def evict_stale(
    job: JobSpec, *, grace: timedelta | None = MINUTE, later: timedelta = timedelta(0)
) -> CycleResult:
    config = SchedulerConfig(
        actions=("stalegangeviction",), parameters=Parameters(staleness_grace=grace)
    )
    return run_cycle(a_cluster(nodes={"a": 8}, jobs=[job], now=NOW + later), config)


def short(**facts: object) -> JobSpec:
    """Return a job with one of its two required tasks running."""
    return a_job("short", tasks=2, on=["a", None], **facts)  # type: ignore[arg-type]


def test_a_job_below_its_minimum_is_marked_stale_first() -> None:
    result = evict_stale(short())

    assert result.decisions == (MarkStale(job="short", since=NOW),)


def test_a_stale_job_is_evicted_after_the_grace_period() -> None:
    job = short(stale_since=NOW)

    assert stopped(evict_stale(job, later=timedelta(seconds=59))) == []
    assert stopped(evict_stale(job, later=timedelta(seconds=60))) == ["short-0"]


def test_without_a_grace_period_a_stale_job_is_evicted_immediately() -> None:
    assert stopped(evict_stale(short(), grace=timedelta(0))) == ["short-0"]


def test_an_unlimited_grace_period_never_evicts() -> None:
    job = short(stale_since=NOW - timedelta(days=9))

    assert stopped(evict_stale(job, grace=None)) == []


def test_a_job_that_reaches_its_minimum_again_is_no_longer_stale() -> None:
    job = a_job("whole", tasks=2, on="a", stale_since=NOW)

    assert evict_stale(job).decisions == (MarkStale(job="whole", since=None),)


def test_a_finished_task_still_counts_towards_the_minimum() -> None:
    done = TaskSpec(uid="done", status=TaskStatus.SUCCEEDED, request=ask(1))
    job = short(stale_since=NOW - timedelta(hours=1))
    finished = JobSpec(
        name="short",
        queue="queue",
        created_at=NOW,
        stale_since=job.stale_since,
        root=job.root,
        tasks=(job.tasks[0], done),
    )

    assert stopped(evict_stale(finished)) == []


def test_a_releasing_task_still_counts_towards_the_minimum() -> None:
    job = a_job("leaving", tasks=2, on="a", stale_since=NOW - timedelta(hours=1))
    out = TaskSpec(uid="out", status=TaskStatus.RELEASING, node="a", request=ask(1))
    leaving = JobSpec(
        name="leaving",
        queue="queue",
        created_at=NOW,
        stale_since=job.stale_since,
        root=job.root,
        tasks=(job.tasks[0], out),
    )

    assert stopped(evict_stale(leaving)) == []
