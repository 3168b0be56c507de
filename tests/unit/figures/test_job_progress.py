"""The progress of a job: what is saved, and what is lost."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navarch.core.ids import JobName
from navarch.sim.runner.job_progress import JobProgress
from navarch.sim.scenario.kinds import JobConfig

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_job(**keys: object) -> JobProgress:
    settings = {"name": "j", "duration": timedelta(hours=1), **keys}
    config = JobConfig(**settings)  # type: ignore[arg-type]
    return JobProgress(name=JobName("j"), config=config, submitted=NOW)


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


def test_the_last_checkpoint_before_a_drain_takes_time_as_well() -> None:
    job = a_job(checkpoint_every=minutes(10), checkpoint_takes=minutes(1))
    job.start(NOW)
    job.stop(NOW + minutes(5), saved=True)

    assert job.kept_s == 4 * 60
    assert job.overhead_s == 60
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


@pytest.mark.parametrize("every", [None, minutes(7)], ids=["no checkpoints", "checkpoints"])
def test_a_slow_gpu_makes_work_take_longer_but_no_start_and_no_checkpoint(
    every: timedelta | None,
) -> None:
    job = a_job(checkpoint_every=every, checkpoint_takes=minutes(1), restart_takes=minutes(2))
    job.start(NOW, pace=0.5)
    usual_s = job.run_s()

    assert job.left_s(NOW) == pytest.approx(usual_s + 3600)
    job.finish(NOW + timedelta(seconds=job.left_s(NOW)))
    assert job.slowed_s == pytest.approx(3600)
    assert job.overhead_s == pytest.approx(usual_s - 3600)


def test_only_what_was_done_while_a_gpu_was_slow_took_longer() -> None:
    job = a_job(checkpoint_every=minutes(10))
    job.start(NOW)
    job.go_on_at(0.5, NOW + minutes(15))
    job.go_on_at(1.0, NOW + minutes(35))

    assert job.left_s(NOW + minutes(35)) == pytest.approx(35 * 60)
    job.stop(NOW + minutes(44), saved=False)
    assert (job.kept_s, job.lost_s) == pytest.approx((30 * 60, 4 * 60))
    assert job.slowed_s == pytest.approx(10 * 60)


@given(
    paces=st.lists(st.tuples(st.floats(0.1, 1.0), st.floats(0.0, 2000.0)), max_size=8),
    every=st.none() | st.integers(1, 60).map(minutes),
)
def test_all_time_from_start_to_end_is_kept_lost_overhead_or_slowed(
    paces: list[tuple[float, float]], every: timedelta | None
) -> None:
    job = a_job(checkpoint_every=every, checkpoint_takes=minutes(1), restart_takes=minutes(2))
    now = NOW
    job.start(now)
    for pace, seconds in paces:
        job.go_on_at(pace, now)
        now += timedelta(seconds=min(seconds, job.left_s(now)))
    job.stop(now, saved=False)
    first_s = (now - NOW).total_seconds()
    assert job.kept_s + job.lost_s + job.overhead_s + job.slowed_s == pytest.approx(first_s)
    assert job.slowed_s >= -1e-6

    job.start(now)
    job.finish(now + timedelta(seconds=job.left_s(now)))
    assert job.kept_s == pytest.approx(3600)


@pytest.mark.parametrize("pace", [1.0, 0.5])
@pytest.mark.parametrize("every", [5, 7, 60])
def test_checkpoints_are_due_when_their_work_is_saved(every: int, pace: float) -> None:
    job = a_job(
        checkpoint_every=minutes(every), checkpoint_takes=minutes(1), restart_takes=minutes(2)
    )
    job.start(NOW, pace=pace)
    now, saved = NOW, []
    number = job.next_save(now)
    while (wait_s := job.save_in_s(number, now)) is not None:
        now += timedelta(seconds=wait_s)
        number += 1
        assert job.next_save(now) == number
        saved.append((now - NOW).total_seconds())

    assert len(saved) == -(-60 // every) - 1
    span = every / pace + 1
    assert saved == pytest.approx([60 * (2 + span * n) for n in range(1, len(saved) + 1)])


def test_a_job_without_checkpoints_never_saves() -> None:
    job = a_job()
    job.start(NOW)
    assert job.save_in_s(job.next_save(NOW), NOW) is None
