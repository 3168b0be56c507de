"""Slow GPUs and the jobs that run on them."""

from datetime import timedelta

import pytest

from navarch.sim.runner.outcome import Outcome
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import parse_scenario

TRAINING = """
name: a gang of two
duration: 2h
timing: {heartbeat_interval: 1m, heartbeat_timeout: 3m, health_check_interval: 5m}
fleet: [{id: n1, gpu_count: 8}, {id: n2, gpu_count: 8}, {id: n3, gpu_count: 8}]
jobs:
  - {name: training, at: 1m, tasks: 2, gpus: 8, duration: 1h}
  - {name: other, at: 1m, tasks: 1, gpus: 8, duration: 1h}
events:
  - {at: 0s, action: start_fleet}
"""
SLOW = "  - {at: %s, action: inject_failure, target: %s, params: {failure_type: straggler}}\n"
MENDED = "  - {at: %s, action: recover_failure, target: %s}\n"


def ran(outcome: Outcome, name: str) -> timedelta:
    job = next(job for job in outcome.jobs if job.name == name)
    assert job.finished is not None, name
    assert job.interruptions == 0
    return job.finished - job.submitted - timedelta(seconds=job.waited_s)


def play(*events: str) -> Outcome:
    return run_scenario(parse_scenario(TRAINING + "".join(events)))


@pytest.fixture(scope="module")
def gang() -> list[str]:
    """Return the nodes of the gang, followed by the node of the other job."""
    slow = {
        node: ran(play(SLOW % ("20m", node)), "training") > timedelta(hours=1)
        for node in ("n1", "n2", "n3")
    }
    return sorted(slow, key=lambda node: not slow[node])


def test_one_slow_machine_slows_its_whole_gang_and_no_other_job(gang: list[str]) -> None:
    outcome = play(SLOW % ("21m", gang[0]))

    # A third of the work is done at full speed, the rest at 70 %.
    waited = next(job.waited_s for job in outcome.jobs if job.name == "training")
    full = timedelta(minutes=20) - timedelta(seconds=waited)
    rest = (timedelta(hours=1) - full) / 0.7
    assert ran(outcome, "training") == pytest.approx(full + rest, abs=timedelta(seconds=1))
    assert ran(outcome, "other") == timedelta(hours=1)


def test_a_gang_runs_at_full_speed_again_once_its_machine_recovers(gang: list[str]) -> None:
    outcome = play(SLOW % ("21m", gang[0]), MENDED % ("31m", gang[0]))

    lost = timedelta(minutes=10) * 0.3
    expected = timedelta(hours=1) + lost
    assert ran(outcome, "training") == pytest.approx(expected, abs=timedelta(seconds=1))


def test_a_gang_with_two_slow_machines_is_slow_until_both_recover(
    gang: list[str],
) -> None:
    outcome = play(
        SLOW % ("21m", gang[0]),
        SLOW % ("26m", gang[1]),
        MENDED % ("31m", gang[0]),
        MENDED % ("36m", gang[1]),
    )

    expected = timedelta(hours=1) + timedelta(minutes=15) * 0.3
    assert ran(outcome, "training") == pytest.approx(expected, abs=timedelta(seconds=1))
    assert outcome.figures.goodput.slowed_gpu_hours == pytest.approx(16 * 15 * 0.3 / 60, abs=0.01)


def test_a_gang_that_starts_on_a_slow_machine_is_slow_from_its_start(gang: list[str]) -> None:
    outcome = play(SLOW % ("30s", gang[0]))

    assert ran(outcome, "training") == pytest.approx(
        timedelta(hours=1) / 0.7, abs=timedelta(seconds=1)
    )
    ettr = outcome.figures.goodput.ettr
    assert ettr is not None
    assert ettr < 0.85
