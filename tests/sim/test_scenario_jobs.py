"""Scenario jobs are product jobs: submitted to the job service, placed by the control plane."""

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import navarch.sim
from navarch.control import jobs as job_loop
from navarch.service.jobs import JobService
from navarch.sim.runner.outcome import Outcome
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario
from navarch.testing.scenarios import scenario

SCENARIOS = Path(__file__).parents[2] / "scenarios"
PLACING = ("navarch.scheduler", "navarch.fleet.jobs.cluster", "navarch.fleet.jobs.placement")

BASE = """
name: jobs
timing: {heartbeat_interval: 10s, heartbeat_timeout: 30s, health_check_interval: 10s}
providers:
  cloud: {boot_min: 1m, boot_max: 2m}
pools:
  training: {provider: cloud, instance_type: h100-8x, min_nodes: NODES, max_nodes: NODES}
duration: 4h
"""


def run(more: str, *, nodes: int = 3, seed: int | None = None) -> Outcome:
    return scenario(BASE.replace("NODES", str(nodes)) + more).run(seed=seed)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often the product submits, plans, saves, requeues and finishes jobs."""
    found: Counter[str] = Counter()

    def spy(owner: object, name: str) -> None:
        real: Callable[..., object] = getattr(owner, name)

        def counted(*args: object, **kwargs: object) -> object:
            found[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)

    spy(job_loop, "plan_jobs")
    for name in ("submit_job", "checkpoint_job", "requeue_job", "finish_job"):
        spy(JobService, name)
    return found


def test_the_control_plane_takes_in_places_and_ends_the_jobs_of_a_scenario(
    calls: Counter[str],
) -> None:
    outcome = run_scenario(load_scenario(SCENARIOS / "autoscaling.yaml"))
    assert outcome.passed, outcome.broken
    assert calls["submit_job"] == 5
    assert calls["finish_job"] == 5
    assert calls["plan_jobs"] >= 5


def test_a_gang_of_64_tasks_or_more_is_placed_by_the_scheduler(calls: Counter[str]) -> None:
    outcome = run("jobs:\n  - {name: wide, tasks: 70, at: 10m, duration: 1h}\n", nodes=72)
    (job,) = outcome.jobs
    assert (job.finished is not None, job.starts) == (True, 1)
    assert calls["plan_jobs"] >= 1


def test_the_simulator_has_no_code_that_places_jobs() -> None:
    root = Path(navarch.sim.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{each.name}" for each in node.names)]
            elif isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            assert not [name for name in names if name.startswith(PLACING)], path


def test_a_job_is_requeued_when_its_program_fails_and_finishes_elsewhere(
    calls: Counter[str],
) -> None:
    outcome = run(
        """
jobs:
  - {name: train, tasks: 3, at: 10m, duration: 1h, checkpoint_every: 10m}
events:
  - at: 35m
    action: inject_failure
    target: training-0
    params: {failure_type: xid_error, xid_code: 79}
""",
        nodes=4,
    )
    (job,) = outcome.jobs
    assert job.finished is not None
    # The program fails and is requeued. The machine that it names has not yet reported the fault;
    # the gang is placed beside it, so that the drain of the machine interrupts nothing again.
    assert (calls["requeue_job"], job.interruptions) == (1, 1)
    assert (job.kept_s, round(job.lost_s)) == (3600, 300)
    assert calls["checkpoint_job"] == 5


def test_a_job_that_may_not_be_evicted_saves_its_work_before_it_leaves_a_drained_node(
    calls: Counter[str],
) -> None:
    outcome = run(
        """
jobs:
  - {name: train, at: 10m, duration: 1h, checkpoint_every: 30m, checkpoint_takes: 20s,
     preemptible: false, pool: training}
events:
  - {at: 25m, action: issue_command, target: training-0, params: {command_type: drain}}
  - {at: 25m, action: issue_command, target: training-1, params: {command_type: drain}}
""",
        nodes=3,
    )
    (job,) = outcome.jobs
    assert job.finished is not None
    assert job.lost_s == 0
    assert calls["requeue_job"] == job.interruptions


def test_a_preemptible_job_makes_room_for_one_of_higher_priority() -> None:
    outcome = run(
        """
jobs:
  - {name: cheap, at: 10m, duration: 1h, checkpoint_every: 10m}
  - {name: urgent, at: 35m, duration: 30m, priority: 200, preemptible: false}
""",
        nodes=1,
    )
    cheap, urgent = outcome.jobs
    assert (cheap.interruptions, round(cheap.lost_s)) == (1, 300)
    assert (urgent.interruptions, urgent.waited_s < 60) == (0, True)
    assert cheap.finished is not None
    assert urgent.finished is not None
    assert cheap.finished > urgent.finished


def test_a_job_that_the_job_service_refuses_fails_the_scenario() -> None:
    outcome = run("jobs:\n  - {name: Not A Name, at: 10m, duration: 1h}\n")
    assert [verdict.what for verdict in outcome.broken] == ["job Not A Name is accepted"]
    assert "must be lower-case letters" in outcome.broken[0].reason


@pytest.mark.parametrize("seed", range(6))
def test_every_job_ends_with_all_its_work_under_failures_and_crashes(seed: int) -> None:
    outcome = run(
        """
jobs:
  - {name: sweep, count: 6, every: 7m, at: 10m, gpus: 8, duration: 20m}
  - {name: wide, tasks: 3, gpus: 8, at: 12m, duration: 40m, checkpoint_every: 5m}
  - {name: firm, at: 20m, gpus: 8, duration: 40m, preemptible: false}
control_plane: {crashes: [{at: 22m, down_for: 1m}, {at: 41m, down_for: 2m}], conflicts: 0.1}
stress:
  duration: 90m
  chaos:
    enabled: true
    failure_rate: 6
    failure_types: [{type: xid_error, weight: 3}, {type: memory_error, weight: 1}]
    xid_distribution: {"79": 1, "31": 1}
""",
        nodes=8,
        seed=seed,
    )
    assert outcome.passed, outcome.broken
    assert sum(job.interruptions for job in outcome.jobs) > 0
    for job in outcome.jobs:
        assert job.finished is not None, job
        assert job.starts == job.interruptions + 1, job
        spent = (job.finished - job.submitted).total_seconds()
        parts = job.kept_s + job.lost_s + job.waited_s + job.overhead_s + job.slowed_s
        assert parts == pytest.approx(spent, abs=1e-3), job
