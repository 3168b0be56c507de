"""Jobs: what is saved, what is lost."""

from datetime import UTC, datetime, timedelta

import pytest

from navarch.sim.jobs.job import Job
from navarch.sim.scenario.work import JobConfig

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_job(**told: object) -> Job:
    settings = {"name": "j", "duration": timedelta(hours=1), **told}
    config = JobConfig(**settings)  # type: ignore[arg-type]
    return Job(name="j", config=config, submitted=NOW, since=NOW)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def test_an_interruption_costs_what_was_done_since_the_last_checkpoint() -> None:
    job = a_job(checkpoint_every=minutes(10))
    job.start(NOW)
    job.stop(NOW + minutes(25), saved=False)

    assert job.kept_s == 20 * 60
    assert job.lost_s == 5 * 60


def test_a_drain_in_time_costs_nothing() -> None:
    job = a_job(checkpoint_every=minutes(10))
    job.start(NOW)
    job.stop(NOW + minutes(25), saved=True)

    assert job.kept_s == 25 * 60
    assert job.lost_s == 0


def test_a_job_without_checkpoints_begins_again() -> None:
    job = a_job()
    job.start(NOW)
    job.stop(NOW + minutes(59), saved=True)

    assert job.kept_s == 0
    assert job.run_s() == 3600


@pytest.mark.parametrize("every", [5, 7, 60])
def test_checkpoints_and_starts_take_their_time(every: int) -> None:
    job = a_job(
        checkpoint_every=minutes(every), checkpoint_takes=minutes(1), restart_takes=minutes(2)
    )
    job.start(NOW)
    takes = job.run_s()
    job.finish(NOW + timedelta(seconds=takes))

    saves = -(-60 // every) - 1
    assert takes == (2 + 60 + saves) * 60
    assert job.kept_s == 3600
    assert job.overhead_s == (2 + saves) * 60
